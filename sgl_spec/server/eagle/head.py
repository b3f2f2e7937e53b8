"""A draft head's part of every round: what the worker calls.

Where it stands in a round: `after_prefill` and `after_round` keep the target's hidden states of committed tokens,
`join` asks the head where the planner wants it and puts its candidates into the plans, `finish` leaves the head's keys
and values for the request's tokens behind, for the next request that begins with them.

The head's keys and values lie in the same slots as the target's (SGLang shares the slot numbers), so a prefix that the
radix cache knows needs no work here, as long as every token that enters the cache has had its row.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode
from sglang.srt.runtime_context import get_memory, get_spec

from sgl_spec.drafting.acceptance import Acceptance
from sgl_spec.drafting.cost_model import CostModel, Load
from sgl_spec.drafting.head.candidates import likeliest_chains
from sgl_spec.drafting.head.head_drafter import ORIGIN, Asking, HeadDrafter
from sgl_spec.drafting.head.head_rule import HeadCosts
from sgl_spec.drafting.planner import DraftPlan
from sgl_spec.server.eagle.backlog import Backlog, Span
from sgl_spec.server.eagle.draft_model import make_draft_model
from sgl_spec.server.eagle.head_kind import HeadKind, served_kind
from sgl_spec.server.eagle.head_probe import head_tables
from sgl_spec.server.request_states import RequestStates

# Rows a request may have pending before the head is given them whether it is asked or not: a bound on memory. A row is
# 3.5 kB for SmolLM2-135M and 24 kB for an 8B model.
MOST_PENDING = 64


class NoHead:
    """A server without a draft model."""

    draft_worker: Any = None
    capture: CaptureHiddenMode | None = None

    def after_prefill(self, batch: Any, result: Any) -> None: ...

    def join(self, reqs: Sequence[Any], plans: list[DraftPlan], load: Load) -> list[DraftPlan]:
        return plans

    def widened(self, width: int) -> None: ...

    def measure_costs(self, hidden_size: int) -> HeadCosts | None:
        """What the head costs; None without one."""
        return None

    def after_round(
        self, reqs: Sequence[Any], paths: Sequence[Acceptance], kept: Sequence[int], hidden: Any, width: int
    ) -> None: ...

    def finish(self, req: Any) -> None: ...

    def clear(self) -> None: ...


class Head(NoHead):
    """A server with one.

    Args:
        draft_worker: SGLang's draft worker, as `make_draft_model` makes it.
        kind: what the draft model is.
        requests: whose plans are joined.
        drafter: decides, and counts.
        most_candidates: nodes of the head's tree that are offered to a plan.
    """

    def __init__(
        self,
        draft_worker: Any,
        kind: HeadKind,
        requests: RequestStates,
        drafter: HeadDrafter,
        most_candidates: int,
    ) -> None:
        self.draft_worker = draft_worker
        self.capture = CaptureHiddenMode.FULL if kind.reads_hidden_states else None
        self._reads = kind.reads_hidden_states
        self._layers = kind.layers
        self._requests = requests
        self._drafter = drafter
        self._most = most_candidates
        self._backlog = Backlog(draft_worker.shift)
        self.costs: HeadCosts | None = None  # not watched

    def measure_costs(self, hidden_size: int) -> HeadCosts | None:
        """What the head costs, from now on corrected by every round. Only for a server without requests.

        Args:
            hidden_size: of the target.
        """
        extend, step = head_tables(self.draft_worker, self._layers * hidden_size)
        self.costs = HeadCosts(CostModel(extend), CostModel(step))
        return self.costs

    def after_prefill(self, batch: Any, result: Any) -> None:
        """Give the head the prompt's rows, as stock EAGLE does, before other requests can find them in the radix cache.

        The last row is kept besides: asking the head begins with at least one row, whose output it draws from. (A small
        model's last row is that of the token just sampled, and not the prompt's.)
        """
        hidden = result.logits_output.hidden_states if self._reads else None
        last = torch.cumsum(torch.tensor(batch.extend_lens), 0) - 1
        kept = None if hidden is None else hidden[last.to(hidden.device)]
        for i, req in enumerate(batch.reqs):
            end = batch.prefix_lens[i] + batch.extend_lens[i]
            start = end - self.draft_worker.shift
            self._backlog.begin(req, start, 1, None if kept is None else kept[i : i + 1])
        self.draft_worker.extend_prefill(batch, result)

    def join(self, reqs: Sequence[Any], plans: list[DraftPlan], load: Load) -> list[DraftPlan]:
        """The plans with the head's candidates where it is asked; requests with too many pending rows are caught up."""
        steps = self._steps(reqs, plans, load)
        asked = self._spans(reqs, steps)
        late = [i for i, req in enumerate(reqs) if i not in asked and self._backlog.rows(req) > MOST_PENDING]
        others = [*self._spans(reqs, late, but_last=1).values()]
        if not asked and not others:
            return plans
        began = time.perf_counter()
        output = self.draft_worker.extend([*asked.values(), *others])
        between = time.perf_counter()
        for span in (*asked.values(), *others):
            self._backlog.given(span)
        if not asked:
            return plans
        most = max(steps[i] for i in asked)
        grown = self.draft_worker.grow([*asked.values()], output, most)
        if self.costs is not None and not others:
            self.costs.observe(len(asked), most, between - began, time.perf_counter() - between)
        joined = list(plans)
        for i, candidates in zip(asked, grown, strict=True):
            joined[i] = self._requests.join(reqs[i], plans[i], likeliest_chains(candidates, self._most, ORIGIN))
            self._drafter.joined(reqs[i].rid, joined[i].tree, most)
        return joined

    def widened(self, width: int) -> None:
        """The round that `join` was asked for became so wide."""
        self._drafter.widened(width)

    def _steps(self, reqs: Sequence[Any], plans: Sequence[DraftPlan], load: Load) -> dict[int, int]:
        """For requests that ask the head, by their place in the batch, how many of its steps they want."""
        places = [i for i, plan in enumerate(plans) if self._requests.may_join(reqs[i], plan)]
        round_ = [Asking(reqs[i].rid, plans[i].tree, self._backlog.rows(reqs[i])) for i in places]
        steps = self._drafter.steps(round_, self.draft_worker.speculative_num_steps, load)
        return {i: count for i, count in zip(places, steps, strict=True) if count}

    def _spans(self, reqs: Sequence[Any], places: Iterable[int], but_last: int = 0) -> dict[int, Span]:
        """The pending rows of those requests of the batch that have any."""
        spans = {i: self._backlog.span(reqs[i], but_last) for i in places}
        return {i: span for i, span in spans.items() if span is not None}

    def after_round(
        self,
        reqs: Sequence[Any],
        paths: Sequence[Acceptance],
        kept: Sequence[int],
        hidden: torch.Tensor | None,
        width: int,
    ) -> None:
        """Keep the hidden states of what was committed.

        Args:
            paths: of each request, one node for each accepted token.
            kept: how many of each path were committed, from its front.
            hidden: [requests * width, size], at every node of the round's trees.
        """
        if not self._reads or hidden is None:
            parts: Sequence[torch.Tensor | None] = [None] * len(reqs)
        else:
            rows = [i * width + node for i, path in enumerate(paths) for node in path.nodes[: kept[i]]]
            parts = hidden[torch.tensor(rows, device=hidden.device)].split(list(kept))
        for req, count, part in zip(reqs, kept, parts, strict=True):
            self._backlog.append(req, count, part)

    def finish(self, req: Any) -> None:
        """A request is over, and its tokens are about to enter the radix cache: give the head its last rows."""
        if req is None:
            return
        span = None if get_memory().disable_radix_cache else self._backlog.span(req)
        if span is not None:
            self.draft_worker.extend([span])
        self._backlog.forget(req)

    def clear(self) -> None:
        self._backlog.clear()


def make_head(
    server_args: Any,
    gpu_id: int,
    nccl_port: int,
    target_worker: Any,
    requests: RequestStates,
    drafter: HeadDrafter | None,
) -> NoHead:
    """The head of this server, by SGLang's configuration."""
    kind = served_kind()
    if kind is None or drafter is None:
        return NoHead()
    draft_worker = make_draft_model(kind, server_args, gpu_id, nccl_port, target_worker)
    return Head(draft_worker, kind, requests, drafter, int(get_spec().speculative_num_draft_tokens) - 1)
