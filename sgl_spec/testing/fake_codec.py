"""A small tokenizer for tests: single bytes and some words, of which a text is written in the longest that fit."""

from __future__ import annotations

from collections.abc import Iterable


class FakeCodec:
    """A `TextCodec`. Ids: the single bytes, then the words in order, then `special` and `ending`, which are no text.

    Args:
        words: tokens of two bytes or more.
        bytes: those that are tokens of their own.
    """

    def __init__(self, words: Iterable[bytes], bytes: bytes = bytes(range(256))) -> None:
        self.texts = [*(text.to_bytes(1, "little") for text in sorted(set(bytes))), *words]
        self.special = len(self.texts)
        self.ending = self.special + 1
        self.texts += [b"", b""]
        self.encoded = 0
        self._ids = {text: token for token, text in reversed(list(enumerate(self.texts))) if text}
        self._beginnings = {text[:end] for text in self._ids for end in range(len(text))}
        self._longest = max(map(len, self._ids))

    @property
    def size(self) -> int:
        return len(self.texts)

    def encode(self, text: str) -> list[int]:
        self.encoded += 1
        return self.encode_bytes(text.encode())

    def encode_bytes(self, text: bytes) -> list[int]:
        tokens, at = [], 0
        while at < len(text):
            fitting = (text[at : at + length] for length in range(min(self._longest, len(text) - at), 0, -1))
            longest = next((piece for piece in fitting if piece in self._ids), None)
            if longest is None:
                break  # a byte that is no token: the rest cannot be written
            tokens.append(self._ids[longest])
            at += len(longest)
        return tokens

    def token_bytes(self, token: int) -> bytes:
        return self.texts[token] if 0 <= token < len(self.texts) else b""

    def has_byte(self, byte: int) -> bool:
        return byte.to_bytes(1, "little") in self._ids

    def goes_beyond(self, text: bytes) -> bool:
        """Whether a token begins with all of `text` and has more."""
        return text in self._beginnings

    def text(self, tokens: Iterable[int]) -> bytes:
        return b"".join(map(self.token_bytes, tokens))
