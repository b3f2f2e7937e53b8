"""Sampled text without a seed follows the model's distribution, on the server, beside drafts that are often wrong.

Three hundred requests, eight at a time. The first two tokens of each are counted and held against the probabilities
that the model reports when it decodes alone. What 300 are enough to notice, the last test says of these very counts;
finer faults are looked for where samples cost nothing (3 in 100: tests/unit/test_statistics.py). A request without a
seed draws one from its id, and the ids here stay the same.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import pytest
import requests
from client import Server, account, chat

from sgl_spec.testing.chi_square import chi_square

PROMPT = chat("Name one animal, in one word.")
REQUESTS, FOLLOWED, LISTED = 300, 4, 100
SAMPLED = {"temperature": 1.0, "max_new_tokens": 4, "ignore_eos": True}
REST = "any other"


class Sampled(NamedTuple):
    """What came back: the first two tokens of each request and of its guess, and what became of the drafts."""

    pairs: list[tuple[int, int]]
    guesses: list[tuple[int, int]]
    drafted: int
    accepted: int


def next_tokens(server: Server, ids: list[int]) -> dict[int, float]:
    """Probabilities of the likeliest tokens after `ids`, from the server that does not speculate."""
    body = {
        "input_ids": ids, "sampling_params": {**SAMPLED, "max_new_tokens": 1}, "return_logprob": True,
        "top_logprobs_num": LISTED,
    }  # fmt: skip
    answer = requests.post(f"{server.url}/generate", json=body, timeout=300).json()
    return {token: 2.718281828459045**logprob for logprob, token, _ in answer["meta_info"]["output_top_logprobs"][0]}


def prompt_ids(server: Server) -> list[int]:
    answer = server.generate(PROMPT, max_new_tokens=1, request_return_logprob=True, request_logprob_start_len=0)
    return [token for _, token, _ in answer["meta_info"]["input_token_logprobs"]]


@pytest.fixture(scope="module")
def probabilities(off: Server) -> dict[Hashable, float]:
    """Of pairs of tokens where the first is one of the likeliest, else of the first token."""
    ids = prompt_ids(off)
    first = next_tokens(off, ids)
    expected: dict[Hashable, float] = {}
    for rank, (token, p) in enumerate(first.items()):
        after = next_tokens(off, [*ids, token]) if rank < FOLLOWED else {}
        expected |= {(token, second): p * q for second, q in after.items()}
        expected[token, REST] = p * (1 - sum(after.values()))
    expected[REST] = 1 - sum(first.values())
    return expected


@pytest.fixture(scope="module")
def sampled(on: Server) -> Sampled:
    # What the model wrote at other times: now and then right, mostly wrong.
    guesses = on.generate(PROMPT, n=8, **SAMPLED)
    calls: list[dict[str, Any]] = [
        {
            "prompt": PROMPT, **SAMPLED, "request_rid": f"distribution-{number}",
            "custom_params": {"sgl_spec": {"version": 1, "predict": guesses[number % 8]["text"]}},
        }
        for number in range(REQUESTS)
    ]  # fmt: skip
    answers = on.generate_all(calls, at_once=8)
    drafted, accepted = (sum(account(answer)[of]["all"] for answer in answers) for of in ("drafted", "accepted"))
    pairs, guessed = ([tuple(answer["output_ids"][:2]) for answer in some] for some in (answers, guesses))
    return Sampled(pairs, [guessed[number % 8] for number in range(REQUESTS)], drafted, accepted)


def outcome(pair: tuple[int, int], expected: Mapping[Hashable, float]) -> Hashable:
    first, _ = pair
    return next((known for known in (pair, (first, REST)) if known in expected), REST)


def test_sampled_text_follows_the_models_distribution(
    sampled: Sampled, probabilities: Mapping[Hashable, float]
) -> None:
    assert sampled.drafted > REQUESTS / 2
    assert 0 < sampled.accepted < sampled.drafted
    fit = chi_square([outcome(pair, probabilities) for pair in sampled.pairs], probabilities)
    assert fit.p_value > 1e-4, fit


@pytest.mark.parametrize(("fault", "every"), [("the commonest outcome", 6), ("its guess", 3)])
def test_a_bias_would_show(sampled: Sampled, probabilities: Mapping[Hashable, float], fault: str, every: int) -> None:
    """The same counts, had every sixth request been given the commonest outcome, or every third its guess, unasked."""
    common = max(probabilities, key=lambda known: probabilities[known])
    seen = [outcome(pair, probabilities) for pair in sampled.pairs]
    for number in range(0, REQUESTS, every):
        unasked = common if fault == "the commonest outcome" else outcome(sampled.guesses[number], probabilities)
        seen[number] = unasked
    assert chi_square(seen, probabilities).p_value < 1e-4
