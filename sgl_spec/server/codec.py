"""The target's tokenizer as drafting sees it (`TextCodec`), with what cursors over grammars need of it.

Where it stands in a round: below drafting, wherever a guess is a text. Made once at server start.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from copy import deepcopy
from functools import cached_property, lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from sgl_spec.drafting.grammar.vocabulary import Vocabulary
from sgl_spec.drafting.memory.memory_file import MemoryIdentity

logger = logging.getLogger(__name__)

# Put before a text that is to be encoded as if something came before it.
_LEAD = "\n"
# A server has one set of endings for all grammars, or a few.
_MOST_ENDINGS = 16


class SingleBytes(NamedTuple):
    """The tokens that are one byte: the bytes (uint8) and, in the same order, the tokens (int64)."""

    bytes: np.ndarray
    tokens: np.ndarray


class MaskBits:
    """Reads some tokens' bits off a token mask.

    Args:
        tokens: int64, the ids.
    """

    def __init__(self, tokens: np.ndarray) -> None:
        self._words = tokens >> 5
        self._bits = np.left_shift(1, tokens & 31, dtype=np.int64).astype(np.uint32).view(np.int32)

    def set_in(self, mask: np.ndarray) -> np.ndarray:
        """int32 [tokens], 0 where a token's bit is not set in `mask`, int32 [words]."""
        return mask.take(self._words) & self._bits


class MaskedBytes:
    """Which bytes may come next, read off a token mask at the tokens of one byte."""

    def __init__(self, single: SingleBytes) -> None:
        self._bytes = single.bytes
        self._bits = MaskBits(single.tokens)

    def read(self, mask: np.ndarray) -> bytes:
        """mask: int32 [words], a bit a token."""
        return self._bytes.take(self._bits.set_in(mask).nonzero()[0]).tobytes()


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
        self._texts = list(TokenizerInfo.from_huggingface(tokenizer, vocab_size=vocab_size).decoded_vocab)
        added = getattr(tokenizer, "added_tokens_decoder", {})
        self._special = {*tokenizer.all_special_ids, *(token for token, what in added.items() if what.special)}
        self._bytes = [b"" if token in self._special else text for token, text in enumerate(self._texts)]
        self._lead = self._find_lead()
        self._lead_bytes = len(self._text(self._encode(self._lead)))
        self._no_text = lru_cache(_MOST_ENDINGS)(self._find_no_text)

    def _find_lead(self) -> str:
        """A text to put before others, for a tokenizer that puts a space before the first word of a text."""
        return _LEAD if self._text(self._encode("a")) != b"a" else ""

    def encode(self, text: str) -> list[int]:
        """As `TextCodec.encode`. A tokenizer that writes a space as U+2581 takes that character for a space."""
        if not self._lead:
            return self._encode(text)
        tokens, left = self._encode(self._lead + text), self._lead_bytes
        for place, token in enumerate(tokens):
            if not left:
                return tokens[place:]
            left -= len(self.token_bytes(token))
        return self._encode(text) if text else []  # the lead went into a token of the text

    def _encode(self, text: str) -> list[int]:
        if self._fast is None:
            return list(self._tokenizer.encode(text, add_special_tokens=False))
        # Without the wrapper's bookkeeping: a fifth of the time.
        tokens = list(self._fast.encode(text, add_special_tokens=False).ids)
        if self._special.isdisjoint(tokens):
            return tokens
        return list(self._without_special.encode(text, add_special_tokens=False).ids)

    def _text(self, tokens: list[int]) -> bytes:
        return b"".join(map(self.token_bytes, tokens))

    @cached_property
    def _without_special(self) -> Any:
        """A twin of the tokenizer that takes the name of a special token for a text like any other."""
        twin = deepcopy(self._fast)
        twin.encode_special_tokens = True
        return twin

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
        return Vocabulary(self._texts)

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

    def no_text(self, endings: Iterable[int]) -> MaskBits:
        """The tokens that are special, have no text or are among `endings`."""
        return self._no_text(frozenset(endings))

    def _find_no_text(self, endings: frozenset[int]) -> MaskBits:
        tokens = {token for token, text in enumerate(self._bytes) if not text} | endings
        return MaskBits(np.array(sorted(token for token in tokens if token < self.vocab_size), dtype=np.int64))

    @cached_property
    def scratch_mask(self) -> np.ndarray:
        """Room for one xgrammar mask, int32 [1, words]; cursors are used one after the other."""
        return np.zeros((1, (self.vocab_size + 31) // 32), dtype=np.int32)


def make_codec(tokenizer: Any, vocab_size: int) -> ServerCodec | None:
    """The codec of a server; None without a tokenizer, or for one whose tokens' texts cannot be told: such a server
    drafts only what goes by tokens."""
    if tokenizer is None:
        return None
    try:
        return ServerCodec(tokenizer, vocab_size)
    except Exception as error:  # of any library: drafting is not worth a server that does not start
        kind = type(tokenizer).__name__
        logger.warning(
            "no drafts that go by text: tokenizer %s cannot be read: %s: %s", kind, type(error).__name__, error
        )
        return None
