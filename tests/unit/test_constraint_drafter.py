"""Drafts from a grammar: nothing the grammar forbids, what is called forced is forced, and what is certain is found."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest
from constrained import (
    CALL,
    LANGUAGES,
    SHEET,
    Request,
    at_random,
    codec_for,
    drafter_for,
    languages,
    walk,
    words,
    writer,
)
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from sgl_spec.drafting.drafter import DraftRequest
from sgl_spec.drafting.grammar.token_habits import MOST_SLOTS
from sgl_spec.drafting.tree import Chain, DraftTree
from sgl_spec.testing.fake_codec import FakeCodec
from sgl_spec.testing.fake_grammar import FakeCursor, FakeGrammar, Free, Literal, OneOf, Part


def _other_chains(grammar: FakeGrammar, seed: int) -> list[Chain]:
    """What other drafters might say: right, wrong, and in part right."""
    dice = random.Random(seed)
    codec = grammar.codec
    cursor = grammar.cursor()
    tokens = walk(cursor, codec, at_random(seed), dice.randint(1, 6)) if cursor else []
    wrong = [dice.randrange(codec.size) for _ in range(2)]
    chains = [tokens, [*tokens[:2], *wrong], wrong]
    return [Chain(tuple(one), (dice.uniform(0.1, 1.0),) * len(one), "other") for one in chains if one]


@settings(max_examples=120, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(languages, words, st.integers(0, 1000), st.booleans())
def test_nothing_forbidden_is_drafted_and_forced_is_forced(
    parts: tuple[Part, ...], extra: list[bytes], seed: int, settles: bool
) -> None:
    codec = codec_for(extra)
    grammar = FakeGrammar(parts, codec, settles)
    request = Request(drafter_for(codec), grammar, prompt=codec.encode("name house"))
    decoded = request.decode(at_random(seed), lambda: _other_chains(grammar, seed), most=25)
    assert decoded.reached.get("grammar.forced", 0) == decoded.accepted.get("grammar.forced", 0)


@settings(max_examples=60, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(languages, words, st.integers(0, 1000), st.binary(min_size=3, max_size=12))
def test_vocabularies_that_lack_bytes(parts: tuple[Part, ...], extra: list[bytes], seed: int, lacking: bytes) -> None:
    codec = codec_for(extra, bytes=bytes(set(range(256)) - set(lacking)))
    grammar = FakeGrammar(parts, codec)
    request = Request(drafter_for(codec), grammar)
    for _ in range(4):  # a language may have no way on at all in such a vocabulary
        request.draft()
        if not grammar.mask:
            return
        request.commit([random.Random(seed).choice(grammar.mask)])


@settings(max_examples=60, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(languages, words, st.integers(0, 1000), st.integers(0, 6))
def test_twins_are_not_forced(parts: tuple[Part, ...], extra: list[bytes], seed: int, byte: int) -> None:
    codec = codec_for(extra)
    codec.texts[-1:] = [b'{"n:, '[byte : byte + 1] or b"{", b""]  # a second token of the same text
    codec.ending += 1
    Request(drafter_for(codec), FakeGrammar(parts, codec)).decode(at_random(seed), most=10)


@pytest.mark.parametrize("settles", [False, True])
@pytest.mark.parametrize("text", ["Today is the day.", '{"größe": "名前", "ä": null}'])
def test_a_language_without_choice_takes_as_few_rounds_as_the_budget_allows(text: str, settles: bool) -> None:
    codec = codec_for([b"Today", b" is", b" the", " 名".encode(), b"null"])
    tokens = codec.encode(text)
    request = Request(drafter_for(codec), FakeGrammar((Literal(text.encode()),), codec, settles), prompt=tokens)
    decoded = request.decode(writer(codec, text.encode()))
    assert decoded.tokens == [*tokens, codec.ending]
    assert decoded.rounds == len(tokens) // 16 + 1


@pytest.mark.parametrize("language", range(len(LANGUAGES)))
@pytest.mark.parametrize("settles", [False, True])
def test_a_search_stays_within_its_bounds(language: int, settles: bool) -> None:
    codec = codec_for()
    grammar = FakeGrammar(LANGUAGES[language], codec, settles)
    request = Request(drafter_for(codec, min_a=0.0), grammar)
    decoded = request.decode(at_random(language), most=40)
    assert decoded.rounds > 1
    assert max(cursor.asked for cursor in grammar.cursors) < 32 * (80 + codec.size)  # checking asks masks, too


def test_no_more_nodes_are_grafted_than_may_be_verified() -> None:
    codec = codec_for()
    choices = tuple(bytes([65 + i]) + b"lternative" for i in range(12))
    tree = Request(drafter_for(codec, min_a=0.0), FakeGrammar((OneOf(choices),), codec)).draft(max_tokens=5)
    assert 5 <= tree.num_drafts <= 5 + 12  # what follows one place is grafted at once


def test_alternatives_are_siblings() -> None:
    codec = codec_for([b"red", b"blue", b"green"])
    parts = (OneOf((b"red", b"blue", b"green")), Literal(b"."))
    tree = Request(drafter_for(codec), FakeGrammar(parts, codec), prompt=list(range(codec.size))).draft()
    first = {codec.token_bytes(tree.tokens[node]) for node in tree.children(0)}
    assert first == {b"red", b"blue", b"green"}
    assert all(0.2 < tree.q[node] < 0.4 for node in tree.children(0))


def test_endings_are_never_drafted_though_they_are_all_there_is() -> None:
    codec = codec_for()
    request = Request(drafter_for(codec), FakeGrammar((Literal(b"a"), OneOf((b"", b"b"))), codec))
    request.commit(codec.encode("ab"))
    assert request.draft().num_drafts == 0
    request.commit([codec.ending])
    assert not request.drafter.begin_round("r")


def test_a_text_token_that_ends_the_request_is_not_drafted() -> None:
    codec = codec_for()
    drafter = drafter_for(codec)
    (comma,) = codec.encode(",")
    drafter.start(DraftRequest("r", [], endings=frozenset([comma]), constraint=FakeGrammar((Literal(b",,"),), codec)))
    assert drafter.begin_round("r")
    tree = DraftTree(0)
    drafter.extend("r", tree, 15)
    assert tree.num_drafts == 0


def test_where_other_drafters_are_sure_the_grammar_is_not_asked() -> None:
    codec = codec_for()
    grammar = FakeGrammar(SHEET, codec)
    request = Request(drafter_for(codec), grammar)
    tokens = tuple(codec.encode('{"name'))
    tree = request.draft([Chain(tokens, (0.99,) * len(tokens), "other")])
    assert tree.tokens[1 : 1 + len(tokens)] == list(tokens)
    assert tree.origins[1] == {"other"}


def test_below_the_guesses_of_others_the_grammar_goes_on() -> None:
    codec = codec_for()
    grammar = FakeGrammar(SHEET, codec)
    request = Request(drafter_for(codec), grammar)
    request.commit(codec.encode('{"name": "'))
    tokens = tuple(codec.encode("harry"))
    tree = request.draft([Chain((*tokens, *codec.encode('",\n')), (0.9,) * (len(tokens) + 2), "other")])
    deepest = max(range(len(tree)), key=lambda node: tree.depths[node])
    assert tree.depths[deepest] > len(tokens) + 2
    assert all(origin.startswith("grammar.") for origin in tree.origins[deepest])


def _cost(codec: FakeCodec, text: str, past: Sequence[Sequence[int]]) -> int:
    request = Request(drafter_for(codec, past), FakeGrammar(CALL, codec), prompt=list(range(codec.size)))
    return request.decode(writer(codec, text.encode())).rounds


@pytest.mark.parametrize(
    "text", ['{"name":"area","base":12}', '{"name": "area", "base": 12}', '{\n  "name": "area",\n  "base": 12\n}']
)
def test_white_space_is_learned_from_the_slots_past(text: str) -> None:
    codec = codec_for()
    first = _cost(codec, text, ())
    later = _cost(codec, text, [codec.encode(text)])
    assert later <= min(first, 4)


@pytest.mark.parametrize("broken", ["accept", "accept_bytes", "forced", "ways"])
def test_an_exception_leaves_nothing_moved_and_the_next_round_is_whole(broken: str) -> None:
    codec = codec_for()
    grammar = FakeGrammar(CALL, codec)
    request = Request(drafter_for(codec), grammar, prompt=codec.encode("name"))
    assert request.drafter.begin_round("r")
    setattr(grammar.cursors[-1], broken, _raise)
    with pytest.raises(RuntimeError):
        _cut_and_extend(request)
    request.drafter.observe("r", [])
    fresh = Request(drafter_for(codec), FakeGrammar(CALL, codec), prompt=codec.encode("name"))
    assert request.draft().render() == fresh.draft().render()


def _cut_and_extend(request: Request) -> None:
    request.drafter.cut("r", request.codec.encode("{"))
    request.drafter.extend("r", DraftTree(0), 15)


def _raise(*arguments: object) -> None:
    raise RuntimeError("the grammar backend fell over")


def _in_single_bytes(codec: FakeCodec, name: str) -> Iterator[int]:
    text = b'{"name": "' + name.encode() + b'",\n "house": "Gryffindor",\n "wand": "yew"}'
    return iter([*(token for byte in text for token in codec.encode_bytes(bytes([byte]))), codec.ending])


def test_habits_do_not_pass_between_owners_or_slots() -> None:
    codec = codec_for()
    seen = {}
    for name in ("harry", "sally"):
        drafter = drafter_for(codec)
        model = _in_single_bytes(codec, name)
        first = Request(drafter, FakeGrammar(SHEET, codec), owner="A", slot="s")
        first.decode(lambda mask, model=model: next(model), most=200)
        for owner, slot in (("A", "s"), ("B", "s"), ("A", "t")):
            seen[name, owner, slot] = Request(drafter, FakeGrammar(SHEET, codec), owner=owner, slot=slot).draft()
    trees = {key: tree.render() for key, tree in seen.items()}
    assert trees["harry", "A", "s"] != trees["harry", "B", "s"] == trees["harry", "A", "t"] == trees["sally", "B", "s"]
    habit = seen["harry", "A", "s"]
    assert habit.q[habit.children(0)[0]] == pytest.approx(0.88)


def test_slots_are_bounded() -> None:
    codec = codec_for()
    drafter = drafter_for(codec)
    for number in range(MOST_SLOTS + 10):
        Request(drafter, FakeGrammar(SHEET, codec), slot=str(number))
    assert len(drafter._speller.habits._slots) == MOST_SLOTS


def test_a_grammar_that_went_on_without_us_is_noticed() -> None:
    codec = codec_for()
    grammar = FakeGrammar(SHEET, codec)
    request = Request(drafter_for(codec), grammar)
    request.draft()
    for token in codec.encode('{"name": "harry'):
        grammar.commit(token)  # the drafter is not told
    request.draft()  # checks every node
    for token in codec.encode('",\n'):
        grammar.commit(token)
    request.draft()


def test_a_committed_token_without_text_is_no_surprise() -> None:
    codec = codec_for()
    grammar = FakeGrammar((Free(b"abc", 1, 9), Literal(b"...")), codec)
    request = Request(drafter_for(codec), grammar)
    request.draft()
    request.drafter.observe("r", [codec.special])
    assert request.draft().num_drafts >= 0


def test_a_request_without_a_grammar_or_unknown_is_left_alone() -> None:
    drafter = drafter_for(codec_for())
    drafter.start(DraftRequest("plain", [1, 2]))
    drafter.observe("plain", [3])
    drafter.observe("never started", [3])
    assert not drafter.begin_round("plain")
    assert not drafter.begin_round("never started")
    drafter.stop("never started")


class _Thinking(FakeGrammar):
    """A grammar that does not apply yet."""

    thinks = True

    def cursor(self) -> FakeCursor | None:
        return None if self.thinks else super().cursor()


def test_a_grammar_that_begins_after_the_reasoning_is_learned_from_then_on() -> None:
    codec = codec_for()
    grammar = _Thinking(SHEET, codec)
    request = Request(drafter_for(codec), grammar)
    assert request.draft().num_drafts == 0
    request.drafter.observe("r", codec.encode("let me think"))
    grammar.thinks = False
    assert request.draft().num_drafts > 0
    request.commit(codec.encode('{"name'))
    state = request.drafter._states["r"]
    assert len(state.habits.own) > 0
