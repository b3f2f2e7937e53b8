"""A draft head whose failures cost drafts, never a request.

Where it stands in a round: between the worker and the head. The other drafters are guarded by the planner; the head
runs SGLang's own forwards, and what they raise is kept from the scheduler here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from sgl_spec.drafting.acceptance import Acceptance
from sgl_spec.drafting.cost_model import Load
from sgl_spec.drafting.head.head_rule import HeadCosts
from sgl_spec.drafting.planner import DraftPlan
from sgl_spec.server.eagle.head import Head, NoHead

logger = logging.getLogger(__name__)

# In a row: a forward that raised so often will raise again, and every attempt costs its time.
MOST_FAILURES = 3


class GuardedHead(NoHead):
    """`head`, until it fails `MOST_FAILURES` times in a row; from then on, no head."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self._failures = 0
        self.draft_worker = head.draft_worker
        self.capture = head.capture

    @property
    def given_up(self) -> bool:
        return self._failures >= MOST_FAILURES

    def after_prefill(self, batch: Any, result: Any) -> None:
        self._try(lambda: self._head.after_prefill(batch, result))

    def measure_costs(self, hidden_size: int) -> HeadCosts | None:
        return self._head.measure_costs(hidden_size)

    def join(self, reqs: Sequence[Any], plans: list[DraftPlan], load: Load) -> list[DraftPlan]:
        joined: list[DraftPlan] = []
        self._try(lambda: joined.extend(self._head.join(reqs, plans, load)))
        return joined or plans

    def widened(self, width: int) -> None:
        self._head.widened(width)  # counts, and runs nothing

    def after_round(
        self, reqs: Sequence[Any], paths: Sequence[Acceptance], kept: Sequence[int], hidden: Any, width: int
    ) -> None:
        self._try(lambda: self._head.after_round(reqs, paths, kept, hidden, width))

    def finish(self, req: Any) -> None:
        self._try(lambda: self._head.finish(req))

    def clear(self) -> None:
        self._head.clear()

    def _try(self, call: Callable[[], None]) -> None:
        if self.given_up:
            return
        try:
            call()
        except Exception as error:
            self._failures += 1
            self._head.clear()  # rows may be half given: requests that run now go on without the head
            what = "it is not asked any more" if self.given_up else "running requests go on without it"
            cause = f"{type(error).__name__}: {error}"
            logger.warning("draft head failed (%d in a row), %s: %s", self._failures, what, cause)
        else:
            self._failures = 0


def guarded_head(head: NoHead) -> NoHead:
    """`head`, guarded where there is one."""
    return GuardedHead(head) if isinstance(head, Head) else head
