"""A draft head whose failures cost drafts, never a request.

Where it stands in a round: between the worker and the head. The other drafters are guarded by the planner; the head
runs SGLang's own forwards, and what they raise is kept from the scheduler here.
"""

from __future__ import annotations

import logging
from collections import Counter
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
    """`head`, until one of its calls fails `MOST_FAILURES` times in a row; from then on, no head."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self._failures: Counter[str] = Counter()  # of each call, since it last did its work
        self.draft_worker = head.draft_worker
        self.capture = head.capture

    @property
    def given_up(self) -> bool:
        return any(times >= MOST_FAILURES for times in self._failures.values())

    @property
    def failing(self) -> bool:
        """Whether a call failed and has not done its work since."""
        return any(self._failures.values())

    def after_prefill(self, batch: Any, result: Any) -> None:
        if self._try("after_prefill", lambda: self._head.after_prefill(batch, result)):
            self._failures["after_prefill"] = 0

    def measure_costs(self, hidden_size: int) -> HeadCosts | None:
        return self._head.measure_costs(hidden_size)

    def join(self, reqs: Sequence[Any], plans: list[DraftPlan], load: Load) -> list[DraftPlan]:
        joined = [plans]
        self._try("join", lambda: joined.append(self._head.join(reqs, plans, load)))
        if joined[-1] is not plans:  # otherwise nobody asked, which proves nothing
            self._failures["join"] = 0
        return joined[-1]

    def widened(self, width: int) -> None:
        self._head.widened(width)  # counts, and runs nothing

    def after_round(
        self, reqs: Sequence[Any], paths: Sequence[Acceptance], kept: Sequence[int], hidden: Any, width: int
    ) -> None:
        if self._try("after_round", lambda: self._head.after_round(reqs, paths, kept, hidden, width)):
            self._failures["after_round"] = 0

    def finish(self, req: Any) -> None:
        if self._try("finish", lambda: self._head.finish(req)):
            self._failures["finish"] = 0

    def clear(self) -> None:
        self._head.clear()

    def _try(self, name: str, call: Callable[[], None]) -> bool:
        """Whether it went well."""
        if self.given_up:
            return False
        try:
            call()
        except Exception as error:
            self._failures[name] += 1
            self._head.clear()  # rows may be half given: requests that run now go on without the head
            what = "it is not asked any more" if self.given_up else "running requests go on without it"
            cause = f"{type(error).__name__}: {error}"
            logger.warning("draft head failed in %s (%d in a row), %s: %s", name, self._failures[name], what, cause)
            return False
        return True


def guarded_head(head: NoHead) -> NoHead:
    """`head`, guarded where there is one."""
    return GuardedHead(head) if isinstance(head, Head) else head
