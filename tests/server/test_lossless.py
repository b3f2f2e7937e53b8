"""The same bytes with and without speculation: greedy and sampled, alone and in a batch that changes midway."""

from __future__ import annotations

from typing import Any

import pytest
import requests
from client import CODE, OFF, PEOPLE, PROMPTS, QUOTE, STORY, Server, account, chat

SAMPLED: list[dict[str, Any]] = [
    {"temperature": 0.7, "sampling_seed": 7},
    {"temperature": 1.2, "sampling_seed": 8, "top_k": 40},
    {"temperature": 1.0, "sampling_seed": 9, "top_p": 0.9},
    {"temperature": 0.9, "sampling_seed": 10, "min_p": 0.1},
    {"temperature": 1.0, "sampling_seed": 11, "top_k": 50, "top_p": 0.95, "min_p": 0.02},
]


def logprobs(answer: dict[str, Any]) -> list[float]:
    return [logprob for logprob, *_ in answer["meta_info"]["output_token_logprobs"]]


@pytest.mark.parametrize("prompt", PROMPTS)
def test_greedy_equals_the_stock_server(on: Server, off: Server, prompt: str) -> None:
    ours, stock = on.generate(prompt, max_new_tokens=96), off.generate(prompt, max_new_tokens=96)
    assert ours["output_ids"] == stock["output_ids"]
    assert ours["text"] == stock["text"]
    assert ours["meta_info"]["finish_reason"] == stock["meta_info"]["finish_reason"]


@pytest.mark.parametrize("params", SAMPLED, ids=lambda p: "-".join(p))
@pytest.mark.parametrize("prompt", [PEOPLE, QUOTE])
def test_sampled_equals_the_server_without_speculation(
    on: Server, off: Server, prompt: str, params: dict[str, Any]
) -> None:
    drafted, alone = (server.generate(prompt, request_return_logprob=True, **params) for server in (on, off))
    assert drafted["output_ids"] == alone["output_ids"]
    assert logprobs(drafted) == pytest.approx(logprobs(alone), abs=1e-4)
    assert account(drafted)["drafted"]["all"] > 0


def test_a_seed_is_honoured_and_matters(on: Server) -> None:
    first, again = (on.generate(STORY, temperature=1.0, sampling_seed=3) for _ in range(2))
    other = on.generate(STORY, temperature=1.0, sampling_seed=4)
    assert first["output_ids"] == again["output_ids"] != other["output_ids"]


def test_samples_differ_and_with_a_seed_they_come_again(on: Server, off: Server) -> None:
    sampled = {"temperature": 1.0, "max_new_tokens": 16, "n": 3}
    unseeded = on.generate(STORY, **sampled)
    seeded, alone = (server.generate(STORY, sampling_seed=5, **sampled) for server in (on, off))
    assert len({tuple(answer["output_ids"]) for answer in [*unseeded, *seeded]}) == 6
    assert [answer["output_ids"] for answer in seeded] == [answer["output_ids"] for answer in alone]
    single = on.generate(STORY, sampling_seed=5, **{**sampled, "n": 1})
    assert single["output_ids"] == seeded[0]["output_ids"]
    body = {"model": "", "prompt": STORY, "temperature": 1.0, "max_tokens": 16, "n": 3, "seed": 5}
    choices = requests.post(f"{on.url}/v1/completions", json=body, timeout=300).json()["choices"]
    assert [choice["text"] for choice in choices] == [answer["text"] for answer in seeded]


def _mixed_calls() -> list[dict[str, Any]]:
    lengths = (5, 70, 20, 96, 33, 48, 1, 60)
    calls = []
    for i, length in enumerate(lengths * 2):
        prompt = (*PROMPTS, chat(f"Count from {i} to {i + 20}."))[i % 5]
        params = SAMPLED[i % 5] if i % 3 == 0 else {}
        calls.append({"prompt": prompt, "max_new_tokens": length, **params})
    return calls


def test_a_batch_that_requests_join_and_leave_equals_each_alone(on: Server) -> None:
    calls = _mixed_calls()
    together = on.generate_all(calls, at_once=8)
    alone = [on.generate(custom_params=OFF, **call) for call in calls]
    assert [a["output_ids"] for a in together] == [a["output_ids"] for a in alone]


def test_json_schema_equals_the_stock_server(on: Server, off: Server) -> None:
    schema = (
        '{"type": "object", "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer"},'
        ' "city": {"enum": ["Paris", "Oslo"]}}, "required": ["name", "age", "city"]}'
    )
    prompt = chat('{"name": "Anna", "age": 31, "city": "Oslo"} is a record. Write one for Bob, 42, of Paris.')
    ours, stock = (s.generate(prompt, json_schema=schema, max_new_tokens=80) for s in (on, off))
    assert ours["text"] == stock["text"]
    assert account(ours)["accepted"]["all"] > 0


def test_logit_bias_is_honoured_in_the_tree(on: Server, off: Server) -> None:
    # The token that greedy decoding wants to begin with, forbidden.
    banned = off.generate(CODE, max_new_tokens=1)["output_ids"][0]
    ours, stock = (s.generate(CODE, logit_bias={str(banned): -100.0}) for s in (on, off))
    assert ours["output_ids"] == stock["output_ids"]
    assert banned not in ours["output_ids"]
    assert account(ours)["drafted"]["all"] > 0
