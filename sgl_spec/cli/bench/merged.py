"""Holds the merged tree (mode `full`) against trees of one origin alone: is the whole as good as its best part?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sgl_spec.cli.bench.modes import MERGED, SINGLE_ORIGINS
from sgl_spec.cli.bench.summary import Row, ratio
from sgl_spec.cli.text_table import render


class Single(NamedTuple):
    """Tokens per step with drafts of one origin alone."""

    origin: str
    tokens_per_step: float


class MergedResult(NamedTuple):
    """One workload: tokens per step of the merged tree, and of each origin that was run alone (at least one)."""

    workload: str
    merged: float
    singles: tuple[Single, ...]

    @property
    def best(self) -> Single:
        """The single origin with the most tokens per step; of equals, the first in `SINGLE_ORIGINS`."""
        return max(self.singles, key=lambda single: single.tokens_per_step)

    @property
    def margin(self) -> float:
        """Tokens per step that merging adds to the best single origin; below 0 when it takes some away."""
        return self.merged - self.best.tokens_per_step

    @property
    def holds(self) -> bool:
        """Whether the merged tree is at least as good as the best single origin."""
        return self.margin >= 0


def merged_results(rows: Sequence[Row]) -> tuple[MergedResult, ...]:
    """A result per workload that ran merged and with at least one origin alone, where all of them decoded something."""
    found = []
    for workload in dict.fromkeys(row.workload for row in rows):
        known = {
            row.mode: row.tokens_per_step
            for row in rows
            if row.workload == workload and row.tokens_per_step is not None
        }
        singles = tuple(Single(origin, known[origin]) for origin in SINGLE_ORIGINS if origin in known)
        if MERGED in known and singles:
            found.append(MergedResult(workload, known[MERGED], singles))
    return tuple(found)


def merged_table(rows: Sequence[Row]) -> str:
    """Tokens per step of `full` and of each origin that ran alone, by workload; "" when none did."""
    results = merged_results(rows)
    ran = {single.origin for result in results for single in result.singles}
    origins = [origin for origin in SINGLE_ORIGINS if origin in ran]
    body = [_line(result, origins) for result in results]
    header = ["workload", MERGED, *origins, "best single", "margin", f"{MERGED} >= best"]
    return render(header, body, "<" + ">" * (1 + len(origins)) + "<><") if body else ""


def _line(result: MergedResult, origins: Sequence[str]) -> list[str]:
    alone = {single.origin: single.tokens_per_step for single in result.singles}
    singles = [ratio(alone.get(origin)) for origin in origins]
    verdict = [result.best.origin, f"{result.margin:+.3f}", "yes" if result.holds else "NO"]
    return [result.workload, ratio(result.merged), *singles, *verdict]
