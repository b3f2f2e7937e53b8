"""What a draft head adds to the other drafters, learned from the rounds that asked it.

Where it stands in a round: read before the head is asked, told when the round's tokens are known.

    h(d) = P(the head has the next token among its candidates at depth d | the others do not have it)

A trial is a committed place, down to the steps the head took, where none of the others had the token that came. So a
head beside drafters that know everything has no trials, and loses nothing by it. Each level counts the level before as
so many trials (Beta smoothing) and old trials fade: prior, all requests, the slot, the request.

With O(d) the calibrated probability that the others' candidates reach depth d, and O(0) = 1, the head's own paths reach
it with

    X(d) = h(d) * (O(d - 1) - O(d) + X(d - 1)),     X(0) = 0

and k steps are expected to bring X(1) + ... + X(k) tokens more.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sgl_spec.drafting.memory.slot_key import SlotKey
from sgl_spec.drafting.tree import ROOT, DraftTree

# No head takes more steps.
MOST_STEPS = 16
# Priors, for all requests, the slot, the request: so many trials the level before counts as, and so many count at all.
TRUST = (8.0, 8.0, 8.0)
MEMORY = (500.0, 100.0, 30.0)
# In a round that skips the head a request forgets so much of it, as texts change; its slot's word then counts more.
_FORGOTTEN = 0.01
MOST_SLOTS = 256


class HeadWorth:
    """The tables of a server.

    Args:
        origin: the head's, in trees.
        prior: h at every depth before anything is known, from 0 to 1.
    """

    def __init__(self, origin: str, prior: float) -> None:
        self._origin = origin
        self._prior = np.full(MOST_STEPS, prior)
        self._all = _cells()
        self._slots: OrderedDict[SlotKey, NDArray[np.float64]] = OrderedDict()
        self._requests: dict[str, tuple[NDArray[np.float64], ...]] = {}

    def start(self, rid: str, slot: SlotKey) -> None:
        """A request begins."""
        cells = self._slots.setdefault(slot, _cells())
        self._slots.move_to_end(slot)
        if len(self._slots) > MOST_SLOTS:
            self._slots.popitem(last=False)
        self._requests[rid] = (self._all, cells, _cells())

    def stop(self, rid: str) -> None:
        """The request is over, or never began."""
        self._requests.pop(rid, None)

    def gains(self, rid: str, tree: DraftTree, most: int) -> NDArray[np.float64]:
        """float64[most]: tokens that 1, 2, ... `most` steps are expected to bring a started request beyond the others'
        `tree`."""
        known = self._prior
        for cells, trust in zip(self._requests[rid], TRUST, strict=True):
            known = (cells[1] + trust * known) / (cells[0] + trust)
        reached = np.bincount(tree.depths, weights=tree.a, minlength=most + 1)
        gained, own = np.zeros(most), 0.0
        for step in range(most):
            own = known[step] * (max(reached[step] - reached[step + 1], 0.0) + own)
            gained[step] = own
        total: NDArray[np.float64] = np.cumsum(gained)
        return total

    def skipped(self, rid: str) -> None:
        """A round did not ask the head for this started request."""
        self._requests[rid][-1].__imul__(1.0 - _FORGOTTEN)

    def learn(self, rid: str, tree: DraftTree, steps: int, tokens: Sequence[int]) -> None:
        """A round is over.

        Args:
            rid: a started request.
            tree: what all drafters and the head came to, before it was cut to the round's width.
            steps: the head's.
            tokens: committed.
        """
        node = ROOT
        for depth, token in enumerate(tokens[:steps]):
            following = [child for child in tree.children(node) if tree.tokens[child] == token]
            if not following or tree.origins[following[0]] == {self._origin}:
                self._count(rid, depth, bool(following))
            if not following:
                return
            node = following[0]

    def _count(self, rid: str, depth: int, hit: bool) -> None:
        for cells, memory in zip(self._requests[rid], MEMORY, strict=True):
            cells[:, depth] *= 1.0 - 1.0 / memory
            cells[:, depth] += (1.0, hit)


def _cells() -> NDArray[np.float64]:
    """float64[2, MOST_STEPS]: trials and hits by depth."""
    return np.zeros((2, MOST_STEPS))
