"""What a draft is worth, learned from what became of drafts like it. Asked when a round's tree is weighed, told when
the round's tokens are known.

A drafter gives each node a prior q. Its evidence (match length, occurrences, a grammar's word) is in that number, so
nodes of the same origins and the same bucket of prior are alike, and their share of hits is measured:

    prior    the drafters' q; of several origins max + damping * (noisy-or - max)
    coarse   by the set of origins and the bucket of the prior
    fine     the same, by depth and temperature too
    slot     by set and bucket, in the request's slot alone (its owner, program and slot)

Each level counts the level before as so many trials (Beta smoothing), so a new cell says what the one above it says,
and 1 of 1 is no certainty; old trials fade. What came out, `seen`, stands against the mean prior of the bucket, `said`,
and the node's own prior is bent through that point: piecewise linear through (0, 0), (said, seen), (1, 1), so that
order within a bucket is kept and nothing leaves (0, 1).

The key is the SET of origins because origins are not independent: lookup and memory copy the same phrases, so noisy-or
over-trusts them together; and that one of them is silent is evidence as well. (A draft head is not asked in every
round; that it was counts as a member of the set, so that its silence is told from its absence.) What the set is worth
is measured, with no model of how they depend on each other. Histogram binning per key is the calibration of Zadrozny
and Elkan (ICML 2001).

A trial is a candidate whose parent was committed, verified or not: what the target writes at a committed place is
known, so every candidate there was tested. Tables therefore learn in rounds that verify nothing too, and never go
blind.

The cells hold counts, no text. Coarse and fine ones are shared by all requests; slots are by owner.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sgl_spec.drafting import weigh_kernel as kernel
from sgl_spec.drafting.calibration.buckets import (
    BINS,
    BUCKETS,
    DEFAULT,
    DEPTH_EDGES,
    DEPTHS,
    EDGES,
    JOINED,
    MOST_ORIGINS,
    MOST_SETS,
    OTHERS,
    SITUATIONS,
    TEMPERATURES,
    Numbers,
    temperature_bucket,
)
from sgl_spec.drafting.calibration.reliability import OriginError, errors_of, fade
from sgl_spec.drafting.memory.slot_key import SlotKey
from sgl_spec.drafting.tree_merge import Candidates, Weighed

# Origins whose q of 1 is the grammar's word and no guess.
CERTAIN = ("grammar.forced",)
_ROWS = (MOST_SETS + 1) * BUCKETS
_FADED_AFTER = 1024  # rounds
_UNTRIED = np.zeros((_ROWS, 2))


class Situation:
    """What of a request decides how its drafts are weighed: its temperature and its slot's cells."""

    __slots__ = ("cells", "slot", "temperature")

    def __init__(self, slot: SlotKey, temperature: float, cells: NDArray[np.float64]) -> None:
        self.slot = slot
        self.temperature = temperature_bucket(temperature)
        self.cells = cells


class Calibration:
    """The tables of a server.

    Args:
        numbers: what may be tuned.
        max_slots: slots that have cells of their own, about 16 kB each; the least recently used one goes first.
    """

    def __init__(self, numbers: Numbers = DEFAULT, max_slots: int = 256) -> None:
        self.max_slots = max_slots
        self.changes = 0  # grows with every round learned from
        self.sets = np.zeros(MOST_SETS + 1, np.int64)
        self.coarse = np.zeros((_ROWS, 3))
        self.fine = np.zeros((_ROWS * SITUATIONS, 2))
        self.slots: OrderedDict[SlotKey, NDArray[np.float64]] = OrderedDict()
        self.origins: dict[str, int] = {}
        self._reliability = np.zeros((MOST_ORIGINS + 1, DEPTHS, BINS, 3))
        trusts = numbers[3:6]
        self._numbers = np.array([*numbers[:3], *trusts, TEMPERATURES], np.float64)
        self._kept = 1.0 - 1.0 / np.array(numbers[6:9])
        self._ids: dict[tuple[str, ...], NDArray[np.int64]] = {}

    @property
    def sets_known(self) -> int:
        """Sets of origins that have cells of their own."""
        return int(self.sets[0])

    def situation(self, slot: SlotKey, temperature: float) -> Situation:
        """Of a request that starts."""
        cells = self.slots.get(slot)
        if cells is not None:
            self.slots.move_to_end(slot)
        return Situation(slot, temperature, _UNTRIED if cells is None else cells)

    def weigh(self, candidates: Candidates, situation: Situation, max_drafts: int, min_gain: float) -> Weighed:
        """The candidates' calibrated q and a, and the best `max_drafts` nodes with a of `min_gain` or more. Siblings
        sum to at most 1."""
        nodes, opinions, size, origins, joined = candidates
        weights, keys, best = kernel.calibrate(
            nodes, opinions, size, self._bits_of(origins), joined << JOINED, self._certain(), situation.temperature,
            self.sets, self.coarse, self.fine, situation.cells, EDGES, DEPTH_EDGES, self._numbers, max_drafts, min_gain,
        )  # fmt: skip
        return Weighed(candidates, weights, best, keys)

    def learn(self, weighed: Weighed, situation: Situation, drafted: int, tokens: Sequence[int]) -> None:
        """What came after the root.

        Args:
            weighed: by this calibration.
            situation: as it was weighed in.
            drafted: how many of `weighed.best`, the root included, were verified; their q count for `errors`.
            tokens: committed, in order.
        """
        if weighed.keys is None or not tokens:
            return
        if situation.cells is _UNTRIED:
            situation.cells = self.slot_cells(situation.slot)
        verified = np.zeros(weighed.candidates.size, np.bool_)
        verified[weighed.best[1:drafted]] = True
        kernel.learn(
            weighed.candidates.nodes, weighed.weights, weighed.keys, verified, np.array(tokens, np.int64), self.sets,
            self.coarse, self.fine, situation.cells, BUCKETS, SITUATIONS, TEMPERATURES, self._kept, self._reliability,
        )  # fmt: skip
        self.changes += 1
        if self.changes % _FADED_AFTER == 0:
            fade(self._reliability)

    def errors(self) -> tuple[OriginError, ...]:
        """How far off the q of verified nodes were, by origin and depth."""
        return errors_of(self._reliability, self.origins)

    def slot_cells(self, slot: SlotKey) -> NDArray[np.float64]:
        """The slot's own cells, made if it has none; the least recently used slot then makes room."""
        cells = self.slots.get(slot)
        if cells is None:
            cells = self.slots[slot] = np.zeros((_ROWS, 2))
            while len(self.slots) > self.max_slots:
                self.slots.popitem(last=False)
        return cells

    def bit_of(self, origin: str) -> int:
        """The bit that stands for an origin, which gets one while there are any."""
        bit = self.origins.get(origin)
        if bit is None and len(self.origins) < MOST_ORIGINS:
            bit = self.origins[origin] = len(self.origins)
        return OTHERS if bit is None else bit

    def _bits_of(self, origins: tuple[str, ...]) -> NDArray[np.int64]:
        """The bits of a round's columns; rounds mostly have the same ones."""
        ids = self._ids.get(origins)
        if ids is None:
            if len(self._ids) >= MOST_SETS:
                self._ids.clear()
            ids = self._ids[origins] = np.array([self.bit_of(origin) for origin in origins], np.int64)
        return ids

    def _certain(self) -> int:
        return sum(1 << self.origins[origin] for origin in CERTAIN if origin in self.origins)
