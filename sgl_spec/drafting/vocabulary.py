"""Which tokens could spell a text. Asked when a forced text is drafted: is there only one way to write it?"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from sgl_spec.drafting.text_codec import TextCodec


class Spelled(NamedTuple):
    """A token and how many bytes of a text it is."""

    token: int
    length: int


class Vocabulary:
    """The texts of all tokens, for questions about beginnings. Of tokens with equal texts the first counts.

    Args:
        codec: gives the tokens' texts.
        size: token ids are 0 to size - 1.
    """

    def __init__(self, codec: TextCodec, size: int) -> None:
        self._tokens: dict[bytes, int] = {}
        for token in range(size):
            self._tokens.setdefault(codec.token_bytes(token), token)
        self._tokens.pop(b"", None)
        self._sorted = sorted(self._tokens)
        self._longest = max(map(len, self._sorted), default=0)

    def beginnings(self, text: bytes) -> list[Spelled]:
        """The tokens that `text` could begin with, the shortest first."""
        known = self._tokens
        ends = range(1, min(len(text), self._longest) + 1)
        return [Spelled(known[text[:end]], end) for end in ends if text[:end] in known]

    def goes_beyond(self, text: bytes) -> bool:
        """Whether a token begins with all of `text` and has more."""
        place = bisect_right(self._sorted, text)
        return place < len(self._sorted) and self._sorted[place].startswith(text)

    def only_one_token(self, text: bytes) -> bool:
        """Whether a model that must write `text`, and is then free, has exactly one token to begin with: no other
        token is a beginning of the text, and none goes on beyond it."""
        return len(self.beginnings(text)) == 1 and not self.goes_beyond(text)
