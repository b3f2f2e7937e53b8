"""Parameters that SGLang itself sees to, before the first round or after the last: they do what they do alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import requests
from client import OFF, QUOTE, STORY, Server

AGAIN = "\n<|im_start|>user\nOnce more.<|im_end|>\n<|im_start|>assistant\n"
LOGPROBS = {"request_return_logprob": True, "request_top_logprobs_num": 2}
# What differs from request to request, whatever they ask for.
OWN = {"id", "sgl_spec", "e2e_latency", "cached_tokens", "cached_tokens_details", "response_sent_to_client_ts"}


class Case(NamedTuple):
    """shown: whether an answer shows that the parameter was honoured."""

    params: dict[str, Any]
    shown: Callable[[dict[str, Any]], bool]


CASES = {
    "skip_special_tokens": Case(
        {"skip_special_tokens": False, "ignore_eos": True, "max_new_tokens": 40}, lambda a: "<|im_end|>" in a["text"]
    ),
    "no_stop_trim": Case({"stop": ["eight"], "no_stop_trim": True}, lambda a: a["text"].endswith("eight")),
    "logprob_start_len": Case(
        {**LOGPROBS, "request_logprob_start_len": 5},
        lambda a: len(a["meta_info"]["input_token_logprobs"]) == a["meta_info"]["prompt_tokens"] - 5,
    ),
    "return_text_in_logprobs": Case(
        {**LOGPROBS, "request_return_text_in_logprobs": True},
        lambda a: "".join(text for *_, text in a["meta_info"]["output_token_logprobs"]) == a["text"],
    ),
    "return_flat_raw_top_logprobs": Case(
        {**LOGPROBS, "request_logprob_start_len": 5, "request_return_flat_raw_top_logprobs": True},
        lambda a: len(a["meta_info"]["input_top_logprobs_val_flat"]) > 2,
    ),
    "return_flat_raw_output_top_logprobs": Case(
        {**LOGPROBS, "request_return_flat_raw_output_top_logprobs": True},
        lambda a: len(a["meta_info"]["output_top_logprobs_val_flat"]) == 2 * a["meta_info"]["completion_tokens"],
    ),
    "return_flat_raw_top_logprobs_b64": Case(
        {
            **LOGPROBS,
            "request_return_flat_raw_output_top_logprobs": True,
            "request_return_flat_raw_top_logprobs_b64": True,
        },
        lambda a: isinstance(a["meta_info"]["output_top_logprobs_val_flat_b64"], str),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_sglang_sees_to(on: Server, name: str) -> None:
    params = {"max_new_tokens": 16, **CASES[name].params}
    drafted, alone = (on.generate(QUOTE, custom_params=custom, **params) for custom in ({}, OFF))
    assert CASES[name].shown(drafted)
    assert drafted["text"] == alone["text"]
    assert drafted["output_ids"] == alone["output_ids"]
    for answer in (drafted, alone):
        for field in [name for name in answer["meta_info"] if name in OWN or name.startswith("spec_")]:
            del answer["meta_info"][field]
    assert drafted["meta_info"] == alone["meta_info"]


def test_a_stream_waits_for_its_interval(on: Server) -> None:
    # What the server remembers of a prompt comes in one run, however short the interval.
    forgetful = {"sgl_spec": {"version": 1, "memory": "off"}}
    often, rarely = (
        on.stream(STORY, max_new_tokens=24, stream_interval=interval, custom_params=forgetful) for interval in (1, 12)
    )
    assert often[-1]["text"] == rarely[-1]["text"]
    lengths = [chunk["meta_info"]["completion_tokens"] for chunk in rarely]
    assert all(later - earlier >= 12 for earlier, later in itertools.pairwise(lengths[1:-1]))
    assert len(rarely) <= 4 < len(often)


def _session(on: Server, custom: dict[str, Any]) -> list[list[int]]:
    """The answers to two requests of one session; the second continues the first and its answer."""
    session = requests.post(f"{on.url}/open_session", json={"capacity_of_str_len": 4000}, timeout=60).json()
    try:
        first = on.generate(QUOTE, custom_params=custom, request_session_params={"id": session})
        place = {"id": session, "rid": first["meta_info"]["id"]}
        second = on.generate(AGAIN, custom_params=custom, request_session_params=place, max_new_tokens=16)
    finally:
        requests.post(f"{on.url}/close_session", json={"session_id": session}, timeout=60)
    return [first["output_ids"], second["output_ids"]]


def test_a_session_goes_on_as_it_does_alone(on: Server) -> None:
    drafted, alone = (_session(on, custom) for custom in ({}, OFF))
    assert drafted == alone
    assert drafted[1] != on.generate(AGAIN, max_new_tokens=16)["output_ids"], "the session was forgotten"
