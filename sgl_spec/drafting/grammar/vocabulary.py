"""Which tokens could spell a text. Asked when a forced text is drafted: is there only one way to write it?"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple


class Spelled(NamedTuple):
    """A token and how many bytes of a text it is."""

    token: int
    length: int


class Vocabulary:
    """The texts of all tokens, for questions about beginnings.

    Args:
        texts: of token ids 0 on, as a grammar's mask takes them, so also of special tokens where a grammar might take
            one for its text; empty for ids that no mask allows as text.
    """

    def __init__(self, texts: Sequence[bytes]) -> None:
        self._texts = texts
        self._tokens = {text: token for token, text in enumerate(texts) if text}
        self._twins: set[bytes] = set()
        if len(self._tokens) < len(texts):
            self._twins = {text for token, text in enumerate(texts) if text and self._tokens[text] != token}
        self._sorted = sorted(self._tokens)
        self._longest = max(map(len, self._sorted), default=0)

    def text(self, token: int) -> bytes:
        """What a mask takes `token` for; empty for what is no text."""
        return self._texts[token] if 0 <= token < len(self._texts) else b""

    def beginnings(self, text: bytes) -> list[Spelled]:
        """The tokens that `text` could begin with, the shortest first. Of several that are the same text only the last
        (before it come the single bytes that a tokenizer falls back to)."""
        known = self._tokens
        ends = range(1, min(len(text), self._longest) + 1)
        return [Spelled(known[text[:end]], end) for end in ends if text[:end] in known]

    def goes_beyond(self, text: bytes) -> bool:
        """Whether a token begins with all of `text` and has more."""
        place = bisect_right(self._sorted, text)
        return place < len(self._sorted) and self._sorted[place].startswith(text)

    def only_one_of(self, beginnings: Sequence[Spelled], text: bytes) -> bool:
        """Whether a model that must write `text`, and is then free, has exactly one token to begin with: no other
        token is a beginning of the text, and none goes on beyond it.

        Args:
            beginnings: of `text`, as `beginnings` gives them.
        """
        return len(beginnings) == 1 and text[: beginnings[0].length] not in self._twins and not self.goes_beyond(text)
