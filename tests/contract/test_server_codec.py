"""Texts to tokens and back, for the kinds of tokenizers models have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgl_spec.drafting.text_codec import continuation, text_of
from sgl_spec.server.codec import MaskBits, ServerCodec, make_codec
from sgl_spec.testing.small_tokenizers import SENTENCES, byte_level, few_bytes, sentencepiece_like

_TOKENIZERS: dict[str, Any] = {"byte level": byte_level(), "sentencepiece": sentencepiece_like()}
_CODECS = {name: ServerCodec(tokenizer, len(tokenizer) + 11) for name, tokenizer in _TOKENIZERS.items()}
_texts = st.one_of(st.sampled_from(SENTENCES), st.text(max_size=20), st.text(' "name:é名▁', max_size=12))


@pytest.mark.parametrize("name", _CODECS)
@settings(deadline=None)
@given(text=_texts)
def test_a_text_is_what_its_tokens_say(name: str, text: str) -> None:
    codec = _CODECS[name]
    tokens = codec.encode(text)
    assert text_of(codec, tokens) == _as_said(name, text).encode()
    assert not set(_TOKENIZERS[name].all_special_ids) & set(tokens)


@pytest.mark.parametrize("name", _CODECS)
@settings(deadline=None)
@given(text=_texts, data=st.data())
def test_a_text_goes_on_in_the_tokens_of_the_whole(name: str, text: str, data: st.DataObject) -> None:
    codec = _CODECS[name]
    split = data.draw(st.integers(0, len(text)))
    before = codec.encode(text[:split])
    assert text_of(codec, continuation(codec, before, text[split:])) == _as_said(name, text[split:]).encode()


def _as_said(name: str, text: str) -> str:
    """sentencepiece writes a space as U+2581, so it cannot tell that character from one."""
    return text.replace("▁", " ") if name == "sentencepiece" else text


@pytest.mark.parametrize("text", ["▁", "a▁", "▁▁ a", " ▁", "▁é▁", ""])
def test_the_character_that_stands_for_a_space_is_one(text: str) -> None:
    codec = _CODECS["sentencepiece"]
    assert text_of(codec, codec.encode(text)) == text.replace("▁", " ").encode()


def test_special_tokens_are_no_text_and_never_made_from_it() -> None:
    codec = _CODECS["byte level"]
    end, start = _TOKENIZERS["byte level"].convert_tokens_to_ids(["<|end|>", "<|start|>"])
    assert codec.token_bytes(end) == codec.token_bytes(start) == b""
    assert text_of(codec, codec.encode("a<|end|>b<|start|>")) == b"a<|end|>b<|start|>"
    assert (
        _TOKENIZERS["byte level"].encode("a<|end|>", add_special_tokens=False)[-1] == end
    )  # the server's is as it was
    # A mask may allow one for its text, so the vocabulary knows it by that.
    assert codec.vocabulary.text(start) == b"<|start|>"
    assert not codec.vocabulary.only_one_of(codec.vocabulary.beginnings(b"<|start|>"), b"<|start|>")


def test_added_tokens_that_are_not_special_are_text() -> None:
    codec = _CODECS["byte level"]
    (tool,) = codec.encode("<tool_call>")
    assert codec.token_bytes(tool) == b"<tool_call>"


def test_ids_that_are_no_token_have_no_text() -> None:
    codec = _CODECS["byte level"]
    for token in (-1, len(_TOKENIZERS["byte level"]) + 3, codec.vocab_size, 10**9):
        assert codec.token_bytes(token) == b""


def test_of_equal_texts_the_tokenizers_own_token_is_drafted_and_neither_is_forced() -> None:
    codec = _CODECS["sentencepiece"]
    (own,) = codec.encode("A")
    assert codec.vocabulary.beginnings(b"A")[0].token == own
    assert not codec.vocabulary.only_one_of(codec.vocabulary.beginnings(b"A"), b"A")


def test_without_a_fast_tokenizer_the_wrapper_is_asked() -> None:
    fast, slow = _CODECS["byte level"], ServerCodec(byte_level(), 440)
    slow._fast = None
    for text in SENTENCES:
        assert slow.encode(text) == fast.encode(text)


def test_a_tokenizer_nobody_can_read_costs_the_text_drafts_and_not_the_server(caplog: pytest.LogCaptureFixture) -> None:
    assert make_codec(object(), 100) is None
    assert "no drafts that go by text" in caplog.text
    assert isinstance(make_codec(byte_level(), 440), ServerCodec)
    assert make_codec(None, 100) is None


def test_bytes_that_are_no_token_are_known_to_be_none() -> None:
    codec = ServerCodec(few_bytes(), 500)
    assert ord("a") in codec.token_of_byte
    assert 0xC3 not in codec.token_of_byte
    assert len(codec.single_bytes.bytes) == len(codec.token_of_byte)


@given(st.lists(st.integers(0, 499), unique=True), st.lists(st.integers(0, 499), unique=True, min_size=1))
def test_mask_bits_are_read_where_they_are(allowed: list[int], asked: list[int]) -> None:
    mask = np.zeros(16, dtype=np.uint32)
    for token in allowed:
        mask[token >> 5] |= np.uint32(1 << (token & 31))
    found = MaskBits(np.array(asked, dtype=np.int64)).set_in(mask.view(np.int32))
    assert [bool(bit) for bit in found] == [token in allowed for token in asked]


def test_the_identity_tells_vocabularies_apart() -> None:
    codec = _CODECS["byte level"]
    assert codec.identity == ServerCodec(byte_level(), codec.vocab_size).identity
    assert codec.identity != ServerCodec(byte_level(410), codec.vocab_size).identity
    assert codec.identity != _CODECS["sentencepiece"].identity
