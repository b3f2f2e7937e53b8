"""Odd requests: those that cannot be drafted for, that end at once, or that ask for what makes no sense."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import requests
from client import CODE, LIST, PROMPTS, QUOTE, STORY, Server, account, chat, tokens_per_step

COPIED_TOKENS = 48  # after these the bundled model loses its place


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


def test_an_infinite_bias_ends_no_server(on: Server) -> None:
    for bias in (1e39, -1e39):
        on.generate(CODE, temperature=1.0, logit_bias={"5": bias}, request_return_logprob=True, max_new_tokens=4)
    assert on.generate(CODE, max_new_tokens=4)["meta_info"]["completion_tokens"] == 4


def test_a_bad_hint_is_ignored_and_said(on: Server) -> None:
    hints = {"version": {"version": 99}, "malformed": "nonsense", "also malformed": {"version": 1, "off": "yes"}}
    calls = [{}, *({"custom_params": {"sgl_spec": hint}} for hint in hints.values())]
    plain, *answers = on.generate_all([{"prompt": QUOTE, "max_new_tokens": 16, **call} for call in calls])
    for reason, answer in zip(hints, answers, strict=True):
        assert account(answer)["ignored_hint"] == reason.split()[-1]
        assert answer["output_ids"] == plain["output_ids"]


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


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"text": ""}, "the prompt has no token"),
        ({"text": ["a", ""]}, "the prompt has no token"),
        ({"text": "a", "custom_logit_processor": "nonsense"}, "custom_logit_processor cannot be loaded"),
        (
            {"text": "a", "sampling_params": {"min_new_tokens": 2, "stop_token_ids": [10**6]}},
            "stop_token_ids has",
        ),
    ],
)
def test_a_request_that_would_end_the_server_is_refused_alone(on: Server, body: dict[str, Any], named: str) -> None:
    answer = requests.post(f"{on.url}/generate", json=body, timeout=60)
    assert answer.status_code == 400
    assert named in answer.text
    assert on.generate("a", max_new_tokens=1)["output_ids"]
