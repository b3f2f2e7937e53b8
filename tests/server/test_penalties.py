"""Penalised requests speculate, and say what they would have said alone."""

from __future__ import annotations

from typing import Any

import pytest
from client import CODE, OFF, PEOPLE, PROMPTS, QUOTE, Server, account

ALL: dict[str, Any] = {"frequency_penalty": 0.3, "presence_penalty": 0.2, "repetition_penalty": 1.1}


@pytest.mark.parametrize(
    "params", [{"frequency_penalty": 0.7}, {"presence_penalty": 0.7}, {"repetition_penalty": 1.3}], ids="-".join
)
def test_greedy_equals_the_stock_server(on: Server, off: Server, params: dict[str, Any]) -> None:
    drafted, stock = (server.generate(CODE, **params) for server in (on, off))
    assert drafted["output_ids"] == stock["output_ids"]
    assert account(drafted)["accepted"]["all"] > 0
    assert drafted["output_ids"] != off.generate(CODE)["output_ids"], (
        "the penalty changes nothing, so this shows nothing"
    )


def test_greedy_with_all_penalties_equals_itself_alone(on: Server) -> None:
    """Not the stock server: without its overlap schedule it applies several penalties in the order of a Python set,
    which is another at every start."""
    alone, drafted = (on.generate(CODE, custom_params=custom, **ALL) for custom in (OFF, {}))
    assert drafted["output_ids"] == alone["output_ids"]
    assert account(drafted)["accepted"]["all"] > 0


def test_sampled_with_all_penalties_equals_itself_alone(on: Server) -> None:
    """Alone first: memory then knows the text, and drafts are long."""
    wanted = {"temperature": 0.7, "sampling_seed": 5, "request_return_logprob": True, "request_top_logprobs_num": 2}
    alone, drafted = (on.generate(PEOPLE, custom_params=c, **wanted, **ALL) for c in (OFF, {}))
    assert drafted["output_ids"] == alone["output_ids"]
    for field in ("output_token_logprobs", "output_top_logprobs"):
        assert drafted["meta_info"][field] == alone["meta_info"][field]
    assert account(drafted)["accepted"]["all"] > 0


def test_min_new_tokens_puts_the_end_off(on: Server, off: Server) -> None:
    """The text is over after some fifty tokens; a token that ends it is forbidden until eighty are out."""
    early = on.generate(QUOTE, max_new_tokens=100)
    assert early["meta_info"]["finish_reason"]["type"] == "stop"
    assert early["meta_info"]["completion_tokens"] < 70
    ours, stock = (s.generate(QUOTE, max_new_tokens=100, min_new_tokens=80) for s in (on, off))
    assert ours["output_ids"] == stock["output_ids"]
    assert ours["meta_info"]["finish_reason"] == stock["meta_info"]["finish_reason"]
    assert ours["meta_info"]["completion_tokens"] >= 80
    assert account(ours)["accepted"]["all"] > 0


def test_penalised_requests_beside_others(on: Server) -> None:
    params: list[dict[str, Any]] = [{"repetition_penalty": 1.2}, {}, {**ALL, "min_new_tokens": 30}, {}]
    calls = [{"prompt": prompt, "max_new_tokens": 40, **some} for prompt in PROMPTS[:2] for some in params]
    together = on.generate_all(calls)
    alone = [on.generate(custom_params=OFF, **call) for call in calls]
    assert [a["output_ids"] for a in together] == [a["output_ids"] for a in alone]
    assert all(account(answer)["drafted"]["all"] > 0 for answer in together)
