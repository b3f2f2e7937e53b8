"""Which tokens may come next along a text, and what each is called."""

from __future__ import annotations

import pytest
from constrained import codec_for
from hypothesis import given
from hypothesis import strategies as st

from sgl_spec.drafting.grammar.space_style import SpaceStyle
from sgl_spec.drafting.grammar.spelling import BRANCH, EDGE, FORCED, NO_PLAN, SPELLING, TEXT, At, Plan, Speller, Step
from sgl_spec.drafting.grammar.text_search import TextSearch
from sgl_spec.drafting.grammar.text_trie import KnownTexts, Spot
from sgl_spec.drafting.grammar.token_habits import RequestHabits
from sgl_spec.drafting.grammar.vocabulary import Spelled, Vocabulary
from sgl_spec.testing.fake_codec import FakeCodec
from sgl_spec.testing.fake_grammar import FakeGrammar, Free, Literal, OneOf, Part


def _speller(codec: FakeCodec) -> Speller:
    return Speller(codec, Vocabulary(codec.texts))


def _steps(
    codec: FakeCodec, parts: tuple[Part, ...], read: bool = True, habits: RequestHabits | None = None
) -> dict[bytes, Step]:
    cursor = FakeGrammar(parts, codec).cursor()
    assert cursor is not None
    search = TextSearch(cursor, SpaceStyle(), 0.001)
    known = habits or RequestHabits(range(codec.size) if read else (), None)
    steps = _speller(codec).steps(At(KnownTexts().spot(b""), 1.0, ()), search, known, 0.001)
    assert sum(step.q for step in steps) <= 1.0 + 1e-9
    return {codec.token_bytes(step.token): step for step in steps}


def test_the_only_token_there_is_is_forced() -> None:
    steps = _steps(codec_for(), (Literal(b"x.y"),))
    assert {text: (step.q, step.origin) for text, step in steps.items()} == {b"x": (1.0, FORCED)}


def test_a_certain_text_of_words_that_were_read_is_text() -> None:
    steps = _steps(codec_for([b"Today", b"To"]), (Literal(b"Today is"),))
    assert steps[b"Today"].origin == TEXT
    assert steps[b"Today"].q > 0.95
    assert steps[b"To"].origin == SPELLING


def test_a_certain_text_of_words_never_read_is_spelling() -> None:
    steps = _steps(codec_for([b"Today", b"To"]), (Literal(b"Today is"),), read=False)
    assert {step.origin for step in steps.values()} == {SPELLING}
    assert set(steps) == {b"Today", b"To", b"T"}


def test_a_token_that_could_run_into_a_free_value_is_an_edge() -> None:
    letters = bytes(range(97, 123)) + b"QEZ 0123456789"
    steps = _steps(codec_for([b'"h', b'": "harry']), (Literal(b'": "'), Free(letters, 1, 9)))
    assert steps[b'": "'[:4]].origin == EDGE if b'": "' in steps else True
    short = _steps(codec_for([b'"h']), (Literal(b'"'), Free(letters, 1, 9)))
    assert short[b'"'].origin == EDGE
    assert short[b'"'].q < 0.9


def test_alternatives_are_branches_in_the_tokenizers_way() -> None:
    steps = _steps(codec_for([b"red", b"blue"]), (OneOf((b"red", b"blue")), Literal(b".")))
    assert {text: step.origin for text, step in steps.items()} == {b"red": BRANCH, b"blue": BRANCH}
    assert steps[b"red"].q == pytest.approx(steps[b"blue"].q)


def test_alternatives_that_begin_with_the_same_token_add_up_once() -> None:
    parts = (Literal(b'"'), OneOf((b",a", b",b", b",c")))
    steps = _steps(codec_for(), parts)
    assert steps[b'"'].origin != FORCED  # `",` is a token, too
    assert steps[b'",'].q <= 1.0
    three = _steps(codec_for([b"x1"]), (OneOf((b"x1a", b"x1b", b"x2", b"y")),))
    assert three[b"x1"].q == pytest.approx(three[b"y"].q / 2, rel=0.01)


def test_special_tokens_are_not_drafted_though_a_mask_allows_them() -> None:
    codec = codec_for()
    texts = [*codec.texts]
    texts[codec.special] = b"<tool>"
    vocabulary = Vocabulary(texts)
    cursor = FakeGrammar((Literal(b"<tool>x"),), codec).cursor()
    assert cursor is not None
    search = TextSearch(cursor, SpaceStyle(), 0.001)
    speller = Speller(codec, vocabulary)
    steps = speller.steps(At(KnownTexts().spot(b""), 1.0, ()), search, RequestHabits([], None), 0.001)
    assert [(codec.token_bytes(step.token), step.origin) for step in steps] == [(b"<", SPELLING)]


class _Lowering(FakeCodec):
    """A tokenizer that changes what it writes."""

    def encode(self, text: str) -> list[int]:
        return super().encode(text.lower())


def test_where_the_tokenizer_would_change_the_text_the_longest_token_is_its_own() -> None:
    codec = _Lowering([b"Today", b"today", b"To"])
    steps = _steps(codec, (Literal(b"Today is"),))
    assert max(steps, key=lambda text: steps[text].q) == b"Today"


@pytest.mark.parametrize("text", ["größe", "名前", "🎲!"])
def test_characters_are_written_to_their_end(text: str) -> None:
    codec = codec_for([text.encode()[:2]])
    speller, whole = _speller(codec), text.encode()
    cursor = FakeGrammar((Literal(whole),), codec).cursor()
    assert cursor is not None
    search = TextSearch(cursor, SpaceStyle(), 0.001)
    habits = RequestHabits(range(codec.size), None)
    at, written = At(KnownTexts().spot(b""), 1.0, ()), b""
    while written != whole:
        best = max(speller.steps(at, search, habits, 0.001), key=lambda step: step.q)
        assert best.q > 0.9
        written += codec.token_bytes(best.token)
        assert whole.startswith(written)
        at = At(Spot(at.spot.top, best.place), 1.0, (best.token,), best.plan)


@given(st.binary(max_size=8), st.lists(st.integers(1, 3), max_size=3), st.integers(0, 10))
def test_a_plan_fits_what_it_agrees_with(text: bytes, lengths: list[int], known: int) -> None:
    tokens = tuple(Spelled(number, length) for number, length in enumerate(lengths) if sum(lengths) <= len(text))
    plan = Plan(tokens, text[: sum(one.length for one in tokens)])
    if not tokens:
        assert not NO_PLAN.fits(text)
        return
    assert plan.fits(text)
    assert plan.fits(plan.text[:known]) == (known >= tokens[0].length)
    changed = bytes([text[0] ^ 1]) + text[1:]
    assert not plan.fits(changed)
    rest = plan.rest()
    assert rest.tokens == tokens[1:]
    assert rest.text == plan.text[tokens[0].length :] or not rest.tokens


def test_only_what_does_not_depend_on_what_follows_is_planned() -> None:
    codec = codec_for([b"house", b"hold"])
    speller = _speller(codec)
    plan = speller._plan((), b'"house": "hou')
    assert [codec.token_bytes(spelled.token) for spelled in plan.tokens] == [b'"', b"house", b'":']
    assert speller._plan((), b"ho").tokens[0].length == 1
    assert speller._plan((), b"").tokens == ()


def test_what_was_forced_is_no_habit_and_what_reaches_beyond_neither() -> None:
    codec = codec_for([b"house", b"ho", b"house!"])
    speller, habits = _speller(codec), RequestHabits([], None)
    (x,) = codec.encode("x")
    speller.note(habits, (), b"xy", x)
    assert not habits.own
    speller.note(habits, (), b"house", codec.encode("house!")[0])
    assert not habits.own
    speller.note(habits, (), b"house", codec.encode("ho")[0])
    assert len(habits.own) == 1
    speller.note(habits, (), b"house", codec.special)
    assert len(habits.own) == 1
