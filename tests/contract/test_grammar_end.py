"""Runs cut at a grammar's end, on both backends: what is kept SGLang keeps too, and the request's grammar is left as it
was."""

from __future__ import annotations

import random
from array import array
from collections.abc import Sequence
from typing import Any

import pytest
from grammar_world import ENDING, TOKENIZER, begun, mask_of
from sglang.srt.constrained.reasoner_grammar_backend import ReasonerGrammarObject
from sglang.srt.managers.schedule_batch import Req
from sglang.srt.managers.scheduler_components.batch_result_processor import SchedulerBatchResultProcessor
from sglang.srt.sampling.sampling_params import SamplingParams

from sgl_spec.server.run_end import kept_tokens

TOKENIZER.additional_stop_token_ids = None  # SGLang sets it on every tokenizer it loads
BACKENDS = ["xgrammar", "llguidance"]
CASES = ["enums", "null", "array", "regex", "regex that ends", "ebnf"]
THINK_END = TOKENIZER.encode("x\n")
BEYOND = TOKENIZER.encode("{ beyond")


def request(grammar: Any, **params: Any) -> Req:
    sampling = SamplingParams(**{"max_new_tokens": 1 << 20, **params})
    sampling.normalize(TOKENIZER)
    made = Req("r", "", array("q", [1, 2]), sampling, eos_token_ids={ENDING}, vocab_size=len(TOKENIZER))
    made.tokenizer, made.grammar = TOKENIZER, grammar
    return made


def written(backend: str, case: str, dice: random.Random) -> list[int]:
    """An output that the grammar allows, to its end, and tokens that decoding alone would not have written."""
    grammar, tokens = begun(backend, case), []
    while ENDING not in (mask := mask_of(grammar)):
        tokens.append(dice.choice(sorted(mask)))
        grammar.accept_token(tokens[-1])
    # llguidance takes the end of the text twice before it calls itself terminated, where it could have gone on.
    return [*tokens, ENDING, *([ENDING] if backend == "llguidance" else []), *BEYOND]


def in_runs(tokens: Sequence[int], longest: int, dice: random.Random) -> list[list[int]]:
    runs, at = [], 0
    while at < len(tokens):
        runs.append(list(tokens[at : at + dice.randint(1, longest)]))
        at += len(runs[-1])
    return runs


def take(req: Req, tokens: Sequence[int]) -> list[int]:
    """What SGLang keeps of a committed run, and does with it."""
    retained = SchedulerBatchResultProcessor._accept_grammar_tokens(None, req, list(tokens))
    req.output_ids.extend(retained)
    req.update_finish_state(min(len(retained), 1))
    req.grammar.finished = req.finished()
    return retained


def generate(req: Req, runs: Sequence[Sequence[int]]) -> tuple[list[int], Any, int | None]:
    for run in runs:
        if req.finished():
            break
        before = mask_of(req.grammar)
        kept = kept_tokens(req, run)
        assert mask_of(req.grammar) == before
        assert take(req, run[:kept]) == list(run[:kept])
    return list(req.output_ids), req.finished_reason and req.finished_reason.to_json(), req.finished_len


PARAMS: list[dict[str, Any]] = [{}, {"ignore_eos": True}, {"stop": ["a", '"']}, {"max_new_tokens": 9}]


@pytest.mark.parametrize("params", PARAMS, ids=lambda p: "-".join(p) or "plain")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_it_ends_as_if_its_tokens_had_come_one_by_one(backend: str, case: str, params: dict[str, Any]) -> None:
    dice = random.Random(f"{backend} {case} {params}")
    for _ in range(8):
        tokens = written(backend, case, dice)
        expected = generate(request(begun(backend, case), **params), [[token] for token in tokens])
        for longest in (3, 40):
            runs = in_runs(tokens, longest, dice)
            assert generate(request(begun(backend, case), **params), runs) == expected
        if params in ({}, {"ignore_eos": True}):
            through = tokens[: tokens.index(ENDING) + 1]
            assert expected[0] in (through, [*through, ENDING])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_grammar_held_back_while_the_model_thinks(backend: str) -> None:
    def thinking() -> Any:
        grammar = ReasonerGrammarObject(begun(backend, "regex that ends"), THINK_END)
        grammar.maybe_init_reasoning(True)
        return grammar

    dice = random.Random(backend)
    for _ in range(8):
        tokens = [*TOKENIZER.encode("house x"), *THINK_END, *written(backend, "regex that ends", dice)]
        expected = generate(request(thinking()), [[token] for token in tokens])
        assert generate(request(thinking()), in_runs(tokens, 12, dice)) == expected
        assert expected[0][-1] == ENDING


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_token_the_grammar_refuses_is_left_for_sglang_to_refuse(backend: str) -> None:
    req = request(begun(backend, "regex that ends"))
    start, refused = TOKENIZER.encode("Today"), TOKENIZER.encode("{")
    assert kept_tokens(req, [*start, *refused, *start]) == len(start) + 1
    retained = SchedulerBatchResultProcessor._accept_grammar_tokens(None, req, [*start, *refused])
    assert len(retained) <= len(start)
    assert req.to_finish is not None


def test_where_the_grammar_has_ended_before_the_round() -> None:
    """With ignore_eos, when the prefill's own token was the end: SGLang looks for it after the next token."""
    grammar = begun("xgrammar", "regex that ends")
    for token in written("xgrammar", "regex that ends", random.Random(1))[: -len(BEYOND)]:
        grammar.accept_token(token)
    req = request(grammar, ignore_eos=True)
    assert kept_tokens(req, BEYOND) == 1
    assert grammar.is_terminated()


@pytest.mark.parametrize(("backend", "more"), [("xgrammar", 1), ("llguidance", len(BEYOND))])
def test_decoding_without_speculation_overlooks_the_end_where_eos_is_ignored(backend: str, more: int) -> None:
    """What the documentation says of SGLang: it looks whether the grammar has ended before the grammar takes the token,
    and llguidance then forgets. When this fails, that paragraph is to go."""
    tokens = written(backend, "regex that ends", random.Random(2))
    req = request(begun(backend, "regex that ends"), ignore_eos=True)
    ending = len(tokens) - len(BEYOND)
    for token in tokens[:ending] + [BEYOND[0] if backend == "xgrammar" else ENDING] * len(BEYOND):
        if req.finished():
            break
        req.output_ids.append(token)
        req.update_finish_state(1)
        SchedulerBatchResultProcessor._accept_grammar_tokens(None, req, token)
        req.grammar.finished = req.finished()
    assert len(req.output_ids) == ending + more
