"""What a grammar lets the output be next: found by asking little, and with the cursor back where it was."""

from __future__ import annotations

import pytest
from constrained import LANGUAGES, SHEET, at_random, codec_for, languages, walk
from hypothesis import given, settings
from hypothesis import strategies as st

from sgl_spec.drafting.grammar.space_style import SpaceStyle
from sgl_spec.drafting.grammar.text_search import (
    FEW_WAYS,
    LEAST_ASKED,
    MOST_ASKED,
    MOST_PATHS,
    Q_END,
    Q_OUTPUT_ENDS,
    TextSearch,
)
from sgl_spec.drafting.grammar.text_trie import KnownTexts, Spot, TextNode
from sgl_spec.testing.fake_grammar import FakeCursor, FakeGrammar, Free, Literal, OneOf, Part, Space

# A search asks a cursor for a few things, and for one way to end a value after the other.
_MOST_CALLS = MOST_ASKED * (20 + 3 * 12 + 3 * FEW_WAYS)


class Asked:
    """A search at the beginning of a language, or after some of it."""

    def __init__(self, parts: tuple[Part, ...], before: bytes = b"", least: float = 0.001) -> None:
        self.grammar = FakeGrammar(parts, codec_for())
        cursor = self.grammar.cursor()
        assert cursor is not None
        assert not before or cursor.accept_bytes(before)
        self.cursor: FakeCursor = cursor
        style = SpaceStyle()
        style.read(before)
        self.search = TextSearch(cursor, style, least)
        self.spot = KnownTexts().spot(b"")
        self.depth, self.states = cursor.depth, cursor.states

    def paths(self, most_bytes: int = 10, least: float = 0.001) -> dict[bytes, float]:
        found = self.search.paths(self.spot, most_bytes, 1.0, least)
        assert (self.cursor.depth, self.cursor.states) == (self.depth, self.states)
        return {path.text: path.q for path in found}


@settings(max_examples=150, deadline=None)
@given(languages, st.integers(0, 1000), st.integers(0, 12), st.integers(1, 24))
def test_paths_are_texts_of_the_language(parts: tuple[Part, ...], seed: int, walked: int, most_bytes: int) -> None:
    grammar = FakeGrammar(parts, codec_for())
    start = grammar.cursor()
    assert start is not None
    tokens = [t for t in walk(start, grammar.codec, at_random(seed), walked) if t != grammar.codec.ending]
    asked = Asked(parts, grammar.codec.text(tokens))
    before = asked.cursor.asked
    paths = asked.paths(most_bytes)
    assert asked.cursor.asked - before <= _MOST_CALLS
    assert len(paths) <= MOST_PATHS
    assert sum(paths.values()) <= 1.0 + 1e-9
    for text, q in paths.items():
        assert text
        assert q > 0.0
        assert asked.cursor.accept_bytes(text)
        asked.cursor.rollback(1)
    _check_shares(asked.spot.place.node)


def _check_shares(node: TextNode) -> None:
    """What may follow a text has at most probability 1, and white space stands beside what has none."""
    assert sum(child.q for child in node.children) <= 1.0 + 1e-9
    assert len({child.text for child in node.children}) == len(node.children)
    for child in node.children:
        assert child.parent is node
        _check_shares(child)


@settings(max_examples=100, deadline=None)
@given(languages, st.integers(0, 1000), st.integers(0, 12))
def test_what_is_certain_is_all_that_can_come(parts: tuple[Part, ...], seed: int, walked: int) -> None:
    grammar = FakeGrammar(parts, codec_for())
    start = grammar.cursor()
    assert start is not None
    tokens = [t for t in walk(start, grammar.codec, at_random(seed), walked) if t != grammar.codec.ending]
    asked = Asked(parts, grammar.codec.text(tokens))
    certain = asked.search.certain(asked.spot, 30)
    for byte in certain:
        ways = asked.cursor.ways()
        assert (ways.bytes, ways.end) == (bytes([byte]), False)
        asked.cursor.accept_bytes(bytes([byte]))
    if len(certain) < 30:
        assert len(asked.cursor.ways().bytes) != 1 or asked.cursor.ways().end


def test_forced_text_is_found_in_one_piece() -> None:
    assert Asked(SHEET).paths(40) == {b'{"name": "': 1.0}


def test_the_values_of_an_enum_share_what_there_is() -> None:
    paths = Asked((OneOf((b"red", b"green", b"blue")), Literal(b"."))).paths()
    assert paths == pytest.approx({b"red.": 1 / 3, b"green.": 1 / 3, b"blue.": 1 / 3})


def test_values_that_begin_alike_split_where_they_differ() -> None:
    paths = Asked((OneOf((b"student", b"studio")), Literal(b"!"))).paths(12)
    assert paths == pytest.approx({b"student!": 0.5, b"studio!": 0.5})


def test_a_free_value_is_offered_its_end_with_what_follows() -> None:
    paths = Asked(SHEET, b'{"name": "harry').paths(8)
    assert paths == {b'",\n "hou'[:8]: pytest.approx(Q_END)} or list(paths) == [b'",\n "house": "']
    assert list(paths.values()) == [pytest.approx(Q_END)]


def test_a_free_value_whose_end_leads_nowhere_is_left_alone() -> None:
    asked = Asked((Free(bytes(range(32, 127)), 1, 90),))
    assert asked.paths() == {}
    assert asked.spot.place.node.free


def test_an_output_that_may_end_leaves_less_for_going_on() -> None:
    paths = Asked((Literal(b"a"), OneOf((b"", b"bc"))), b"a").paths()
    assert paths == {b"bc": pytest.approx(1.0 - Q_OUTPUT_ENDS)}


def test_the_digits_count_as_one_way() -> None:
    asked = Asked((Free(b"0123456789", 1, 3), Literal(b",")), b"1", least=0.0)
    asked.paths(2)
    children = {child.text: child for child in asked.spot.place.node.children}
    assert children[b","].q == pytest.approx(0.45)
    assert children[b"7"].q == pytest.approx(0.055)
    assert children[b"7"].lone
    assert not children[b","].lone


def test_optional_white_space_is_the_styles_and_leads_on() -> None:
    parts = (Literal(b'{"a":'), Space(), Literal(b'1,"b":'), Space(), Literal(b'"b"}'))
    asked = Asked(parts, b'{"a": 1,"b":')
    assert asked.paths(6, 0.1) == {b' "b"}': pytest.approx(0.92 / 0.95, abs=0.02)}


def test_what_is_hardly_reached_is_not_asked_about() -> None:
    asked = Asked(SHEET)
    calls = asked.cursor.asked
    assert asked.search.paths(asked.spot, 8, LEAST_ASKED / 2, 0.001) == []
    assert asked.cursor.asked == calls
    assert asked.paths(8) == {b'{"name":': 1.0}
    known = asked.search.paths(asked.spot, 8, LEAST_ASKED / 2, 0.001)
    assert [path.text for path in known] == [b'{"name":']  # what is known anyway is used


def test_nothing_is_asked_twice_and_no_more_than_is_allowed() -> None:
    asked = Asked(LANGUAGES[1])
    first = asked.paths(24)
    calls = asked.cursor.asked
    assert asked.paths(24) == first
    assert asked.cursor.asked == calls
    many = Asked((Space(), *(part for _ in range(40) for part in (Literal(b"a"), Space()))))
    for length in range(1, 200):
        many.paths(length)
    assert many.cursor.asked <= _MOST_CALLS


def test_a_trie_of_another_course_yields_nothing() -> None:
    asked = Asked(SHEET)
    lost = KnownTexts().spot(b"no such beginning")
    assert asked.search.paths(Spot(lost.top, lost.place), 8, 1.0, 0.001) == []
    assert asked.cursor.depth == 0


def test_forced_tokens_are_asked_after_a_path_that_is_allowed() -> None:
    codec = codec_for()
    cursor = FakeGrammar(SHEET, codec, settles_tokens=True).cursor()
    assert cursor is not None
    search = TextSearch(cursor, SpaceStyle(), 0.001)
    name = codec.encode('{"name": "')
    assert list(search.forced_tokens([])) == name[: len(search.forced_tokens([]))] != []
    assert list(search.forced_tokens(name[:1])) == name[1 : 1 + len(search.forced_tokens(name[:1]))]
    assert cursor.depth == 0
    xgrammar_like = FakeGrammar(SHEET, codec).cursor()
    assert xgrammar_like is not None
    assert TextSearch(xgrammar_like, SpaceStyle(), 0.001).forced_tokens([]) == ()
