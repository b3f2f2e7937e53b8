"""What a draft head costs on this machine: its extend, and each step after it. Measured on the running server before
its first request, as cost_probe measures verifying, and kept beside that.

Where it stands in a round: before the first; every round that asks the head corrects the tables.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from sglang.srt.managers.schedule_batch import Req
from sglang.srt.sampling.sampling_params import SamplingParams

from sgl_spec.drafting.cost_model import PRIOR_EXTEND, PRIOR_STEP, CostTable
from sgl_spec.server.cost_probe import kept_or_measured
from sgl_spec.server.eagle.backlog import Span

# Requests side by side, and passes over them of which the fastest counts, after one that only warms up.
REQUESTS = (1, 2, 4, 8)
PASSES = 3
CONTEXT = 16


class HeadTables(NamedTuple):
    """By requests: one extend over a row of each, and one more step."""

    extend: CostTable
    step: CostTable


def head_tables(draft_worker: Any, hidden_size: int) -> HeadTables:
    """Of this server's head, from the cache or measured now.

    Args:
        draft_worker: see draft_model.
        hidden_size: of the target's hidden states that the head reads; 0 for a small model, which reads none.
    """
    seen: list[HeadTables] = []

    def both() -> HeadTables:
        if not seen:
            seen.append(_measured(draft_worker, hidden_size))
        return seen[0]

    runner = draft_worker.draft_runner
    return HeadTables(
        kept_or_measured("a draft extend", runner, lambda: both().extend, PRIOR_EXTEND),
        kept_or_measured("a draft step", runner, lambda: both().step, PRIOR_STEP),
    )


def _measured(draft_worker: Any, hidden_size: int) -> HeadTables:
    steps = int(draft_worker.speculative_num_steps)
    table = draft_worker.draft_runner.req_to_token_pool.req_to_token
    counts = [count for count in REQUESTS if count <= len(table)]
    extends, grows = dict.fromkeys(counts, float("inf")), dict.fromkeys(counts, float("inf"))
    with _dummy_slots(table, counts[-1], CONTEXT + 1 + steps * int(draft_worker.topk)):
        for turn in range(PASSES + 1):
            for count in counts:
                spans = [_span(draft_worker, place, hidden_size) for place in range(count)]
                began = time.perf_counter()
                output = draft_worker.extend(spans)
                between = time.perf_counter()
                draft_worker.grow(spans, output, steps)
                if turn:
                    extends[count] = min(extends[count], between - began)
                    grows[count] = min(grows[count], time.perf_counter() - between)
    each = max(steps - 1, 1)
    return HeadTables(
        CostTable(tuple(counts), tuple(extends.values())),
        CostTable(tuple(counts), tuple(seconds / each for seconds in grows.values())),
    )


@contextmanager
def _dummy_slots(table: torch.Tensor, requests: int, length: int) -> Iterator[None]:
    """Slots for the first rows of the table, which no request has yet; the table is left as it was."""
    before = table[:requests, :length].clone()
    numbers = torch.arange(1, requests * length + 1, dtype=table.dtype, device=table.device)
    table[:requests, :length] = numbers.view(requests, length)
    try:
        yield
    finally:
        table[:requests, :length] = before


def _span(draft_worker: Any, place: int, hidden_size: int) -> Span:
    """One row after a context that nobody computed."""
    request = Req(f"probe {place}", "", array("q", [0] * CONTEXT), SamplingParams())
    request.kv = SimpleNamespace(req_pool_idx=place)
    runner = draft_worker.draft_runner
    hidden = torch.zeros(1, hidden_size, dtype=runner.dtype, device=runner.device) if hidden_size else None
    return Span(request, CONTEXT, [0], hidden)
