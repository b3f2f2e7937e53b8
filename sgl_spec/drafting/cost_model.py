"""What a round costs by how many rows it verifies: measured once at the start of a server, corrected in every round.
The planner asks at the start of a round, to weigh tokens against time.

    T(requests R, width W, context C) = drift * shape(R * W) * correction(R * W) + per_key * W * C

`shape` is the table measured at the start (server/cost_probe.py), W * C the keys that all rows attend. Two things are
learned online, both from the logarithm of measured over expected, clipped: `drift`, by which everything got slower or
faster (a neighbour on the machine, a hotter chip), and a correction of the shape where rounds really were. A width is
chosen by ratios of times, from which the drift drops out, so a machine that others load too does not change the choice.

Clipped steps settle where half of the observations lie above: they follow the median, and a round that met a compiler
or a page fault moves nothing by more than one small step.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sgl_spec.errors import CostTableError

VERSION = 1
# What is assumed before anything was measured, in seconds: SmolLM2-135M in bfloat16 on two CPU cores (1 to 64 rows
# measured, from there on in proportion). Only its form matters.
PRIOR_ROWS = (1, 8, 16, 32, 64, 128)
PRIOR_SECONDS = (0.050, 0.057, 0.076, 0.082, 0.139, 0.270)
# Steps of the two corrections, and the most that one observation says. The drift follows within some ten rounds, the
# shape within some hundred.
DRIFT_STEP, SHAPE_STEP, MOST_SURPRISE = 0.1, 0.03, 0.2
# What was not seen for long is less sure: its step is twice as large after so many rounds, and so on, up to a bound.
ROUNDS_DOUBLING, MOST_GAIN = 32, 0.5
# The shape may be corrected by this factor at most, and the drift by its square: beyond it something else is wrong.
MOST_CORRECTION = math.log(4.0)
# At a row count not met before, so many rounds count for nothing: they compile, page in, warm caches.
IGNORED_ROUNDS = 2


class Load(NamedTuple):
    """What runs in a round.

    Attributes:
        requests: in the batch, those that abstain included.
        context: tokens of all requests together that are in the cache.
    """

    requests: int
    context: int


class CostTable(NamedTuple):
    """Times of one verify forward, as measured.

    Attributes:
        rows: ascending numbers of rows (requests times width), at least one.
        seconds: for each, at a context so short that attention costs nothing.
        per_key: seconds more for every key that a row attends.
    """

    rows: tuple[int, ...]
    seconds: tuple[float, ...]
    per_key: float = 0.0


PRIOR = CostTable(PRIOR_ROWS, PRIOR_SECONDS)
# The same machine's draft head, by requests: an extend over a row of each, and one more step of four branches.
PRIOR_EXTEND = CostTable((1, 8), (0.0039, 0.0046))
PRIOR_STEP = CostTable((1, 8), (0.0033, 0.0052))


def checked(table: CostTable) -> CostTable:
    """`table`, if it is one.

    Raises:
        CostTableError: rows that do not ascend from 1 or more, or times that are none; it says which.
    """
    rows, seconds, per_key = table
    if not rows or len(rows) != len(seconds):
        raise CostTableError(f"rows has {len(rows)} entries and seconds {len(seconds)}; wanted as many, at least one")
    if any(type(n) is not int for n in rows) or rows[0] < 1 or any(a >= b for a, b in pairwise(rows)):
        raise CostTableError(f"rows is {rows}; wanted ascending whole numbers from 1")
    for name, values, least in (("seconds", seconds, 1e-9), ("per_key", (per_key,), 0.0)):
        for value in values:
            if not isinstance(value, float) or not math.isfinite(value) or value < least:
                raise CostTableError(f"{name} has {value!r}; wanted finite seconds of at least {least}")
    return table


class CostModel:
    """Expects the time of rounds, and learns from those that were.

    Args:
        table: what was measured at the start.

    Raises:
        CostTableError: the table is none.
    """

    def __init__(self, table: CostTable = PRIOR) -> None:
        rows, seconds, per_key = checked(table)
        self.per_key = per_key
        self.rounds = 0  # observed
        self._rows = rows
        self._log_rows = np.log(rows)
        # A measurement's noise must not make more rows look cheaper: a width that looks dear is not tried again.
        self._log_seconds = np.log(_rising(np.array(seconds)))
        self._corrections = np.zeros(len(rows))
        self._seen = [0] * len(rows)
        self._last = [0] * len(rows)  # the round in which it was seen last
        self._drift = 0.0

    @property
    def drift(self) -> float:
        """By which factor rounds take longer now than the table says."""
        return math.exp(self._drift)

    def expect(self, load: Load, widths: NDArray[np.int64]) -> NDArray[np.float64]:
        """Seconds of a round at each of `widths` (int64[n], the root included, ascending): float64[n], which never
        falls with the width.

        More rows than were ever measured cost in proportion to the last that were.
        """
        rows = np.log(np.maximum(widths * max(load.requests, 1), 1))
        log_seconds = self._log_seconds + self._corrections
        last = self._log_rows[-1]
        beyond = np.maximum(rows - last, 0.0)
        dense = np.exp(np.interp(rows, self._log_rows, log_seconds) + beyond + self._drift)
        times: NDArray[np.float64] = np.maximum.accumulate(dense + self.per_key * widths * max(load.context, 0))
        return times

    def seconds(self, load: Load, width: int) -> float:
        """Of one round."""
        return float(self.expect(load, np.array([width]))[0])

    def observe(self, load: Load, width: int, seconds: float) -> None:
        """A round of this load and width took `seconds`. What is no time (0, infinite, NaN) is not counted."""
        if not (math.isfinite(seconds) and seconds > 0.0):
            return
        rows = max(width * load.requests, 1)
        low, high, share = self._between(rows)
        nearest = high if share > 0.5 else low
        self._seen[nearest] += 1
        if self._seen[nearest] <= IGNORED_ROUNDS:
            return
        self.rounds += 1
        gain = min(MOST_GAIN, SHAPE_STEP * (1.0 + (self.rounds - self._last[nearest]) / ROUNDS_DOUBLING))
        self._last[nearest] = self.rounds
        surprise = math.log(seconds / self.seconds(load, width))
        surprise = max(-MOST_SURPRISE, min(MOST_SURPRISE, surprise))
        self._drift = _bounded(self._drift + DRIFT_STEP * surprise, 2 * MOST_CORRECTION)
        for knot, weight in ((low, 1.0 - share), (high, share)):
            step = gain * weight * surprise
            self._corrections[knot] = _bounded(float(self._corrections[knot]) + step, MOST_CORRECTION)

    def rounds_since(self, rows: int) -> int:
        """Rounds since one of about so many rows was observed, or since the first of all."""
        low, high, share = self._between(rows)
        return self.rounds - self._last[high if share > 0.5 else low]

    def table(self) -> CostTable:
        """The table as it is now, corrections included; drift is of the moment and is not."""
        seconds = np.exp(self._log_seconds + self._corrections)
        return CostTable(self._rows, tuple(seconds.tolist()), self.per_key)

    def _between(self, rows: int) -> _Between:
        """The knots on both sides of `rows`, and how far towards the higher one, by ratio."""
        high = bisect_right(self._rows, rows)
        if high == 0 or high == len(self._rows):
            edge = max(high - 1, 0)
            return _Between(edge, edge, 0.0)
        low = high - 1
        span = float(self._log_rows[high] - self._log_rows[low])
        return _Between(low, high, (math.log(rows) - float(self._log_rows[low])) / span)


class _Between(NamedTuple):
    low: int
    high: int
    share: float


def _bounded(value: float, most: float) -> float:
    return max(-most, min(most, value))


def _rising(seconds: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """The rising sequence next to `seconds`: neighbours in the wrong order are averaged (isotonic regression by pooling
    adjacent violators, Ayer et al. 1955)."""
    pools: list[list[float]] = []
    for one in seconds:
        pools.append([float(one)])
        while len(pools) > 1 and _mean(pools[-2]) > _mean(pools[-1]):
            last = pools.pop()
            pools[-1] += last
    return np.array([_mean(pool) for pool in pools for _ in pool])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
