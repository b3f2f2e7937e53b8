"""White space: what was read is expected again, at any depth; what was never read is a guess."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgl_spec.drafting.grammar.space_style import CLOSING, SPACES, SpaceStyle, StylePlace

WAYS: dict[str, dict[str, Any]] = {
    "compact": {"separators": (",", ":")},
    "dumps": {},
    "indent 2": {"indent": 2},
    "indent 4": {"indent": 4},
    "tabs": {"indent": "\t"},
}
LESSON = {"a": 1, "b": ["x", [], {"c": "y, {z}: \\"}, {}, [1, 2]], "d": {"e": {"f": None, "g": True}, "h": [[0]]}}
# No keys are sorted and nothing is nested deeper than the lesson shows each mark.
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 99), st.text('ab", :{}[]\\\n', max_size=6)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text("kq", max_size=3), inner, max_size=3)),
    max_leaves=12,
)


def _spaces(text: bytes) -> list[tuple[int, bytes, bool]]:
    """The places of a JSON text where white space could stand: where, what stands there, whether a closing bracket
    follows. Found by a scan that knows nothing of styles."""
    found, at, in_string = [], 0, False
    while at < len(text):
        byte = text[at]
        if in_string:
            at += 2 if byte == ord("\\") else 1
            in_string = byte != ord('"')
            continue
        start = at
        while at < len(text) and text[at] in SPACES:
            at += 1
        after_number = at == start and start > 0 and text[start - 1] not in b'{}[],:"' and text[at] not in b"{}[],:"
        if start > 0 and not after_number:
            found.append((start, text[start:at], text[at] in CLOSING))
        in_string = text[at] == ord('"')
        at += 1
    return found


@given(values, st.sampled_from(sorted(WAYS)))
def test_a_style_that_was_read_is_reproduced_at_any_depth(value: Any, way: str) -> None:
    style = SpaceStyle()
    style.read(json.dumps(LESSON, **WAYS[way]).encode())
    style.begin()
    text = json.dumps({"key": value, "more": [value]}, **WAYS[way]).encode()
    for at, space, closing in _spaces(text):
        (likeliest, *_) = style.spaces(style.after(text[:at]), closing)
        assert likeliest.text == space
        assert likeliest.q >= 0.92


@given(values, st.sampled_from(sorted(WAYS)), st.data())
def test_reading_in_pieces_is_reading_at_once(value: Any, way: str, data: st.DataObject) -> None:
    text = json.dumps([value, LESSON], **WAYS[way]).encode()
    split = data.draw(st.integers(0, len(text)))
    whole, pieces, ahead = SpaceStyle(), SpaceStyle(), SpaceStyle()
    whole.read(text)
    pieces.read(text[:split])
    pieces.read(text[split:])
    assert pieces._seen == whole._seen
    place, same = ahead.after(text), ahead.after(text[:split]).after(text[split:])
    assert _slots(place) == _slots(same)
    assert _slots(ahead.after(b"")) == _slots(StylePlace())  # asking moves nothing


def _slots(place: StylePlace) -> list[Any]:
    return [getattr(place, name) for name in StylePlace.__slots__]


def test_what_was_never_read_has_several_guesses_that_share_at_most_one() -> None:
    style = SpaceStyle()
    for before, closing in ((b"{", False), (b'{"a"', False), (b'{"a":', False), (b'{"a": 1', True), (b"[", True)):
        spaces = style.spaces(style.after(before), closing)
        assert spaces
        assert sum(space.q for space in spaces) <= 1.0
    (_, indented) = style.spaces(style.after(b'{"a": {'), False)
    assert indented.text == b"\n    "


def test_space_that_has_begun_is_finished() -> None:
    style = SpaceStyle()
    style.read(b'{\n  "a": {\n    "b": 1\n  }\n}')
    style.begin()
    style.read(b'{\n "x')  # the lesson is one level; this output has begun otherwise
    style = SpaceStyle()
    style.read(b'{\n    "a": 1,\n    "b"')
    assert [space.text for space in style.spaces(style.after(b": 2,\n "), False)] == [b"   "]
    assert [space.text for space in style.spaces(style.after(b": 2,\n    "), False)] == [b""]
    assert style.spaces(style.after(b": 2, "), False) == []


def test_the_last_of_two_styles_is_expected_and_the_version_says_so() -> None:
    style = SpaceStyle()
    style.read(b'{"a": 1, "b": 2}')
    seen = style.version
    style.begin()
    style.read(b'{"a": 1, "b": 2}')
    assert style.version == seen
    style.begin()
    style.read(b'{"a":1,"b"')
    assert style.version > seen
    assert [space.text for space in style.spaces(style.after(b":2,"), False)] == [b""]


@pytest.mark.parametrize("text", [b"]]]}", b"\\\\", b'"', b'{"a', b"\xff\x00", b"}\n}"])
def test_what_is_no_json_is_read_without_a_fuss(text: bytes) -> None:
    style = SpaceStyle()
    style.read(text)
    assert isinstance(style.spaces(style.after(text), True), list)
