"""The target's tokenizer as drafting sees it (`TextCodec`), with what cursors over grammars need of it.

Where it stands in a round: below drafting, wherever a guess is a text. Made once at server start.
"""

from __future__ import annotations

from functools import cached_property
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from sgl_spec.drafting.memory_file import MemoryIdentity
from sgl_spec.drafting.vocabulary import Vocabulary


class SingleBytes(NamedTuple):
    """The tokens that are one byte: the bytes (uint8) and, in the same order, the tokens (int64)."""

    bytes: np.ndarray
    tokens: np.ndarray


class MaskedBytes:
    """Which bytes may come next, read off a token mask at the tokens of one byte."""

    def __init__(self, single: SingleBytes) -> None:
        self._bytes = single.bytes
        self._words, self._bits = single.tokens >> 5, (single.tokens & 31).astype(np.uint32)

    def read(self, mask: np.ndarray) -> bytes:
        """mask: int32 [words], a bit a token."""
        allowed = (mask.view(np.uint32)[self._words] >> self._bits) & 1
        return self._bytes[allowed.astype(bool)].tobytes()


class ServerCodec:
    """A Hugging Face tokenizer.

    Args:
        tokenizer: the server's.
        vocab_size: of the model; ids from the tokenizer's own size on are padding.
    """

    def __init__(self, tokenizer: Any, vocab_size: int) -> None:
        from xgrammar import TokenizerInfo  # it knows how every kind of tokenizer spells bytes

        self.vocab_size = vocab_size
        self._tokenizer = tokenizer
        self._fast = getattr(tokenizer, "backend_tokenizer", None)
        info = TokenizerInfo.from_huggingface(tokenizer, vocab_size=vocab_size)
        special = set(tokenizer.all_special_ids)
        self._bytes = [b"" if token in special else text for token, text in enumerate(info.decoded_vocab)]

    def encode(self, text: str) -> list[int]:
        if self._fast is not None:  # without the wrapper's bookkeeping: a fifth of the time
            return list(self._fast.encode(text, add_special_tokens=False).ids)
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def token_bytes(self, token: int) -> bytes:
        return self._bytes[token] if 0 <= token < len(self._bytes) else b""

    @cached_property
    def identity(self) -> MemoryIdentity:
        """What a kept memory's tokens must have been made with: the text of every token."""
        digest = blake2b(digest_size=16)
        for text in self._bytes:
            digest.update(len(text).to_bytes(4, "little") + text)
        return MemoryIdentity(digest.hexdigest(), self.vocab_size)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary(self, len(self._bytes))

    @cached_property
    def token_of_byte(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for token, text in enumerate(self._bytes):
            if len(text) == 1:
                found.setdefault(text[0], token)
        return found

    @cached_property
    def single_bytes(self) -> SingleBytes:
        known = sorted(self.token_of_byte.items())
        columns = np.array(known, dtype=np.int64).reshape(-1, 2).T
        return SingleBytes(columns[0].astype(np.uint8), columns[1])

    @cached_property
    def masked_bytes(self) -> MaskedBytes:
        return MaskedBytes(self.single_bytes)

    @cached_property
    def scratch_mask(self) -> np.ndarray:
        """Room for one xgrammar mask, int32 [1, words]; cursors are used one after the other."""
        return np.zeros((1, (self.vocab_size + 31) // 32), dtype=np.int32)
