"""Cursors over SGLang's grammar backends, held against the backend's own token mask at every place of many walks."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest
from grammar_world import (
    BACKENDS,
    CODEC,
    ENDING,
    EVERY,
    LLGUIDANCE,
    SPECIAL,
    compiled,
    cursor_of,
    mask_of,
    walks,
)
from sglang.srt.constrained.reasoner_grammar_backend import ReasonerGrammarObject

from sgl_spec.server.grammar_cursor import GuidanceCursor, XGrammarCursor


@pytest.mark.parametrize(("backend", "case"), EVERY)
def test_a_cursor_accepts_just_what_the_mask_allows(backend: str, case: str) -> None:
    places = 0
    for walk in walks(backend, case, times=3):
        cursor = cursor_of(walk.grammar)
        assert cursor is not None
        before = cursor.forced(), cursor.ways()
        allowed = set()
        for token in range(CODEC.vocab_size):
            if cursor.accept(token):
                cursor.rollback(1)
                allowed.add(token)
        assert allowed - {ENDING} == walk.mask - {ENDING}
        assert (cursor.forced(), cursor.ways()) == before
        assert mask_of(walk.grammar) == walk.mask
        places += 1
    assert places > 3


@pytest.mark.parametrize(("backend", "case"), EVERY)
def test_what_is_forced_and_how_else_it_may_go_on(backend: str, case: str) -> None:
    forced_places = 0
    for walk in walks(backend, case):
        cursor = cursor_of(walk.grammar)
        assert cursor is not None
        forced, ways = cursor.forced(), cursor.ways()
        texts = [CODEC.vocabulary.text(token) for token in walk.mask - {ENDING}]
        if forced:
            forced_places += 1
            assert not walk.mask & {ENDING}
            assert all(text.startswith(forced) or forced.startswith(text) for text in texts)
            assert cursor.accept_bytes(forced)
            cursor.rollback(1)
            assert ways.bytes == forced[:1]
            assert not ways.end or case == SPECIAL
        else:
            assert set(ways.bytes) == {text[0] for text in texts}
            assert ways.end == (ENDING in walk.mask or any(not CODEC.token_bytes(token) for token in walk.mask))
    assert forced_places > 0 or case == "more keys"


@pytest.mark.parametrize("case", LLGUIDANCE)
def test_forced_tokens_are_the_only_ones_in_the_mask(case: str) -> None:
    found = 0
    for walk in walks("llguidance", case):
        cursor = cursor_of(walk.grammar)
        assert cursor is not None
        tokens = list(cursor.forced_tokens(()))
        assert bool(tokens) == (len(walk.mask) == 1 and ENDING not in walk.mask) or not tokens
        for number, token in enumerate(tokens):
            assert mask_of(walk.grammar) == {token}
            assert next(iter(cursor.forced_tokens(tokens[:number]))) == token
            walk.grammar.accept_token(token)
            found += 1
        walk.grammar.rollback(len(tokens))
    assert found > 0 or case in ("more keys", "ebnf")


@pytest.mark.parametrize(("backend", "case"), EVERY)
def test_a_cursor_that_goes_along_refuses_what_the_mask_forbids(backend: str, case: str) -> None:
    follower = None
    for walk in walks(backend, case):
        if ENDING in walk.tokens:
            continue  # to llguidance's grammar, an ending that came early is not yet the end
        if walk.tokens and follower is not None:
            assert follower.accept(walk.tokens[-1])
        else:
            follower = cursor_of(walk.grammar)
            assert follower is not None
        assert not any(map(follower.accept, sorted(set(range(CODEC.vocab_size)) - walk.mask)))


@pytest.mark.parametrize(("backend", "case"), EVERY)
def test_rollback_restores_exactly_and_the_requests_grammar_never_moves(backend: str, case: str) -> None:
    dice = random.Random(7)
    for walk in walks(backend, case, times=2, most=12):
        cursor = cursor_of(walk.grammar)
        assert cursor is not None
        known = [(cursor.forced(), cursor.ways())]
        for _ in range(8):
            ways = cursor.ways()
            if not ways.bytes:
                break
            text = cursor.forced() if dice.random() < 0.5 else bytes([dice.choice(ways.bytes)])
            if cursor.accept_bytes(text or ways.bytes[:1]):
                known.append((cursor.forced(), cursor.ways()))
        while len(known) > 1:
            steps = dice.randint(0, len(known) - 1)
            cursor.rollback(steps)
            del known[len(known) - steps :]
            assert (cursor.forced(), cursor.ways()) == known[-1]
        assert mask_of(walk.grammar) == walk.mask


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_grammar_that_is_over_has_no_cursor(backend: str) -> None:
    grammar = compiled(backend, "regex that ends")
    for token in CODEC.encode("Today is Monday, the 3rd."):
        grammar.accept_token(token)
    cursor = cursor_of(grammar)
    assert cursor is not None
    assert (cursor.forced(), cursor.ways().bytes, cursor.ways().end) == (b"", b"", True)
    assert not cursor.accept_bytes(b"x")
    assert list(cursor.forced_tokens(())) == []
    grammar.accept_token(ENDING)
    assert cursor_of(grammar) is None


def test_an_ending_accepted_on_the_way_is_taken_back() -> None:
    grammar = compiled("xgrammar", "regex that ends")
    for token in CODEC.encode("Today is Monday, the 3rd"):
        grammar.accept_token(token)
    cursor = cursor_of(grammar)
    assert isinstance(cursor, XGrammarCursor)
    (dot,) = CODEC.encode(".")
    assert cursor.accept(dot)
    assert cursor.accept(ENDING)
    assert not cursor.accept(dot)
    assert not cursor.accept_bytes(b".")
    assert (cursor.forced(), cursor.ways()) == (b"", (b"", True))
    cursor.rollback(2)
    assert cursor.forced() == b"."


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_reasoning_model_has_a_cursor_only_after_its_reasoning(backend: str) -> None:
    (think,) = CODEC.encode("<tool_call>")  # stands for </think>
    reasoner = ReasonerGrammarObject(compiled(backend, "enums"), [think])
    reasoner.maybe_init_reasoning(True)
    assert cursor_of(reasoner) is None
    for token in (*CODEC.encode("hm"), think):
        reasoner.accept_token(token)
    cursor = cursor_of(reasoner)
    assert cursor is not None
    assert cursor.forced() == b"{"
    assert cursor_of(ReasonerGrammarObject(None, [think])) is None
    assert cursor_of(None) is None


def test_a_backend_of_somebody_elses_is_left_alone() -> None:
    assert cursor_of(SimpleNamespace(is_terminated=lambda: False)) is None


def test_a_text_that_stops_inside_a_character_is_forced_to_there() -> None:
    for backend in BACKENDS:
        cursor = cursor_of(compiled(backend, "regex of characters"))
        assert cursor is not None
        assert cursor.forced() == b"x"
        assert cursor.accept_bytes("x名".encode())
        assert cursor.forced() == "前".encode()[:1] == "字".encode()[:1]
        assert cursor.accept_bytes("前".encode()[:2])
        assert cursor.forced() == "前".encode()[2:]


def test_cursors_name_their_backend() -> None:
    assert isinstance(cursor_of(compiled("xgrammar", "enums")), XGrammarCursor)
    assert isinstance(cursor_of(compiled("llguidance", "enums")), GuidanceCursor)
    assert (XGrammarCursor.settles_tokens, GuidanceCursor.settles_tokens) == (False, True)
