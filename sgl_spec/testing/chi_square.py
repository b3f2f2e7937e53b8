"""Pearson's chi-square test: whether counts could come from given probabilities. For tests of sampled output."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from typing import NamedTuple

LEAST_EXPECTED = 5.0  # below it the statistic is not distributed as chi-square (Cochran, 1954)


class Fit(NamedTuple):
    """How well counts fit.

    Attributes:
        statistic: sum of (seen - expected)^2 / expected over the cells.
        freedom: cells less one.
        p_value: probability of a statistic at least this large when the probabilities are true. By the cube-root
            approximation of Wilson and Hilferty (1931), good to a few per cent of itself where we look.
    """

    statistic: float
    freedom: int
    p_value: float


def chi_square(seen: Iterable[Hashable], probabilities: Mapping[Hashable, float]) -> Fit:
    """Test what was seen against `probabilities`, which sum to 1; outcomes too rare to count are put together.

    An outcome of probability 0 that was seen gives an infinite statistic.

    Raises:
        ValueError: probabilities that do not sum to 1, or that leave no two cells to compare at so few observations.
    """
    total = math.fsum(probabilities.values())
    if not math.isclose(total, 1.0, abs_tol=1e-6):
        raise ValueError(f"probabilities sum to {total}; they must sum to 1")
    counts: dict[Hashable, int] = {}
    for outcome in seen:
        counts[outcome] = counts.get(outcome, 0) + 1
    observations = sum(counts.values())
    cells = _cells(counts, probabilities, observations)
    if len(cells) < 2:
        raise ValueError(
            f"{observations} observations are too few: no two outcomes are expected {LEAST_EXPECTED} times"
        )
    impossible = any(probabilities.get(outcome, 0.0) == 0.0 for outcome in counts)
    statistic = math.inf if impossible else sum((seen - wanted) ** 2 / wanted for seen, wanted in cells)
    return Fit(statistic, len(cells) - 1, _tail(statistic, len(cells) - 1))


class _Cell(NamedTuple):
    seen: int
    wanted: float


def _cells(counts: Mapping[Hashable, int], probabilities: Mapping[Hashable, float], observations: int) -> list[_Cell]:
    """One for each outcome that is common enough, and one for the others together (or with the rarest of these)."""
    every = [_Cell(counts.get(outcome, 0), p * observations) for outcome, p in probabilities.items()]
    every.sort(key=lambda cell: cell.wanted)
    cells, rest = [], _Cell(0, 0.0)
    for cell in every:
        if cell.wanted < LEAST_EXPECTED or 0 < rest.wanted < LEAST_EXPECTED:
            rest = _Cell(rest.seen + cell.seen, rest.wanted + cell.wanted)
        else:
            cells.append(cell)
    return [*cells, rest] if rest.wanted > 0 else cells


def _tail(statistic: float, freedom: int) -> float:
    if math.isinf(statistic):
        return 0.0
    spread = 2.0 / (9.0 * freedom)
    z = ((statistic / freedom) ** (1 / 3) - (1.0 - spread)) / math.sqrt(spread)
    return 0.5 * math.erfc(z / math.sqrt(2.0))
