"""`select` through `Endpoint`: one request for all choices, exact scores, and SGLang's own methods' decisions."""

from __future__ import annotations

import numpy as np
import pytest
import sglang as sgl
from sglang.lang.choices import greedy_token_selection, token_length_normalized, unconditional_likelihood_normalized

from sgl_spec import ConfigError

METHODS = [token_length_normalized, greedy_token_selection, unconditional_likelihood_normalized]
IDS = ["mean", "greedy", "unconditional"]


@sgl.function
def choosing(s, before, choices, method):
    s += before + sgl.select("choice", choices, choices_method=method)


@sgl.function
def hot(s, before, choices):
    s += before + sgl.gen("a") + sgl.select("choice", choices)


@pytest.mark.parametrize("method", METHODS, ids=IDS)
def test_each_method_decides_as_its_rule_says(server, endpoint, method):
    """Prices by character; the rules are written down anew here."""
    prices = {"a": -0.5, "b": -3.0, "c": -0.2, "d": -9.0, "e": 0.0}
    server.logprob = lambda char: prices.get(char, -1.0)
    choices = ["abb", "ad", "cdd", "ee", "ca"]
    expected = {
        "mean": max(choices, key=lambda text: np.mean([prices[char] for char in text])),
        "greedy": "ee",  # the best first letter
        "unconditional": max(  # all but the first letter cancel out
            choices, key=lambda text: prices[text[0]] / len(text)
        ),
    }
    state = choosing.run(before="pick ", choices=choices, method=method, backend=endpoint)
    assert state["choice"] == expected[IDS[METHODS.index(method)]]
    info = state.get_meta_info("choice")
    assert info["normalized_prompt_logprobs"] == pytest.approx([np.mean([prices[c] for c in one]) for one in choices])


@pytest.mark.parametrize("method", METHODS, ids=IDS)
def test_certain_choices_are_scored_not_divided_by_nought(server, endpoint, method):
    server.logprob = lambda char: 0.0
    assert choosing.run(before="x", choices=["aa", "b"], method=method, backend=endpoint)["choice"] in ("aa", "b")


def test_all_choices_go_in_one_request_and_ask_for_no_token(server, endpoint):
    choosing.run(before="pick ", choices=["yes", "no", "nay"], method=token_length_normalized, backend=endpoint)
    (body,) = server.requests
    assert body["text"] == ["pick yes", "pick no", "pick nay"]
    assert (body["sampling_params"]["max_new_tokens"], body["logprob_start_len"]) == (0, 1)


def test_a_server_that_tells_no_tokens_is_asked_by_a_prefill(server, endpoint):
    server.logprob = lambda char: -0.1 if char == "n" else -5.0
    server.tokenize, tokenize = lambda text: {}, server.tokenize
    server.ids_of_all = lambda body: [tokenize(text)["tokens"] for text in body["text"]]
    prefill = server.score([ord(char) for char in "pick "], 0)
    server.respond, respond = (
        lambda path, body: (
            prefill if body.get("logprob_start_len") == 0 and isinstance(body["text"], str) else respond(path, body)
        ),
        server.respond,
    )
    state = choosing.run(before="pick ", choices=["yy", "nn"], method=token_length_normalized, backend=endpoint)
    assert state["choice"] == "nn"


@pytest.mark.parametrize("choices", [[], [""]])
def test_choices_that_cannot_be_scored_are_refused(server, endpoint, choices):
    with pytest.raises(ConfigError, match=r"^choices: "):
        choosing.run(before="x", choices=choices, method=token_length_normalized, backend=endpoint)
    assert server.requests == []
