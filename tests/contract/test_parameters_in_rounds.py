"""Every parameter through whole rounds of the worker: tokens, finish reason and log-probabilities are those of SGLang's
own parts taking one token at a time, with all these requests in one batch and drafts that are right and wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest
import torch
from grammar_world import CASES as GRAMMARS
from grammar_world import TOKENIZER
from round_world import EOS, SCRIPT, Answer, Asked, alone, in_rounds, published
from sglang.srt.sampling.custom_logit_processor import CustomLogitProcessor

from sgl_spec.server.report import FIELD

GREEDY = {"temperature": 0.0}
LONG = {**GREEDY, "ignore_eos": True}
SAMPLED = {"sampling_seed": 5, "ignore_eos": True}
FLAT = {**SAMPLED, "temperature": 2.0}
OFF = {"custom_params": {FIELD: {"version": 1, "off": True}}}


class CountsItsCalls(CustomLogitProcessor):
    """Reads the output so far, and must be called once a token."""

    def __call__(self, logits: Any, custom_param_list: Any) -> Any:
        for row, params in zip(logits, custom_param_list, strict=True):
            params["calls"] = params.get("calls", 0) + 1
            row[params["calls"] + len(params["__req__"].output_ids)] += 50.0
        return logits


class Case(NamedTuple):
    """A request, and the same without the parameter where it is to answer something else. abstains: the reason it is
    to abstain for."""

    asked: Asked
    without: Asked | None
    abstains: str | None = None


def _case(base: Mapping[str, Any], **params: Any) -> Case:
    return Case(Asked({**base, **params}), Asked(base))


def _grammar(name: str, kind: str) -> Case:
    return _case(FLAT, **{kind: GRAMMARS[name][1]})


PROCESSOR = {"custom_logit_processor": CountsItsCalls.to_str()}
CASES = {
    "temperature": _case(SAMPLED, temperature=0.5),
    "top_k": _case(FLAT, top_k=3),
    "top_p": _case(FLAT, top_p=0.4),
    "min_p": _case(FLAT, min_p=0.3),
    "sampling_seed": _case(FLAT, sampling_seed=1 << 40),
    "frequency_penalty": _case(LONG, frequency_penalty=1.1),
    "presence_penalty": _case(LONG, presence_penalty=1.9),
    "repetition_penalty": _case(LONG, repetition_penalty=1.6),
    "min_new_tokens": _case(GREEDY, min_new_tokens=25),
    "logit_bias": _case(LONG, logit_bias={str(EOS): -100.0, "77": 4.0}),
    "json_schema": _grammar("array", "json_schema"),
    "regex": _grammar("regex", "regex"),
    "ebnf": _grammar("ebnf", "ebnf"),
    "structural_tag": _grammar("structural tag", "structural_tag"),
    "max_new_tokens": _case(LONG, max_new_tokens=17),
    "stop": _case(LONG, stop=["get", "unc"]),
    "stop_token_ids": _case(GREEDY, stop_token_ids=[SCRIPT[1]]),
    "stop_regex": _case(LONG, stop_regex=["x.y", "c.i"]),
    "ignore_eos": _case(GREEDY, ignore_eos=True),
    "custom_logit_processor": Case(
        Asked({**FLAT, "custom_params": {"a": 1}}, PROCESSOR), Asked(FLAT), "custom_logit_processor"
    ),
    "require_reasoning": Case(
        Asked({**LONG, "stop": ["unc"]}, {"require_reasoning": True}), Asked({**LONG, "stop": ["unc"]})
    ),
    "max_thinking_tokens": Case(
        Asked({**FLAT, "regex": GRAMMARS["regex"][1]}, {"require_reasoning": True}, thinks=9),
        Asked({**FLAT, "regex": GRAMMARS["regex"][1]}, {"require_reasoning": True}, thinks=-1),
    ),
    "return_hidden_states": Case(Asked(LONG, {"return_hidden_states": True}), None, "return_hidden_states"),
    "custom_params": Case(Asked({**LONG, **OFF}), None, "off"),
    "return_logprob": Case(
        Asked(
            {**FLAT, "temperature": 1.5},
            {"return_logprob": True, "top_logprobs_num": 3, "token_ids_logprob": [5, 7, 11]},
        ),
        None,
    ),
    "everything": _case(
        {"ignore_eos": True, "sampling_seed": 5}, temperature=1.4, top_k=40, top_p=0.95, min_p=0.01,
        frequency_penalty=0.3, presence_penalty=0.4, repetition_penalty=1.2, logit_bias={"77": 4.0},
        regex=GRAMMARS["regex"][1], min_new_tokens=10,
    ),
}  # fmt: skip


class World(NamedTuple):
    expected: dict[str, Answer]
    given: dict[str, Answer]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with published():
        expected = {name: alone(case.asked) for name, case in CASES.items()}
        given = in_rounds({n: c.asked for n, c in CASES.items()}, {n: a.tokens for n, a in expected.items()})
        yield World(expected, given)


@pytest.mark.parametrize("name", CASES)
def test_a_parameter_in_rounds(world: World, name: str) -> None:
    given, expected = world.given[name], world.expected[name]
    assert given.tokens == expected.tokens
    assert given.reason == expected.reason
    assert given.reasoning_tokens == expected.reasoning_tokens
    assert given.account is not None
    if CASES[name].abstains is None:
        assert given.account["accepted"]["all"] > 0
    else:
        assert given.account["abstained"] == {CASES[name].abstains: given.account["rounds"]}


@pytest.mark.parametrize("name", CASES)
def test_a_parameter_alone_in_its_batch(world: World, name: str) -> None:
    """What a batch is told of all its requests at once must not come from neighbours."""
    given = in_rounds({name: CASES[name].asked}, {name: world.expected[name].tokens})
    assert given[name][4:7] == world.expected[name][4:7]


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.without is not None])
def test_a_request_without_it_is_answered_something_else(world: World, name: str) -> None:
    """Or else the test above shows nothing."""
    without = CASES[name].without
    assert without is not None
    assert alone(without)[4:7] != world.expected[name][4:7]


@pytest.mark.parametrize("field", ["logprobs", "top_logprobs", "chosen_logprobs"])
def test_logprobs_are_those_of_the_accepted_path(world: World, field: str) -> None:
    given, expected = (getattr(answers["return_logprob"], field) for answers in world)
    assert len(given) == len(world.given["return_logprob"].tokens)
    torch.testing.assert_close(torch.tensor(given), torch.tensor(expected), rtol=0, atol=1e-5)


def test_hidden_states_are_those_before_each_token(world: World) -> None:
    given, expected = (answers["return_hidden_states"] for answers in world)
    assert given.states == expected.states
    assert len(given.states) == len(given.tokens)


def test_one_reading_is_cut_at_the_first_stop_string_in_the_text(world: World) -> None:
    text = TOKENIZER.decode(world.given["stop"].tokens)
    assert "unc" in text
    assert "get" not in text
