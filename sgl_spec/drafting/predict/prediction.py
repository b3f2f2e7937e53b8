"""A text that an output is expected to be, mostly: a predicted output, an example, or the one past output of a slot.
Made before a request's first round; prediction cursors follow it and find the way back in it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

ABSENT = -1
# Tokens in a row by which the way back is found anywhere in the text.
GRAM = 3
# Occurrences of one gram that are looked at.
MAX_OCCURRENCES = 16
_BITS = 21
_MASK = (1 << _BITS) - 1


class Prediction:
    """The tokens, and where any GRAM of them in a row stand. Costs about 0.2 microseconds a token once.

    Args:
        tokens: token ids.
    """

    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens = list(tokens)
        keys = _keys(self.tokens)
        order = np.argsort(keys, kind="stable")
        # Lists: bisect is faster on them than numpy for a single key.
        self._keys: list[int] = keys[order].tolist()
        self._places: list[int] = order.tolist()

    def __len__(self) -> int:
        return len(self.tokens)

    def places_of(self, token: int, start: int, stop: int) -> Iterator[int]:
        """Where `token` stands from place `start` to before `stop`, ascending."""
        place = max(start, 0) - 1
        while True:
            try:
                place = self.tokens.index(token, place + 1, max(stop, 0))
            except ValueError:
                return
            yield place

    def after(self, gram: Sequence[int], near: int) -> int:
        """The place after that occurrence of `gram` (GRAM tokens) whose end is nearest to place `near`; ABSENT if it
        does not occur."""
        first = bisect_left(self._keys, _key(gram))
        best = ABSENT
        for place in self._places[first : first + MAX_OCCURRENCES]:
            end = place + GRAM
            if self.tokens[place:end] != list(gram):
                break
            if best == ABSENT or abs(end - near) < abs(best - near):
                best = end
        return best


def _keys(tokens: Sequence[int]) -> NDArray[np.int64]:
    """A number for every GRAM tokens in a row; equal for equal ones, and for few others."""
    ids = np.array(tokens, dtype=np.int64) & _MASK
    if len(ids) < GRAM:
        return np.zeros(0, dtype=np.int64)
    return (ids[:-2] << 2 * _BITS) | (ids[1:-1] << _BITS) | ids[2:]


def _key(gram: Sequence[int]) -> int:
    first, second, third = gram
    return (first & _MASK) << 2 * _BITS | (second & _MASK) << _BITS | third & _MASK


class InOrder:
    """Counts the predicted tokens that an output has, in order: none twice, and none before one counted already."""

    def __init__(self) -> None:
        self._ends: list[int] = []  # for each predicted token counted, the length of the output with it
        self._next = 0  # predicted tokens before this one are not counted any more

    def add(self, place: int, output_tokens: int) -> None:
        """The token at `place` of the prediction is the newest of `output_tokens` tokens."""
        if place >= self._next:
            self._next = place + 1
            self._ends.append(output_tokens)

    def within(self, output_tokens: int) -> int:
        """Those that are among the first `output_tokens` tokens of the output."""
        return bisect_right(self._ends, output_tokens)
