"""When a draft head is asked and for how much, and what became of it, request by request.

Where it stands in a round: after the planner's first trees. A head costs its steps every time it runs, so whether it
runs is decided in every round for every request, by what it is expected to add to the other drafters (head_worth) and
what that costs (head_rule). The server runs the head; here nothing of it is known but that its candidates come as
chains later in the round (`DraftPlanner.join`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sgl_spec.drafting.cost_model import Load
from sgl_spec.drafting.drafter import Drafter, DraftRequest
from sgl_spec.drafting.head.head_rule import HeadRule, Hope
from sgl_spec.drafting.head.head_worth import HeadWorth
from sgl_spec.drafting.memory.slot_key import slot_key
from sgl_spec.drafting.tree import Chain, DraftTree

ORIGIN = "eagle"


class Asking(NamedTuple):
    """A request whose plan the head could join in this round.

    Attributes:
        rid: a started request.
        tree: what the other drafters came to.
        pending: committed tokens that the head has not been given yet; it is given them when it is asked.
    """

    rid: str
    tree: DraftTree
    pending: int


@dataclass
class _Use:
    """One request's rounds: asked, skipped though allowed; caught_up: rows the head was given when it was asked.
    waited: rounds since it asked. tree, steps: of the round that has begun, None when it did not ask."""

    allowed: bool
    asked: int = 0
    skipped: int = 0
    caught_up: int = 0
    waited: int = 0
    tree: DraftTree | None = None
    steps: int = 0


class HeadDrafter(Drafter):
    """Stands for the head among the drafters: it is told of requests, and proposes nothing by itself.

    Args:
        prior: P(the head has a token that the others do not have) at every step, before it is known.
    """

    origin = ORIGIN

    def __init__(self, prior: float = 0.5) -> None:
        self._uses: dict[str, _Use] = {}
        self._worth = HeadWorth(ORIGIN, prior)
        self._rule: HeadRule | None = None

    def adapt(self, rule: HeadRule | None) -> None:
        """Let `rule` decide from now on; None asks the head always, for all its steps."""
        self._rule = rule

    def start(self, request: DraftRequest) -> None:
        self._uses.setdefault(request.rid, _Use(request.hint.allows(ORIGIN))).tree = None
        self._worth.start(request.rid, slot_key(request))

    def propose(self, rid: str, max_tokens: int) -> Sequence[Chain]:
        return []

    def steps(self, round_: Sequence[Asking], most: int, load: Load) -> list[int]:
        """How many steps of the head each request of a round wants, from 0 (not asked) to `most`.

        Args:
            load: of the whole batch.
        """
        allowed = [one for one in round_ if one.rid in self._uses and self._uses[one.rid].allowed]
        if self._rule is None or not allowed:
            wanted = [most] * len(allowed)
        else:
            wanted = self._rule.choose([self._hope(one, most) for one in allowed], load, most)
        by_rid = {one.rid: steps for one, steps in zip(allowed, wanted, strict=True)}
        for one in allowed:
            self._note(one, by_rid[one.rid])
        return [by_rid.get(one.rid, 0) for one in round_]

    def _hope(self, one: Asking, most: int) -> Hope:
        gains = self._worth.gains(one.rid, one.tree, most)
        return Hope(one.tree.chances, gains, self._uses[one.rid].waited)

    def _note(self, one: Asking, steps: int) -> None:
        use = self._uses[one.rid]
        use.tree = None
        if steps:
            use.asked, use.waited, use.caught_up = use.asked + 1, 0, use.caught_up + one.pending
        else:
            use.skipped, use.waited = use.skipped + 1, use.waited + 1
            self._worth.skipped(one.rid)

    def joined(self, rid: str, tree: DraftTree, steps: int) -> None:
        """The head answered with so many steps; `tree` is what it came to together with the others, not yet cut to the
        round's width."""
        use = self._uses.get(rid)
        if use is not None:
            use.tree, use.steps = tree, steps

    def widened(self, width: int) -> None:
        """The round, for whose requests `steps` decided, became so wide."""
        if self._rule is not None:
            self._rule.widened(width)

    def observe(self, rid: str, tokens: Sequence[int]) -> None:
        use = self._uses.get(rid)
        if use is not None and use.tree is not None:
            self._worth.learn(rid, use.tree, use.steps, tokens)
            use.tree = None

    def notes(self, rid: str) -> Mapping[str, Any]:
        use = self._uses.get(rid)
        if use is None:
            return {}
        return {"head": {"asked": use.asked, "skipped": use.skipped, "caught_up": use.caught_up}}

    def stop(self, rid: str) -> None:
        self._uses.pop(rid, None)
        self._worth.stop(rid)
