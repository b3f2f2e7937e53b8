"""Sends the matrix: as many requests under way as the batch is large, a new one whenever one ends.

Stands outside a round, and sees to it that rounds are hard: requests of all lengths, sampled and greedy, speculated and
not, join and leave the running batch at any time, in an order that is drawn. A batch of one runs them one by one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from sgl_spec.cli.check.answer import Reply, Send
from sgl_spec.cli.check.compare import Differences, compare
from sgl_spec.cli.check.matrix import Cell


class Outcome(NamedTuple):
    """A cell and what came of it."""

    cell: Cell
    on: Reply
    off: Reply
    differences: Differences


class Job(NamedTuple):
    """One request to send: a cell's, speculated or not."""

    cell: Cell
    speculate: bool


def run_cells(cells: Sequence[Cell], send: Send, seed: int, done: Callable[[], None]) -> tuple[Outcome, ...]:
    """The outcomes, in the cells' order. The largest batch runs first. `done` is called after each request, in any
    thread."""
    on: dict[int, Reply] = {}
    off: dict[int, Reply] = {}
    for batch in sorted({cell.batch for cell in cells}, reverse=True):
        jobs = shuffled([cell for cell in cells if cell.batch == batch], seed)
        with _Pool(batch) as pool:
            for job, reply in zip(jobs, pool.map(lambda job: _sent(job, send, done), jobs), strict=True):
                (on if job.speculate else off)[job.cell.number] = reply
    replies = [(on[cell.number], off[cell.number]) for cell in cells]
    return tuple(Outcome(cell, *pair, compare(*pair)) for cell, pair in zip(cells, replies, strict=True))


def shuffled(cells: Sequence[Cell], seed: int) -> tuple[Job, ...]:
    """Both requests of every cell, in any order, but where memory is warm the one without drafts first: then the other
    is drafted from its very answer, in the longest runs there are."""
    jobs = [Job(cell, speculate) for cell in cells for speculate in (False, True)]
    random.Random(f"{seed}/order").shuffle(jobs)
    first: set[int] = set()
    for place, job in enumerate(jobs):
        if job.cell.memory == "warm":
            jobs[place] = job._replace(speculate=job.cell.number in first)
            first.add(job.cell.number)
    return tuple(jobs)


def _sent(job: Job, send: Send, done: Callable[[], None]) -> Reply:
    try:
        return send(job.cell.on if job.speculate else job.cell.off)
    finally:
        done()


class _Pool(ThreadPoolExecutor):
    """Sends nothing more once its user gives up (Ctrl-C)."""

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self.shutdown(wait=kind is None, cancel_futures=kind is not None)
