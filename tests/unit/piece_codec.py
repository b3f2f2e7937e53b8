"""A small tokenizer for tests that cuts text as byte-pair tokenizers do: a word takes the space before it along and
may be in several pieces, signs in a row are one token, digits stand alone, other characters are cut into bytes."""

from __future__ import annotations

import re

_PIECES = re.compile(r" ?[A-Za-z]{1,5}|\d| ?[^\s\w]+|\s|.", re.ASCII | re.DOTALL)


class PieceCodec:
    """Hands out ids from 256 on as pieces turn up; those below are the single bytes. One id in `special` is no text."""

    special = 10_000_000

    def __init__(self) -> None:
        self._ids: dict[bytes, int] = {}
        self._bytes: list[bytes] = [bytes([byte]) for byte in range(256)]
        self.encoded_chars = 0

    def encode(self, text: str) -> list[int]:
        self.encoded_chars += len(text)
        return [token for piece in _PIECES.findall(text) for token in self._tokens(piece.encode())]

    def _tokens(self, piece: bytes) -> list[int]:
        if max(piece) >= 0x80:
            return list(piece)
        if piece not in self._ids:
            self._ids[piece] = len(self._bytes)
            self._bytes.append(piece)
        return [self._ids[piece]]

    def token_bytes(self, token: int) -> bytes:
        return self._bytes[token] if token < len(self._bytes) else b""

    def text(self, tokens: list[int] | tuple[int, ...]) -> str:
        return b"".join(map(self.token_bytes, tokens)).decode(errors="replace")
