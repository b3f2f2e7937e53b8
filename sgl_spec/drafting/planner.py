"""Begins and ends every round for all running requests: has the drafters asked and their candidates weighed, prunes
these to one tree, and after verification tells everybody what was committed and keeps the counts. The only drafting
module a server calls.

It is also the guard: whatever a drafter does wrong costs its request one round without drafts, never the
request.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sgl_spec.drafting.acceptance import Acceptance
from sgl_spec.drafting.budget import DraftBudget
from sgl_spec.drafting.calibration.reliability import OriginError
from sgl_spec.drafting.calibration.requests import CalibratedRequests
from sgl_spec.drafting.calibration.tables import Calibration
from sgl_spec.drafting.cost_model import Load
from sgl_spec.drafting.drafter import Drafter, DraftRequest, Refiner
from sgl_spec.drafting.hint import Hint
from sgl_spec.drafting.round_candidates import Sources, Wanted, ask, join
from sgl_spec.drafting.stats import SpecCounter, SpecStats
from sgl_spec.drafting.tree import Chain, DraftError, DraftTree
from sgl_spec.drafting.tree_merge import Candidates, Limits, Weighed
from sgl_spec.drafting.warm_up import warm_up
from sgl_spec.drafting.width_rule import WidthRule

logger = logging.getLogger(__name__)

NO_MATCH = "no_match"
NO_ROOM = "no_room"
NO_GAIN = "no_gain"
DRAFTER_ERROR = "drafter_error"
_ANY_TOKEN = 1 << 31


class DraftPlan(NamedTuple):
    """What to verify for one request in this round.

    Attributes:
        tree: pruned to the budget, and by `narrow` to the round's width; only a root when the request abstains.
        abstain_reason: "no_match", "no_room", "no_gain" or "drafter_error"; None when something was drafted.
    """

    tree: DraftTree
    abstain_reason: str | None


class RoundPlan(NamedTuple):
    """What to verify in a round.

    Attributes:
        plans: one for each request.
        width: rows to verify for each request, the root included; at least as many as any tree has.
    """

    plans: list[DraftPlan]
    width: int


class DrafterFailures(NamedTuple):
    """How often a drafter raised or proposed garbage."""

    origin: str
    times: int


class _Known(NamedTuple):
    """Of a started request: what may be drafted at all, what its client said, the most drafts it may have."""

    limits: Limits
    hint: Hint
    max_drafts: int


class _OpenRound(NamedTuple):
    """A round that is verified since a time."""

    load: Load
    width: int
    since: float


class DraftPlanner:
    """Plans and books the rounds of all running requests.

    Args:
        drafters: asked in this order.
        budget: of every request and round.
        vocab_size: token ids from here on are garbage when a drafter proposes them (None: from 2**31). A
            server should give it: an id beyond the embedding table brings a GPU process down.
        refiner: looks at each tree before it is pruned; None for none.
        calibration: what drafts are worth by experience; None trusts the drafters.
        clock: seconds, to learn what rounds cost.
    """

    def __init__(
        self,
        drafters: Sequence[Drafter],
        budget: DraftBudget,
        *,
        vocab_size: int | None = None,
        refiner: Refiner | None = None,
        calibration: Calibration | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._drafters = tuple(drafters)
        self._sources = Sources(self._drafters, refiner)
        self._calibrated = CalibratedRequests(calibration)
        self._told: tuple[Drafter | Refiner, ...] = self._drafters if refiner is None else (*self._drafters, refiner)
        self._budget = budget
        self._vocab_size = _ANY_TOKEN if vocab_size is None else vocab_size
        self._counters: dict[str, SpecCounter] = {}
        self._known: dict[str, _Known] = {}
        self._failures: dict[str, int] = {}
        self._rule: WidthRule | None = None
        self._clock = clock
        self._load, self._began, self._asking, self._resting = Load(1, 0), 0.0, 0.0, False
        self._round: _OpenRound | None = None
        warm_up()

    @property
    def failures(self) -> tuple[DrafterFailures, ...]:
        """Of the drafters that ever failed."""
        return tuple(DrafterFailures(origin, times) for origin, times in self._failures.items())

    def start(self, request: DraftRequest) -> None:
        """A request begins, or begins again (after it was retracted, say) and keeps its counts."""
        self._counters.setdefault(request.rid, SpecCounter())
        most = self._budget.max_drafts if request.hint.width is None else request.hint.width - 1
        limits = Limits.of(request.endings, self._vocab_size)
        self._known[request.rid] = _Known(limits, request.hint, min(most, self._budget.max_drafts))
        self._calibrated.start(request)
        self._tell(lambda drafter: drafter.start(request))

    def observe(self, rid: str, tokens: Sequence[int]) -> None:
        """`tokens` were committed outside a round, such as the prefill's own token; not counted."""
        self._tell(lambda drafter: drafter.observe(rid, tokens))

    def adapt(self, rule: WidthRule | None) -> None:
        """Let `rule` choose the widths from now on, and learn what they cost; None: as wide as the budget allows."""
        self._rule = rule
        self._round, self._resting = None, False

    def interrupted(self) -> None:
        """Something else than a round is run, a prefill: the last round ended before, nobody knows when."""
        self._round = None

    def open_round(self, load: Load) -> None:
        """A round of this batch begins; `plan` of its requests follows, `join` where a head is asked, and `narrow`."""
        now = self._clock()
        if self._rule is not None:
            if self._round is not None:  # with the server's own work between two rounds
                self._rule.costs.observe(self._round.load, self._round.width, now - self._round.since)
            self._resting = self._rule.rests(load)
        self._load, self._began, self._asking, self._round = load, now, 0.0, None

    def narrow(self, rids: Sequence[str], plans: Sequence[DraftPlan]) -> RoundPlan:
        """All requests of the round are planned: one width for them, and their trees cut to it.

        Args:
            rids: of the plans, in their order; also those that were not planned here.
        """
        width = max([len(plan.tree) for plan in plans], default=1)
        if self._rule is not None:
            chances = [plan.tree.chances for plan in plans if plan.tree.num_drafts]
            width = self._rule.choose(chances, self._load, self._clock() - self._began, self._asking)
        cut = [self._cut(rid, plan, width) for rid, plan in zip(rids, plans, strict=True)]
        self._round = _OpenRound(self._load, width, self._clock())
        return RoundPlan(cut, width)

    def _cut(self, rid: str, plan: DraftPlan, width: int) -> DraftPlan:
        if len(plan.tree) <= width:
            return plan
        if width > 1:
            return DraftPlan(plan.tree.first(width), None)
        self._counter(rid).abstained(NO_GAIN)
        return DraftPlan(DraftTree(plan.tree.root_token), NO_GAIN)

    def plan(self, rid: str, root_token: int, room: int) -> DraftPlan:
        """Draft for one round.

        Args:
            rid: a started request.
            root_token: its last committed token.
            room: most tokens it may still emit; no draft is deeper than room - 1, as the bonus needs one.

        Raises:
            DraftError: the request never started.
        """
        counter, began = self._counter(rid), self._clock()
        plan = self._plan(rid, root_token, room)
        if plan.abstain_reason is not None:
            counter.abstained(plan.abstain_reason)
        self._asking += self._clock() - began
        return plan

    def join(self, rid: str, plan: DraftPlan, chains: Sequence[Chain], room: int) -> DraftPlan:
        """`plan` of this round with chains that came after it (a draft head's, which is asked only where it pays).

        The same rules hold as for a drafter's chains, and the tree stays within the same budget.

        Args:
            chains: of one origin.
            room: as in `plan`.

        Raises:
            DraftError: the request never started.
        """
        counter, before = self._counter(rid), self._calibrated.candidates(rid)
        if before is None or room <= 1 or plan.abstain_reason not in (None, NO_MATCH):
            return plan
        wanted = self._wanted(rid, plan.tree.root_token, room)
        joined = self._pruned(wanted, lambda asked: join(self._sources, wanted, before, chains, asked))
        if joined.abstain_reason != plan.abstain_reason:
            if plan.abstain_reason is not None:
                counter.abstained(plan.abstain_reason, -1)
            if joined.abstain_reason is not None:
                counter.abstained(joined.abstain_reason)
        return joined

    def _plan(self, rid: str, root_token: int, room: int) -> DraftPlan:
        wanted = self._wanted(rid, root_token, room)
        if min(wanted.max_drafts, wanted.max_depth) < 1:
            self._calibrated.forget(rid)
            return DraftPlan(DraftTree(root_token), NO_ROOM)
        if self._resting:
            self._calibrated.forget(rid)
            return DraftPlan(DraftTree(root_token), NO_GAIN)

        def weigh(found: Candidates, most: int, min_gain: float) -> Weighed:
            return self._calibrated.weigh(rid, found, most, min_gain)

        return self._pruned(wanted, lambda asked: ask(self._sources, wanted, weigh, asked))

    def _wanted(self, rid: str, root_token: int, room: int) -> Wanted:
        known = self._known[rid]
        depth = min(known.max_drafts, room - 1)
        return Wanted(rid, root_token, known.max_drafts, depth, known.limits, known.hint)

    def _pruned(self, wanted: Wanted, find: Callable[[list[object]], Candidates]) -> DraftPlan:
        """The best of what `find` finds; whatever a drafter raises or proposes, its request goes on."""
        self._calibrated.forget(wanted.rid)
        asked: list[object] = []
        try:
            weighed = self._calibrated.weigh(wanted.rid, find(asked), wanted.max_drafts, self._budget.min_gain)
        except Exception as error:
            self._failed(asked[-1] if asked else self, error)
            return DraftPlan(DraftTree(wanted.root_token), DRAFTER_ERROR)
        self._calibrated.planned(wanted.rid, weighed)
        tree = weighed.tree(wanted.max_drafts + 1)
        return DraftPlan(tree, None if tree.num_drafts else NO_MATCH)

    def commit(self, rid: str, tree: DraftTree, acceptance: Acceptance, new_tokens: Sequence[int]) -> None:
        """A round is over.

        Args:
            rid: a started request.
            tree: the planned tree that was verified (only a root when the request abstained).
            acceptance: what the verifier accepted.
            new_tokens: what was really committed: acceptance.tokens, or fewer from its front after a stop.

        Raises:
            DraftError: the request never started, or the acceptance does not belong to the tree.
        """
        self._counter(rid).round_done(tree, acceptance, len(new_tokens))
        self._calibrated.committed(rid, len(tree), new_tokens)
        self.observe(rid, new_tokens)

    def abstain(self, rid: str, reason: str) -> None:
        """Count a round that the server ran without asking `plan`, and why."""
        self._counter(rid).abstained(reason)
        self._calibrated.forget(rid)

    def calibration_errors(self) -> tuple[OriginError, ...]:
        """How far off the probabilities of verified drafts were; nothing without a calibration."""
        return self._calibrated.errors()

    def stats(self, rid: str) -> SpecStats:
        """The request's counts so far.

        Raises:
            DraftError: the request never started, or was stopped.
        """
        return self._counter(rid).snapshot()

    def account(self, rid: str) -> dict[str, Any]:
        """The request's counts and the drafters' notes: the JSON object its client is sent.

        Raises:
            DraftError: the request never started, or was stopped.
        """
        counts = self.stats(rid).to_dict()
        notes: dict[str, Any] = {}
        for drafter in self._drafters:
            try:
                notes.update(drafter.notes(rid))
            except Exception as error:  # as in _pruned
                self._failed(drafter, error)
        return {**notes, **counts}  # no note takes the place of a count

    def finish(self, rid: str, output: Sequence[int]) -> None:
        """The request ended by itself with `output`, its tokens after the last cut: drafters may learn from it. `stop`
        follows."""
        self._tell(lambda drafter: drafter.finish(rid, output))

    def stop(self, rid: str) -> None:
        """The request is over. Also fine for one that never started."""
        self._counters.pop(rid, None)
        self._known.pop(rid, None)
        self._calibrated.stop(rid)
        self._tell(lambda drafter: drafter.stop(rid))

    def _counter(self, rid: str) -> SpecCounter:
        try:
            return self._counters[rid]
        except KeyError:
            raise DraftError(f"rid {rid!r} is not among the {len(self._counters)} started requests") from None

    def _tell(self, call: Callable[[Drafter | Refiner], None]) -> None:
        for drafter in self._told:
            try:
                call(drafter)
            except Exception as error:  # as in _pruned
                self._failed(drafter, error)

    def _failed(self, drafter: object, error: Exception) -> None:
        origin = str(getattr(drafter, "origin", type(drafter).__name__))
        times = self._failures[origin] = self._failures.get(origin, 0) + 1
        if times == 1:
            cause = f"{type(error).__name__}: {error}"
            logger.warning("drafter %r failed (failure %d), more are only counted: %s", origin, times, cause)
