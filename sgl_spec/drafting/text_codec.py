"""Between text and tokens, for drafters that know what the *text* will be. Used while drafting and when a request
starts.

A text has many tokenisations; the model nearly always writes the one its tokenizer gives for the whole text so far
(the canonical one). `continuation` finds it for a text that follows tokens already there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

# A word split differently because of what follows it lies within so many tokens of the end.
TAIL_TOKENS = 8


class TextCodec(Protocol):
    """A tokenizer as drafting sees it. Tokens are ids; special tokens are never made from text."""

    def encode(self, text: str) -> list[int]:
        """The canonical tokens of `text` alone, without any special tokens added or recognised."""

    def token_bytes(self, token: int) -> bytes:
        """What `token` adds to the text; empty for special tokens and ids that are no token."""


def text_of(codec: TextCodec, tokens: Sequence[int]) -> bytes:
    """The bytes that `tokens` stand for."""
    return b"".join(map(codec.token_bytes, tokens))


def continuation(codec: TextCodec, before: Sequence[int], text: str) -> list[int]:
    """The tokens of `text` as they would come after `before`: those of both together, where that keeps `before` as it
    is, else those of `text` alone. Looks at no more than the last TAIL_TOKENS tokens."""
    return bytes_continuation(codec, before, text.encode())


def bytes_continuation(codec: TextCodec, before: Sequence[int], text: bytes) -> list[int]:
    """`continuation` of a text that may begin or end inside a character. A character cut off at its end is left out;
    empty where no way was found to write the text."""
    text = text[: len(text) - _cut_off(text)]
    if not text:
        return []
    for start in range(max(0, len(before) - TAIL_TOKENS), len(before)):
        tail = list(before[start:])
        try:
            joint = codec.encode((text_of(codec, tail) + text).decode())
        except UnicodeDecodeError:
            continue  # the tail begins inside a character
        if joint[: len(tail)] == tail and len(joint) > len(tail):
            return joint[len(tail) :]
        break  # a shorter tail would agree only by forgetting what made the difference
    try:
        return codec.encode(text.decode())
    except UnicodeDecodeError:
        return []


def _cut_off(text: bytes) -> int:
    """How many bytes at the end of `text` are the beginning of a character that it does not hold whole."""
    for back in range(1, min(len(text), 3) + 1):
        lead = text[-back]
        if lead >= 0xC0:
            needed = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
            return back if back < needed else 0
        if lead < 0x80:
            return 0
    return 0
