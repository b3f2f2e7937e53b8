"""Drafts from SGLang's grammar backends, every node held against the backend's own token mask."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest
from grammar_world import (
    CODEC,
    ENDING,
    EVERY,
    SPECIAL,
    begun,
    compiled,
    cursor_of,
    mask_of,
)
from sglang.srt.constrained.llguidance_backend import GuidanceBackend
from sglang.srt.constrained.xgrammar_backend import XGrammarGrammarBackend

from sgl_spec.drafting.drafter import DraftRequest
from sgl_spec.drafting.grammar.constraint_drafter import ConstraintDrafter
from sgl_spec.drafting.grammar.text_writer import path_to
from sgl_spec.drafting.tree import Chain, DraftTree
from sgl_spec.server.codec import ServerCodec
from sgl_spec.server.grammar_cursor import RequestGrammar
from sgl_spec.testing.small_tokenizers import few_bytes, sentencepiece_like


def _check(tree: DraftTree, grammar: Any) -> int:
    """How many nodes are called forced, and are; everything is in the mask."""
    forced = 0
    for node in range(1, len(tree)):
        *before, token = path_to(tree, node)
        for one in before:
            grammar.accept_token(one)
        mask = mask_of(grammar)
        assert token in mask
        if "grammar.forced" in tree.origins[node]:
            assert mask == {token}
            forced += 1
        if before:
            grammar.rollback(len(before))
    return forced


@pytest.mark.parametrize(("backend", "case"), EVERY)
def test_nothing_outside_the_mask_is_drafted_and_forced_is_all_there_is(backend: str, case: str) -> None:
    drafter = ConstraintDrafter(CODEC, CODEC.vocabulary, lambda request: (), lambda request: None, 0.03)
    forced = drafted = 0
    for seed in range(4):
        dice = random.Random(seed)
        grammar = begun(backend, case)
        constraint = RequestGrammar(SimpleNamespace(grammar=grammar), CODEC)
        drafter.start(DraftRequest("r", CODEC.encode("The house"), endings=frozenset([ENDING]), constraint=constraint))
        for _ in range(12):
            if not drafter.begin_round("r"):
                break
            tree = DraftTree(0)
            chain = Chain(tuple(dice.randrange(2, CODEC.vocab_size) for _ in range(3)), (0.5,) * 3, "other")
            likely = sorted(mask_of(grammar) - {ENDING})
            for tokens in (chain.tokens, (dice.choice(likely), *chain.tokens) if likely else ()):
                allowed = drafter.cut("r", tokens)
                if allowed:
                    tree.graft(Chain(tokens[:allowed], (0.5,) * allowed, "other"))
            drafter.extend("r", tree, 15)
            forced += _check(tree, grammar)
            drafted += tree.num_drafts
            new = _some_path(tree, dice) or [dice.choice(sorted(mask_of(grammar)))]
            for token in new:
                grammar.accept_token(token)
            drafter.observe("r", new)
    assert drafted > 0
    assert forced > 0 or case in ("more keys", "ebnf", "array")


def _some_path(tree: DraftTree, dice: random.Random) -> list[int]:
    return path_to(tree, dice.randrange(len(tree)))


@pytest.mark.parametrize("make", [sentencepiece_like, few_bytes])
@pytest.mark.parametrize("backend", ["xgrammar", "llguidance"])
@pytest.mark.parametrize("case", ["enums", "unicode keys", "regex"])
def test_other_kinds_of_tokenizers(make: Any, backend: str, case: str) -> None:
    tokenizer = make()
    size = len(tokenizer)
    codec, ending = ServerCodec(tokenizer, size), tokenizer.eos_token_id
    if backend == "xgrammar":
        backends: Any = XGrammarGrammarBackend(tokenizer, vocab_size=size, model_eos_token_ids=[ending])
    else:
        backends = GuidanceBackend(tokenizer, n_vocab=size, eos_token_ids=[ending])
    grammar = compiled(backend, case, {backend: backends})
    drafter = ConstraintDrafter(codec, codec.vocabulary, lambda request: (), lambda request: None, 0.03)
    constraint = RequestGrammar(SimpleNamespace(grammar=grammar), codec)
    drafter.start(DraftRequest("r", codec.encode("The house"), endings=frozenset([ending]), constraint=constraint))
    dice, drafted = random.Random(3), 0
    for _ in range(20):
        if not drafter.begin_round("r"):
            break
        tree = DraftTree(0)
        drafter.extend("r", tree, 15)
        for node in range(1, len(tree)):
            *before, token = path_to(tree, node)
            for one in before:
                grammar.accept_token(one)
            mask = mask_of(grammar, size)
            assert token in mask
            assert "grammar.forced" not in tree.origins[node] or mask == {token}
            if before:
                grammar.rollback(len(before))
        drafted += tree.num_drafts
        mask = sorted(mask_of(grammar, size) - {ending})
        if not mask:
            break  # the vocabulary has no way to write what must come
        new = _some_path(tree, dice) or [dice.choice(mask)]
        for token in new:
            grammar.accept_token(token)
        drafter.observe("r", new)
    assert drafted > 3


def test_nothing_is_drafted_where_llguidance_leaves_only_a_token_that_it_does_not_take() -> None:
    grammar = compiled("llguidance", SPECIAL)
    grammar.accept_token(*CODEC.encode("a"))
    (only,) = mask_of(grammar)
    assert CODEC.token_bytes(only) == b""
    cursor = cursor_of(grammar)
    assert cursor is not None
    assert not any(map(cursor.accept, range(CODEC.vocab_size)))
    drafter = ConstraintDrafter(CODEC, CODEC.vocabulary, lambda request: (), lambda request: None, 0.03)
    constraint = RequestGrammar(SimpleNamespace(grammar=grammar), CODEC)
    drafter.start(DraftRequest("r", [1], endings=frozenset([ENDING]), constraint=constraint))
    assert drafter.begin_round("r")
    tree = DraftTree(0)
    drafter.extend("r", tree, 15)
    assert tree.num_drafts == 0
