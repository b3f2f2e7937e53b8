"""Declared shapes: their texts as the model would write them, holes, alternatives and what does not fit."""

from __future__ import annotations

import pytest
from drafted import accepted, check, nodes, replay
from hypothesis import given, settings
from hypothesis import strategies as st
from piece_codec import PieceCodec

from sgl_spec.drafting.template.declared_shape import MAX_TEXTS, DeclaredShape
from sgl_spec.drafting.template.shape_cursor import ShapeCursor

VERDICT = ("Because ", None, ".\n", ("Yes", "No"))


def cursor_of(codec: PieceCodec, *parts: str | tuple[str, ...] | None, prompt: str = "Judge.\n") -> ShapeCursor:
    return ShapeCursor(DeclaredShape(parts, codec), "template.shape", 0.02, codec.encode(prompt))


def texts(codec: PieceCodec, cursor: ShapeCursor, most: int = 15) -> dict[str, float]:
    """q of the last token of every drafted text."""
    return {codec.text(path): q for path, q in nodes(cursor.propose(most)).items()}


def test_parts_of_a_kind_in_a_row_are_one():
    shape = DeclaredShape(("a", "b", None, None, "c", ("d", "e"), ("f", "g"), "h"), PieceCodec())
    assert shape.parts == ((b"ab",), (), (b"c",), (b"d", b"e"), (b"f", b"g"), (b"h",))
    assert shape.texts_from(2) == [b"cdfh", b"cdgh", b"cefh", b"cegh"]
    assert shape.texts_from(1) == [b""]
    assert shape.hole_after(0)
    assert not shape.hole_after(2)
    assert len(DeclaredShape([tuple("abcdefgh")] * 9, PieceCodec()).texts_from(0)) == MAX_TEXTS


def test_the_space_before_a_hole_is_left_to_what_fills_it():
    codec = PieceCodec()
    cursor = cursor_of(codec, *VERDICT)
    q = texts(codec, cursor)
    assert q["Becau"] > 0.9
    assert q["Because"] > 0.9
    assert q["Because "] < 0.5, "mostly the space is in one token with the hole's first word"
    cursor.extend(codec.encode("Because it"))
    assert texts(codec, cursor)["."] < 0.2


def test_a_whole_output_is_followed_and_every_text_drafted():
    codec = PieceCodec()
    output = codec.encode("Because it rhymes.\nNo")
    result = replay(cursor_of(codec, *VERDICT), output)
    assert result.rounds == 4  # one for each token of the hole, the last brings the verdict
    cursor = cursor_of(codec, *VERDICT)
    cursor.extend(codec.encode("Because it rhymes"))
    q = texts(codec, cursor)
    assert q[".\nYes"] > 0.0
    assert q[".\nYes"] == q[".\nNo"]
    cursor.extend(codec.encode(".\n"))
    assert texts(codec, cursor) == pytest.approx({"Yes": 0.475, "No": 0.475})


def test_after_the_last_part_nothing_is_drafted():
    codec = PieceCodec()
    cursor = cursor_of(codec, *VERDICT)
    cursor.extend(codec.encode("Because it rhymes.\nNo"))
    assert cursor.propose(15) == []
    cursor.extend(codec.encode(" and more."))
    assert cursor.propose(15) == []


def test_a_text_that_begins_within_a_token_is_followed():
    codec = PieceCodec()
    cursor = cursor_of(codec, '{"name": "', None, '", "age": ', None, "}")
    cursor.extend(codec.encode('{"name": "'))
    signs = codec.encode('what?!"')  # the last token is the hole's ?! and the text's first quote
    assert codec.token_bytes(signs[-1]) == b'?!"'
    cursor.extend(signs)
    assert accepted(cursor.propose(15), codec.encode(', "age":')) == 4


def test_alternatives_that_begin_alike_share_their_tokens():
    codec = PieceCodec()
    cursor = cursor_of(codec, "Action: ", ("Search[", "Seek[", "Stop["), None, "]")
    chains = cursor.propose(20)
    check(chains)
    q = {codec.text(path): one for path, one in nodes(chains).items()}
    assert [q["Actio"], q["Action"]] == pytest.approx([0.95, 0.95])
    assert q["Action: Searc" if "Action: Searc" in q else "Action: Seek"] < 0.5


def test_a_full_stop_inside_the_hole_does_not_end_it():
    codec = PieceCodec()
    cursor = cursor_of(codec, *VERDICT)
    cursor.extend(codec.encode("Because 3.5 feet rhyme"))
    assert texts(codec, cursor)[".\n"] > 0.5


def test_a_text_written_otherwise_is_given_up_and_the_next_is_waited_for():
    codec = PieceCodec()
    cursor = cursor_of(codec, "Thought: ", None, "\nAction: ", ("Search[", "Lookup["), None, "]")
    cursor.extend(codec.encode("I need to look this up.\nActi"))
    assert "on" in texts(codec, cursor)


def test_an_output_that_never_fits_is_drafted_next_to_nothing():
    codec = PieceCodec()
    cursor = cursor_of(codec, '{"a": ', None, ', "b": ', None, "}")
    result = replay(cursor, codec.encode("no such thing here, only words " * 8))
    assert result.drafted < 2 * result.rounds


def test_texts_beyond_ascii_are_followed_byte_by_byte():
    codec = PieceCodec()
    cursor = cursor_of(codec, "Größe: ", None, " Ω")
    output = codec.encode("Größe: 12 Ω")
    for done in range(len(output)):
        check(cursor.propose(15))
        cursor.advance(output[done])
    assert replay(cursor_of(codec, "Größe: ", None, " Ω"), output).rounds < len(output)


def test_special_tokens_have_no_text_and_change_nothing():
    codec = PieceCodec()
    cursor = cursor_of(codec, *VERDICT)
    before = texts(codec, cursor)
    cursor.advance(codec.special)
    assert texts(codec, cursor) == before


parts = st.lists(
    st.none()
    | st.text("ab .é", min_size=1, max_size=4)
    | st.lists(st.text("ab é", min_size=1, max_size=4), min_size=1, max_size=3).map(tuple),
    max_size=5,
)


@settings(deadline=None, max_examples=200)
@given(parts, st.text("ab .é", max_size=30), st.lists(st.integers(0, 300), max_size=10), st.integers(0, 12))
def test_any_shape_and_text_give_proper_chains(shape, text, noise, most):
    codec = PieceCodec()
    cursor = cursor_of(codec, *shape)
    for token in [*codec.encode(text), *noise]:
        chains = cursor.propose(most)
        check(chains)
        assert len(nodes(chains)) <= most
        cursor.advance(token)
