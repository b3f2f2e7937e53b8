"""Begins and ends every round for all running requests: asks the drafters, joins their chains into one tree,
and after verification tells them what was committed and keeps the counts. The only drafting module a server
calls.

It is also the guard: whatever a drafter does wrong costs its request one round without drafts, never the
request.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from sgl_spec.drafting.acceptance import Acceptance
from sgl_spec.drafting.budget import DraftBudget, combine_proposals
from sgl_spec.drafting.chain_block import ChainBlock
from sgl_spec.drafting.drafter import Drafter, DraftRequest, Refiner
from sgl_spec.drafting.hint import Hint
from sgl_spec.drafting.stats import SpecCounter, SpecStats
from sgl_spec.drafting.tree import Chain, DraftError, DraftTree
from sgl_spec.drafting.tree_merge import Limits, ProposalError
from sgl_spec.drafting.warm_up import warm_up

logger = logging.getLogger(__name__)

NO_MATCH = "no_match"
NO_ROOM = "no_room"
DRAFTER_ERROR = "drafter_error"
# A drafter is asked for a few dozen nodes; one that answers with more chains than this is broken.
MAX_CHAINS = 1024
_ANY_TOKEN = 1 << 31


class DraftPlan(NamedTuple):
    """What to verify for one request in this round.

    Attributes:
        tree: pruned to the budget; only a root when the request abstains.
        abstain_reason: "no_match", "no_room" or "drafter_error"; None when something was drafted.
    """

    tree: DraftTree
    abstain_reason: str | None


class DrafterFailures(NamedTuple):
    """How often a drafter raised or proposed garbage."""

    origin: str
    times: int


class _Known(NamedTuple):
    """Of a started request: what ends it, the origins it allows, and the most drafts it wants."""

    endings: frozenset[int]
    limits: Limits
    hint: Hint
    max_drafts: int


class DraftPlanner:
    """Plans and books the rounds of all running requests.

    Args:
        drafters: asked in this order.
        budget: of every request and round.
        vocab_size: token ids from here on are garbage when a drafter proposes them (None: from 2**31). A
            server should give it: an id beyond the embedding table brings a GPU process down.
        refiner: looks at each tree before it is pruned; None for none.
    """

    def __init__(
        self,
        drafters: Sequence[Drafter],
        budget: DraftBudget,
        *,
        vocab_size: int | None = None,
        refiner: Refiner | None = None,
    ) -> None:
        self._drafters = tuple(drafters)
        self._refiner = refiner
        self._told: tuple[Drafter | Refiner, ...] = self._drafters if refiner is None else (*self._drafters, refiner)
        self._budget = budget
        self._vocab_size = _ANY_TOKEN if vocab_size is None else vocab_size
        self._counters: dict[str, SpecCounter] = {}
        self._known: dict[str, _Known] = {}
        self._failures: dict[str, int] = {}
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
        self._known[request.rid] = _Known(request.endings, limits, request.hint, most)
        self._tell(lambda drafter: drafter.start(request))

    def observe(self, rid: str, tokens: Sequence[int]) -> None:
        """`tokens` were committed outside a round, such as the prefill's own token; not counted."""
        self._tell(lambda drafter: drafter.observe(rid, tokens))

    def plan(self, rid: str, root_token: int, room: int) -> DraftPlan:
        """Draft for one round.

        Args:
            rid: a started request.
            root_token: its last committed token.
            room: most tokens it may still emit; the tree has at most room - 1 drafts, as the bonus needs one.

        Raises:
            DraftError: the request never started.
        """
        counter = self._counter(rid)
        plan = self._plan(rid, root_token, min(self._budget.max_drafts, self._known[rid].max_drafts, room - 1))
        if plan.abstain_reason is not None:
            counter.abstained(plan.abstain_reason)
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
        most = min(self._budget.max_drafts, self._known[rid].max_drafts, room - 1)
        if most < 1 or plan.abstain_reason not in (None, NO_MATCH):
            return plan
        asked: list[object] = [chains]
        try:
            tree = self._joined(rid, plan.tree, chains, most, asked)
        except Exception as error:  # as in _plan
            self._failed(asked[-1], error)
            self._counter(rid).abstained(DRAFTER_ERROR)
            return DraftPlan(DraftTree(plan.tree.root_token), DRAFTER_ERROR)
        if tree.num_drafts and plan.abstain_reason is not None:
            self._counter(rid).abstained(plan.abstain_reason, -1)
        return DraftPlan(tree, None if tree.num_drafts else NO_MATCH)

    def _joined(self, rid: str, tree: DraftTree, chains: Sequence[Chain], most: int, asked: list[object]) -> DraftTree:
        hint, refiner = self._known[rid].hint, self._refiner
        refines = refiner is not None and refiner.begin_round(rid)
        for chain in chains:
            asked.append(chains)  # at fault from here on
            admitted = self._admitted(chain, most, self._known[rid].endings)
            possible = len(admitted.tokens)
            if refines and possible:
                assert refiner is not None
                asked.append(refiner)
                possible = refiner.cut(rid, admitted.tokens)
            if possible and hint.allows(chain.origin):
                tree.graft(Chain(admitted.tokens[:possible], admitted.q[:possible], chain.origin))
        return tree.pruned(most, self._budget.min_gain)

    def _plan(self, rid: str, root_token: int, max_drafts: int) -> DraftPlan:
        if max_drafts < 1:
            return DraftPlan(DraftTree(root_token), NO_ROOM)
        budget = self._budget
        if max_drafts < budget.max_drafts:
            budget = DraftBudget(max_drafts, budget.min_gain)
        asked: list[Drafter | Refiner] = []
        try:
            if self._refines(rid, asked):
                tree = self._refined(rid, root_token, max_drafts, asked).pruned(max_drafts, budget.min_gain)
            else:
                proposals = self._proposals(rid, max_drafts, asked)
                tree = combine_proposals(proposals, root_token, budget, self._known[rid].limits)
        except ProposalError as error:
            self._failed(self._drafters[error.number], error)
            return DraftPlan(DraftTree(root_token), DRAFTER_ERROR)
        except Exception as error:  # whatever a drafter raises or proposes, its request goes on
            self._failed(asked[-1], error)
            return DraftPlan(DraftTree(root_token), DRAFTER_ERROR)
        return DraftPlan(tree, None if tree.num_drafts else NO_MATCH)

    def _refines(self, rid: str, asked: list[Drafter | Refiner]) -> bool:
        if self._refiner is None:
            return False
        asked.append(self._refiner)
        return self._refiner.begin_round(rid)

    def _refined(self, rid: str, root_token: int, max_drafts: int, asked: list[Drafter | Refiner]) -> DraftTree:
        """The drafters' tree without what the refiner forbids, and with what it adds."""
        refiner = self._refiner
        assert refiner is not None
        tree = DraftTree(root_token)
        chains = list(self._chains(rid, max_drafts, asked))
        asked.append(refiner)  # at fault from here on
        for chain in chains:
            possible = refiner.cut(rid, chain.tokens)
            if possible:
                tree.graft(Chain(chain.tokens[:possible], chain.q[:possible], chain.origin))
        if self._known[rid].hint.allows(refiner.origin):
            refiner.extend(rid, tree, max_drafts)
        return tree

    def _proposals(self, rid: str, max_tokens: int, asked: list[Drafter | Refiner]) -> list[Sequence[Chain]]:
        """What each drafter proposes, of the origins that the request allows. The drafters are noted in `asked`: when
        one fails, it is the last."""
        hint = self._known[rid].hint
        proposals: list[Sequence[Chain]] = []
        for drafter in self._drafters:
            asked.append(drafter)
            proposed = drafter.propose(rid, max_tokens)
            if type(proposed) not in (list, ChainBlock) or len(proposed) > MAX_CHAINS:
                raise DraftError(f"proposed {type(proposed).__name__}; it must be a list of at most {MAX_CHAINS}")
            allowed = proposed if hint.origins is None else [c for c in proposed if hint.allows(c.origin)]
            proposals.append(allowed)
        return proposals

    def _chains(self, rid: str, max_tokens: int, asked: list[Drafter | Refiner]) -> Iterator[Chain]:
        """The drafters' chains for the refiner: cut, without those of which nothing is left."""
        known = self._known[rid]
        first = len(asked)
        for number, proposed in enumerate(self._proposals(rid, max_tokens, asked)):
            asked.append(asked[first + number])  # at fault from now on
            for chain in proposed:
                admitted = self._admitted(chain, max_tokens, known.endings)
                if admitted.tokens or not chain.tokens:  # an empty proposal is the tree's to refuse
                    yield admitted

    def _admitted(self, chain: Chain, max_tokens: int, endings: frozenset[int]) -> Chain:
        """`chain`, cut to what could be used, and before the first token that ends the request; what else makes a
        chain valid is checked by the tree."""
        if not isinstance(chain, Chain):
            raise DraftError(f"proposed a {type(chain).__name__}; it must be a Chain")
        if len(chain.tokens) > max_tokens:
            chain = Chain(chain.tokens[:max_tokens], chain.q[:max_tokens], chain.origin)
        if not endings.isdisjoint(chain.tokens):
            end = next(i for i, token in enumerate(chain.tokens) if token in endings)
            chain = Chain(chain.tokens[:end], chain.q[:end], chain.origin)
        if max(chain.tokens, default=0) >= self._vocab_size:
            raise DraftError(f"proposed token {max(chain.tokens)}; the vocabulary has {self._vocab_size}")
        return chain

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
        self.observe(rid, new_tokens)

    def abstain(self, rid: str, reason: str) -> None:
        """Count a round that the server ran without asking `plan`, and why."""
        self._counter(rid).abstained(reason)

    def stats(self, rid: str) -> SpecStats:
        """The request's counts so far.

        Raises:
            DraftError: the request never started, or was stopped.
        """
        return self._counter(rid).snapshot()

    def account(self, rid: str) -> dict[str, Any]:
        """The request's counts and the drafters' notes, as the JSON object its client is sent.

        Raises:
            DraftError: the request never started, or was stopped.
        """
        counts = self.stats(rid).to_dict()
        notes: dict[str, Any] = {}
        for drafter in self._drafters:
            try:
                notes.update(drafter.notes(rid))
            except Exception as error:  # as in _plan
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
            except Exception as error:  # as in _plan
                self._failed(drafter, error)

    def _failed(self, drafter: object, error: Exception) -> None:
        origin = str(getattr(drafter, "origin", type(drafter).__name__))
        times = self._failures[origin] = self._failures.get(origin, 0) + 1
        if times == 1:
            cause = f"{type(error).__name__}: {error}"
            logger.warning("drafter %r failed (failure %d), more are only counted: %s", origin, times, cause)
