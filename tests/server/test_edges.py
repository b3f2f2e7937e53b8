"""Where a run ends, and what is told about it: stops inside an accepted run, limits, streams, logprobs, counts."""

from __future__ import annotations

import itertools
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
    assert counts["drafted"]["lookup"] == counts["drafted"]["all"]


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
    assert account(on.generate(STORY))["abstained"].get("no_match", 0) > 0
