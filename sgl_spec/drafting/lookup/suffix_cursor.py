"""Follows one text through the suffix index of other texts: the memory drafter feeds it a request's tokens as they
are committed and searches from where it stands. It never changes the index.

The walk along transitions and suffix links is the one of matching statistics (Chang and Lawler, "Sublinear
approximate string matching and biological applications", 1994).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sgl_spec.drafting.lookup import suffix_kernel as kernel
from sgl_spec.drafting.lookup.suffix_index import SuffixIndex, as_tokens
from sgl_spec.drafting.lookup.suffix_layout import ROOT

# After the index forgot its older texts the walk is taken again over so many of the newest tokens.
REMEMBERED_TOKENS = 64
_NONE = np.empty(0, np.int64)


class SuffixCursor:
    """The longest suffix of the text fed so far that occurs in `index`.

    The index may go on growing: what it appended is matched by the tokens fed from then on (a suffix that only
    becomes longer by what was appended is not looked for again).

    Args:
        index: walked, never changed. Markers can be fed too: one that stands before each text of the index, fed
            first, matches the beginnings of those texts.
    """

    def __init__(self, index: SuffixIndex) -> None:
        self._index = index
        self._generation = index.generation
        self._changes = index.changes
        self._newest: deque[int] = deque(maxlen=REMEMBERED_TOKENS)
        self._state = ROOT
        self._length = 0

    @property
    def state(self) -> int:
        """State of the match; state 0 when not even the last token occurs."""
        if self._changes != self._index.changes:
            self._catch_up()
        return self._state

    @property
    def length(self) -> int:
        """Tokens in the match."""
        if self._changes != self._index.changes:
            self._catch_up()
        return self._length

    def advance(self, token: int) -> None:
        """Feed the next token: amortised constant time."""
        self.extend((token,))

    def extend(self, tokens: Sequence[int]) -> None:
        """Feed `tokens` in order.

        Raises:
            DraftError: one is no token id and no marker; then none is fed.
        """
        if self._changes != self._index.changes:
            self._catch_up()
        self._walk(as_tokens(tokens))
        self._newest.extend(tokens)

    def _catch_up(self) -> None:
        """The index has changed: states are split when it grows and renumbered when it forgets."""
        self._changes = self._index.changes
        if self._generation != self._index.generation:
            self._generation = self._index.generation
            self._state, self._length = ROOT, 0
            self._walk(as_tokens(self._newest))
        else:
            self._walk(_NONE)

    def _walk(self, tokens: NDArray[np.int64]) -> None:
        self._state, self._length = kernel.walk(*self._index.automaton, tokens, self._state, self._length)
