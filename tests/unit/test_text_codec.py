"""Tokens of a text that follows others, also where one begins or ends inside a character."""

from __future__ import annotations

import pytest
from constrained import codec_for
from hypothesis import given
from hypothesis import strategies as st

from sgl_spec.drafting.text_codec import bytes_continuation, continuation, text_of

_CODEC = codec_for([b"house", b"use", "名".encode(), b"ab", b"bc", b"abc"])
_texts = st.text('abcdehous": é名🎲', max_size=10)


@given(_texts, _texts)
def test_canonical_tokens_before_are_kept_and_the_text_is_whole(before: str, text: str) -> None:
    tokens = continuation(_CODEC, _CODEC.encode(before), text)
    assert text_of(_CODEC, tokens) == text.encode()


@given(_texts, st.data())
def test_a_text_cut_anywhere_goes_on_from_its_bytes(text: str, data: st.DataObject) -> None:
    whole = text.encode()
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, len(whole)))
    before = [token for byte in whole[:start] for token in _CODEC.encode_bytes(bytes([byte]))]
    tokens = bytes_continuation(_CODEC, before, whole[start:end])
    assert whole[start:end].startswith(text_of(_CODEC, tokens))
    left_out = whole[start + len(text_of(_CODEC, tokens)) : end]
    assert not tokens or len(left_out) < 4  # at most the beginning of a character


@given(st.binary(max_size=6), st.lists(st.integers(0, 300), max_size=4))
def test_any_bytes_after_any_tokens_do_no_harm(text: bytes, before: list[int]) -> None:
    assert text.startswith(text_of(_CODEC, bytes_continuation(_CODEC, before, text)))


@pytest.mark.parametrize(
    ("before", "text", "expected"),
    [
        ("ho", "use", [b"use"]),
        ("a", "bc", [b"bc"]),
        ("", "house", [b"house"]),
        ("x", "名", ["名".encode()]),
        ("x", "", []),
    ],
)
def test_examples(before: str, text: str, expected: list[bytes]) -> None:
    tokens = continuation(_CODEC, _CODEC.encode(before), text)
    assert [_CODEC.token_bytes(token) for token in tokens] == expected


def test_a_character_begun_by_the_tokens_before_is_finished() -> None:
    first, *rest = "名".encode()
    codec = codec_for()
    tokens = bytes_continuation(codec, codec.encode_bytes(bytes([first])), bytes(rest))
    assert text_of(codec, tokens) == bytes(rest)
    assert bytes_continuation(codec, codec.encode("x"), bytes(rest)) == []  # no text goes on like this
    assert bytes_continuation(codec, [], "x名".encode()[:3]) == codec.encode("x")
