"""Where a run ends, and what is told about it: stops inside an accepted run, limits, streams, logprobs, counts."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from client import CODE, LIST, OFF, PEOPLE, PROMPTS, QUOTE, STORY, Server, account, chat, tokens_per_step

COPIED_TOKENS = 48  # after these the bundled model loses its place


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 16, 17, 31])
def test_max_new_tokens_cuts_at_the_exact_token(on: Server, off: Server, limit: int) -> None:
    ours, stock = (s.generate(CODE, max_new_tokens=limit) for s in (on, off))
    assert ours["output_ids"] == stock["output_ids"]
    assert ours["meta_info"]["completion_tokens"] == limit


@pytest.mark.parametrize("stop", [["three weeks"], ["renewed"], ["\n"], [" books", "twice"], ["."]])
def test_stop_strings_cut_inside_a_run(on: Server, off: Server, stop: list[str]) -> None:
    ours, stock = (s.generate(QUOTE, stop=stop, max_new_tokens=80) for s in (on, off))
    for field in ("text", "output_ids"):
        assert ours[field] == stock[field]
    for field in ("finish_reason", "completion_tokens"):
        assert ours["meta_info"][field] == stock["meta_info"][field]


def test_stop_token_and_end_of_text(on: Server, off: Server) -> None:
    token = off.generate(QUOTE)["output_ids"][12]
    for params in ({"stop_token_ids": [token]}, {"max_new_tokens": 200}):
        ours, stock = (s.generate(QUOTE, **params) for s in (on, off))
        assert ours["output_ids"] == stock["output_ids"]
        assert ours["meta_info"]["finish_reason"] == stock["meta_info"]["finish_reason"]


@pytest.mark.parametrize("prompt", PROMPTS)
def test_counts_agree_with_the_output(on: Server, prompt: str) -> None:
    answer = on.generate(prompt, max_new_tokens=80)
    counts, meta = account(answer), answer["meta_info"]
    # The first token comes from the prefill; every round commits its accepted drafts and one bonus.
    assert counts["tokens"] == meta["completion_tokens"] - 1
    assert counts["rounds"] == meta["spec_verify_ct"]
    assert 0 <= counts["rounds"] + counts["accepted"]["all"] - counts["tokens"] <= 1  # a stop may take the bonus
    assert counts["accepted"]["all"] <= counts["drafted"]["all"]
    assert counts["accepted"]["all"] <= counts["reached"]["all"] <= counts["drafted"]["all"]
    assert sum(n for origin, n in counts["drafted"].items() if origin != "all") >= counts["drafted"]["all"]


def test_a_stream_ends_with_the_same_text_and_never_takes_back(on: Server) -> None:
    whole = on.generate(QUOTE + "Überraschung: 東京, naïve café 🦊\n")
    chunks = on.stream(QUOTE + "Überraschung: 東京, naïve café 🦊\n")
    texts = [chunk["text"] for chunk in chunks]
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(texts))
    assert texts[-1] == whole["text"]
    assert account(chunks[-1])["tokens"] == whole["meta_info"]["completion_tokens"] - 1


def test_logprobs_equal_those_without_speculation(on: Server) -> None:
    wanted: dict[str, Any] = {"request_return_logprob": True, "request_top_logprobs_num": 3}
    drafted = on.generate(PEOPLE, **wanted)["meta_info"]
    alone = on.generate(PEOPLE, custom_params=OFF, **wanted)["meta_info"]
    for field in ("output_token_logprobs", "output_top_logprobs"):
        assert len(drafted[field]) == drafted["completion_tokens"]
        assert drafted[field] == alone[field]


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"frequency_penalty": 0.7}, "penalty"),
        ({"presence_penalty": 0.7}, "penalty"),
        ({"repetition_penalty": 1.3}, "penalty"),
        ({"min_new_tokens": 40}, "min_new_tokens"),
    ],
)
def test_what_the_tree_cannot_honour_abstains_and_is_exact(
    on: Server, off: Server, params: dict[str, Any], reason: str
) -> None:
    ours, stock = (s.generate(CODE, **params) for s in (on, off))
    assert ours["output_ids"] == stock["output_ids"]
    assert account(ours)["abstained"][reason] > 0


def _processor() -> str:
    program = Path(__file__).with_name("logit_processor.py")
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


def test_a_custom_logit_processor_beside_seven_ordinary_requests(on: Server, off: Server) -> None:
    banned = off.generate(CODE, max_new_tokens=1)["output_ids"][0]
    odd = {
        "prompt": CODE,
        "request_custom_logit_processor": _processor(),
        "custom_params": {"banned": banned},
    }
    alone = off.generate(**odd)
    together = on.generate_all([odd, *({"prompt": prompt} for prompt in (*PROMPTS, *PROMPTS[:3]))])
    assert together[0]["output_ids"] == alone["output_ids"]
    assert banned not in alone["output_ids"][:10]
    assert account(together[0])["abstained"]["custom_logit_processor"] > 0
    assert all(account(answer)["drafted"]["all"] > 0 for answer in together[1:])


@pytest.mark.parametrize("limit", [0, 1])
def test_a_request_that_ends_in_its_prefill_has_an_account_of_no_rounds(on: Server, limit: int) -> None:
    answer = on.generate(STORY, max_new_tokens=limit)
    assert account(answer)["rounds"] == account(answer)["tokens"] == 0


def test_sampled_logprobs_equal_those_without_speculation(on: Server) -> None:
    wanted: dict[str, Any] = {
        "request_return_logprob": True, "request_logprob_start_len": 0, "temperature": 0.8, "sampling_seed": 5,
    }  # fmt: skip
    drafted, alone = (on.generate(QUOTE, custom_params=c, **wanted)["meta_info"] for c in ({}, OFF))
    for field in ("output_token_logprobs", "input_token_logprobs"):
        assert drafted[field] == alone[field]


def test_an_infinite_bias_ends_no_server(on: Server) -> None:
    for bias in (1e39, -1e39):
        on.generate(CODE, temperature=1.0, logit_bias={"5": bias}, request_return_logprob=True, max_new_tokens=4)
    assert on.generate(CODE, max_new_tokens=4)["meta_info"]["completion_tokens"] == 4


def test_an_abstaining_request_beside_speculating_ones(on: Server, off: Server) -> None:
    odd = {"prompt": CODE, "repetition_penalty": 1.2}
    calls = [odd, *({"prompt": prompt} for prompt in PROMPTS)]
    together = on.generate_all(calls)
    assert together[0]["output_ids"] == off.generate(**odd)["output_ids"]
    assert all(account(answer)["drafted"]["all"] > 0 for answer in together[1:])


@pytest.mark.parametrize(
    ("hint", "reason"),
    [({"version": 99}, "version"), ("nonsense", "malformed"), ({"version": 1, "off": "yes"}, "malformed")],
)
def test_a_bad_hint_is_ignored_and_said(on: Server, hint: Any, reason: str) -> None:
    answer = on.generate(QUOTE, custom_params={"sgl_spec": hint})
    assert account(answer)["ignored_hint"] == reason
    assert answer["output_ids"] == on.generate(QUOTE)["output_ids"]


def test_a_copied_list_takes_few_steps(on: Server, off: Server) -> None:
    lines = "\n".join(LIST)
    prompt = chat(f"Repeat this list word for word:\n\n{lines}") + "\n".join(LIST[:5]) + "\n"
    ours = on.generate(prompt, max_new_tokens=COPIED_TOKENS)
    assert "\n".join(LIST[5:]).startswith(ours["text"]), "the model did not copy, so this measures nothing"
    assert tokens_per_step(ours) > 6
    assert ours["output_ids"] == off.generate(prompt, max_new_tokens=COPIED_TOKENS)["output_ids"]


def test_nothing_to_draft_is_counted_as_such(on: Server) -> None:
    without_memory = {"sgl_spec": {"version": 1, "memory": "off"}}
    assert account(on.generate(STORY, custom_params=without_memory))["abstained"].get("no_match", 0) > 0
