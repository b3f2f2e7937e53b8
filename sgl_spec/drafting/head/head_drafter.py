"""When a draft head is asked and for how much, and what became of it, request by request.

Where it stands in a round: after the planner's first trees. A head costs its steps every time it runs, so whether it
runs is decided in every round for every request, from what the other drafters expect. The server runs the head; here
nothing of it is known but that its candidates come as chains later in the round (`DraftPlanner.join`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sgl_spec.drafting.drafter import Drafter, DraftRequest
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
    """One request's rounds: asked, skipped though allowed; caught_up: rows the head was given when it was asked."""

    allowed: bool
    asked: int = 0
    skipped: int = 0
    caught_up: int = 0


class HeadDrafter(Drafter):
    """Stands for the head among the drafters: it is told of requests, and proposes nothing by itself.

    Args:
        below: the head is asked while the other drafters expect fewer accepted drafts than this; 0 = never.
    """

    origin = ORIGIN

    def __init__(self, below: float) -> None:
        self._below = below
        self._uses: dict[str, _Use] = {}

    def start(self, request: DraftRequest) -> None:
        self._uses.setdefault(request.rid, _Use(request.hint.allows(ORIGIN)))

    def propose(self, rid: str, max_tokens: int) -> Sequence[Chain]:
        return []

    def steps(self, round_: Sequence[Asking], most: int) -> list[int]:
        """How many steps of the head each request of a round wants, from 0 (not asked) to `most`.

        The rule of this version: all steps while the others expect fewer than `below` accepted drafts, and none
        otherwise. A fixed price in the place of a measured one; it looks at each request by itself.
        """
        return [most if self._wants(asking) else 0 for asking in round_]

    def _wants(self, asking: Asking) -> bool:
        use = self._uses.get(asking.rid)
        if use is None or not use.allowed:
            return False
        wants = asking.tree.expected_tokens - 1.0 < self._below
        use.asked += wants
        use.skipped += not wants
        use.caught_up += asking.pending if wants else 0
        return wants

    def notes(self, rid: str) -> Mapping[str, Any]:
        use = self._uses.get(rid)
        if use is None:
            return {}
        return {"head": {"asked": use.asked, "skipped": use.skipped, "caught_up": use.caught_up}}

    def stop(self, rid: str) -> None:
        self._uses.pop(rid, None)
