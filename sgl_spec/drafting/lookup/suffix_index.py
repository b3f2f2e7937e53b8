"""Where has the text ended like this before? The lookup drafter asks it at the start of every round.

An online suffix automaton over one request's tokens (Blumer et al., "The smallest automaton recognizing the
subwords of a text", 1985). Drafting from such an automaton is the idea of SAM decoding (arXiv 2411.10666).

A state stands for all the substrings that end in exactly the same places. From the state of the current
suffix the suffix links lead through every shorter suffix that occurs in more places, so all match lengths are
at hand; the transitions of a state are exactly the tokens that ever followed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sgl_spec.drafting.lookup import suffix_kernel as kernel
from sgl_spec.drafting.lookup import suffix_layout as layout
from sgl_spec.drafting.lookup.suffix_kernel import REFRESHED_SUFFIXES
from sgl_spec.drafting.lookup.suffix_layout import ROOT, Automaton
from sgl_spec.drafting.tree import DraftError
from sgl_spec.errors import ConfigError

__all__ = [
    "BYTES_PER_TOKEN",
    "MAX_BYTES_PER_TOKEN",
    "MOST_TOKEN",
    "REFRESHED_SUFFIXES",
    "ROOT",
    "Automaton",
    "Continuation",
    "Match",
    "SuffixIndex",
    "as_tokens",
]

MOST_TOKEN = (1 << 31) - 1
BYTES_PER_TOKEN = 128
MAX_BYTES_PER_TOKEN = 400
_LEAST_ROWS = 16


class Continuation(NamedTuple):
    """A token that followed an earlier occurrence of a context.

    Attributes:
        token: the token id.
        state: the context with the token after it, as a state to go on from.
        times: how often the token was seen there. Exact, but for contexts beyond REFRESHED_SUFFIXES, where it
            is what was known when they were last refreshed.
        end: place of the token's newest occurrence there (likewise), counted from the first token ever
            appended.
    """

    token: int
    state: int
    times: int
    end: int


class Match(NamedTuple):
    """The longest suffix of the text that occurs earlier in a certain set of places.

    Attributes:
        length: tokens in it. Shorter suffixes, down to the next match, occur in the same places only.
        state: its state.
        continuations: every token that ever followed it, each once.
    """

    length: int
    state: int
    continuations: tuple[Continuation, ...]


class SuffixIndex:
    """Suffix automaton that takes each token in amortised constant time (about 0.2 microseconds on text).

    Memory is linear: at most 2 states of 32 bytes a token, and 16 to 32 bytes for each further way on where the
    text branches. Together that is about BYTES_PER_TOKEN bytes a token on text; the worst inputs known (noise
    over a few tokens) stay below MAX_BYTES_PER_TOKEN. When `max_tokens` are held, the older half is forgotten
    and the newer half indexed again, so each token is inserted at most twice, and matches no longer reach into
    what was forgotten. That one append takes as long as max_tokens / 2 others.

    Args:
        max_tokens: most tokens held, at least 2.
        markers: whether tokens below 0 may be appended too. They separate the texts of an index that holds
            several, or mark where one starts; a search never proposes them.

    Raises:
        ConfigError: max_tokens is below 2.
    """

    def __init__(self, max_tokens: int = 1 << 16, *, markers: bool = False) -> None:
        if max_tokens < 2:
            raise ConfigError(f"max_tokens is {max_tokens}; a suffix index needs at least 2")
        self.max_tokens = max_tokens
        self.markers = markers
        self.changes = 0  # grows with every change
        self.generation = 0  # grows when tokens are forgotten: numbers of states then mean something else
        self._forgotten = 0
        self._reset(_LEAST_ROWS)

    def _reset(self, num_tokens: int) -> None:
        """Empty, with room for about `num_tokens`."""
        self.generation += 1
        self._held = np.empty(min(num_tokens, self.max_tokens), np.int32)
        self._counts = np.array([0, 1, 0, ROOT])
        states = np.zeros((num_tokens + num_tokens // 2, 8), np.int32)
        states[ROOT] = (0, layout.NOTHING, 0, 0, layout.NOTHING, layout.NOTHING, layout.NOTHING, 0)
        edges = np.zeros((num_tokens // 2, 4), np.int32)
        self.automaton = Automaton(states, edges, _table_for(edges, 0))
        self._longest_match = ROOT

    def __len__(self) -> int:
        """Tokens held now."""
        return int(self._counts[layout.TOKENS])

    @property
    def num_states(self) -> int:
        """States of the automaton, state 0 included: at most 2 * len(self) + 1."""
        return int(self._counts[layout.STATES])

    @property
    def num_bytes(self) -> int:
        """Memory of all arrays, with what they hold in reserve."""
        return sum(array.nbytes for array in (*self.automaton, self._held, self._counts))

    @property
    def longest_match(self) -> int:
        """State of the longest suffix that also occurs earlier; state 0 when there is none."""
        return self._longest_match

    def length_of(self, state: int) -> int:
        """Tokens of the longest context that `state` stands for."""
        return self.automaton.states.item(state, layout.LENGTH)

    def matches(self) -> Iterator[Match]:
        """Every match of the current suffix, the longest first: one for each set of earlier places."""
        state = self.longest_match
        while state != ROOT:
            yield Match(self.length_of(state), state, tuple(self._continuations(state)))
            state = self.automaton.states.item(state, layout.LINK)

    def _continuations(self, state: int) -> Iterator[Continuation]:
        states, edges, _ = self.automaton
        _, _, _, _, token, target, edge, _ = states[state].tolist()
        while target >= 0:
            end, times = states[target, [layout.END, layout.TIMES]].tolist()
            yield Continuation(token, target, times, end + self._forgotten)
            if edge < 0:
                return
            _, token, target, edge = edges[edge].tolist()

    def append(self, token: int) -> None:
        """Append one token.

        Raises:
            DraftError: the token is no token id.
        """
        self.extend((token,))

    def extend(self, tokens: Sequence[int]) -> None:
        """Append `tokens` in order. Of more than can be held, only the newest are indexed.

        Raises:
            DraftError: a token is no token id (an int from 0 to MOST_TOKEN); then none is appended.
        """
        new = _checked(tokens, -MOST_TOKEN if self.markers else 0)
        surplus = len(new) - self.max_tokens
        if surplus > 0:
            self._forgotten += len(self) + surplus
            self._reset(self.max_tokens)
            new = new[surplus:]
        self._append(new)

    def _append(self, new: NDArray[np.int64]) -> None:
        self.changes += 1
        while (done := kernel.append(*self.automaton, self._counts, self._held, new)) < len(new):
            new = new[done:]
            self._make_room(len(new))
        link = self.automaton.states.item(self._counts.item(layout.WHOLE), layout.LINK)
        self._longest_match = max(link, ROOT)

    def _make_room(self, num_tokens: int) -> None:
        """Enlarge what is full, knowing that `num_tokens` are to come; or forget."""
        tokens, states, edges, _ = self._counts.tolist()
        automaton = self.automaton
        if tokens == self.max_tokens:
            self._forget_older_half()
        elif tokens == len(self._held):
            rows = max(_larger(tokens), tokens + num_tokens)
            self._held = _enlarged(self._held, min(rows, self.max_tokens))
        elif states + 2 > len(automaton.states):
            rows = max(_larger(states), states + num_tokens + num_tokens // 4)
            self.automaton = automaton._replace(states=_enlarged(automaton.states, rows))
        else:
            larger = _enlarged(automaton.edges, _larger(len(automaton.edges)) + num_tokens // 4)
            self.automaton = automaton._replace(edges=larger, table=_table_for(larger, edges))

    def _forget_older_half(self) -> None:
        kept = self._held[len(self._held) - self.max_tokens // 2 :].astype(np.int64)
        self._forgotten += len(self) - len(kept)
        self._reset(len(kept) + len(kept) // 2)
        self._append(kept)


def _larger(rows: int) -> int:
    return rows + rows // 2 + _LEAST_ROWS


def _enlarged(array: NDArray[np.int32], rows: int) -> NDArray[np.int32]:
    larger = np.zeros((rows, *array.shape[1:]), np.int32)
    larger[: len(array)] = array
    return larger


def _table_for(edges: NDArray[np.int32], count: int) -> NDArray[np.int32]:
    """A hash table with room for all rows of `edges`, holding the first `count`."""
    table = np.full(1 << (2 * len(edges)).bit_length(), layout.NOTHING, np.int32)
    kernel.enter_edges(edges, table, count)
    return table


def as_tokens(tokens: Sequence[int]) -> NDArray[np.int64]:
    """int64[n] of any sequence of whole numbers.

    Raises:
        DraftError: something else is among them.
    """
    ids = np.asarray(tokens)
    if ids.dtype != np.int64 and (ids.dtype.kind in "iub" or not ids.size):
        ids = ids.astype(np.int64)
    if ids.dtype != np.int64 or ids.ndim != 1:
        raise DraftError(f"tokens {tokens!r:.80} are not all token ids, which are ints from 0")
    return ids


def _checked(tokens: Sequence[int], least: int) -> NDArray[np.int64]:
    ids = as_tokens(tokens)
    if not kernel.all_within(ids, least, MOST_TOKEN):
        wrong = next(token for token in ids.tolist() if not least <= token <= MOST_TOKEN)
        raise DraftError(
            f"tokens hold {wrong}; token ids are ints from 0 to {MOST_TOKEN} (an index made with markers=True "
            "takes negative ones too)"
        )
    return ids
