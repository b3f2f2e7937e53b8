"""The chains of a search in arrays, as the compiled search leaves them and the compiled merge takes them. A round makes
no Python object a chain of them; whoever looks at one gets it as a Chain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from sgl_spec.drafting.tree import Chain


class ChainBlock(Sequence[Chain]):
    """Chains of one origin; equal to any sequence of the same chains.

    Args:
        numbers: int64[n + chains]: the tokens of all chains one after the other, then where each chain stops.
        q: float64[n].
        origin: which drafter guessed them.
    """

    __slots__ = ("_chains", "numbers", "origin", "q")

    def __init__(self, numbers: NDArray[np.int64], q: NDArray[np.float64], origin: str) -> None:
        self.numbers = numbers
        self.q = q
        self.origin = origin
        self._chains: list[Chain] | None = None

    def __len__(self) -> int:
        return len(self.numbers) - len(self.q)

    def __iter__(self) -> Iterator[Chain]:
        return iter(self._made())

    @overload
    def __getitem__(self, index: int) -> Chain: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Chain]: ...
    def __getitem__(self, index: int | slice) -> Chain | Sequence[Chain]:
        return self._made()[index]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return self._made() == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ChainBlock({self._made()!r})"

    def _made(self) -> list[Chain]:
        if self._chains is None:
            numbers, q = tuple(self.numbers.tolist()), tuple(self.q.tolist())
            chains, start = [], 0
            for stop in numbers[len(q) :]:
                chains.append(Chain(numbers[start:stop], q[start:stop], self.origin))
                start = stop
            self._chains = chains
        return self._chains
