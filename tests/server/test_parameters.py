"""Parameters that SGLang itself sees to, before the first round or after the last: they do what they do alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import requests
from client import CODE, OFF, QUOTE, Server, account

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
        lambda a: any("input" in name and "flat" in name for name in a["meta_info"]),
    ),
    "return_flat_raw_output_top_logprobs": Case(
        {**LOGPROBS, "request_return_flat_raw_output_top_logprobs": True},
        lambda a: any("output" in name and "flat" in name for name in a["meta_info"]),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_sglang_sees_to(on: Server, name: str) -> None:
    params = {"max_new_tokens": 16, **CASES[name].params}
    drafted, alone = (on.generate(QUOTE, custom_params=custom, **params) for custom in ({}, OFF))
    print({k: v for k, v in drafted["meta_info"].items()})
    assert CASES[name].shown(drafted)
    assert drafted["text"] == alone["text"]
    assert drafted["output_ids"] == alone["output_ids"]
    for answer in (drafted, alone):
        for field in OWN:
            answer["meta_info"].pop(field, None)
    assert drafted["meta_info"] == alone["meta_info"]
