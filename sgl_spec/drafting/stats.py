"""What became of a request's drafts, counted at the end of every round: real nodes, never padding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sgl_spec.drafting.acceptance import Acceptance
from sgl_spec.drafting.tree import DraftError, DraftTree

ALL = "all"
# Nodes collected before they are counted: counting many at once is cheap.
_COLLECTED = 1_000


class OriginCount(NamedTuple):
    """Nodes of one origin, or of all together (origin "all").

    Attributes:
        drafted: in a verified tree.
        reached: of these, those whose parent was accepted: they were compared with the target's own token.
        accepted: of these, those that were it.
    """

    origin: str
    drafted: int
    reached: int
    accepted: int


class AbstainCount(NamedTuple):
    """Rounds of one request that went without drafts, for one reason."""

    reason: str
    rounds: int


@dataclass(frozen=True)
class SpecStats:
    """Counts of one request so far.

    Attributes:
        rounds: target forwards after the prefill, abstained ones included.
        tokens: tokens these rounds committed (the prefill's own token is not among them), so that
            tokens / rounds is tokens a step.
        origins: by origin; "all" comes first and counts each node once, however many origins it has.
        abstained: by reason.
    """

    rounds: int
    tokens: int
    origins: tuple[OriginCount, ...]
    abstained: tuple[AbstainCount, ...]

    def to_dict(self) -> dict[str, Any]:
        """The form in `meta_info["sgl_spec"]`: rounds, drafted, reached, accepted, abstained, tokens."""
        return {
            "rounds": self.rounds,
            "drafted": {count.origin: count.drafted for count in self.origins},
            "reached": {count.origin: count.reached for count in self.origins},
            "accepted": {count.origin: count.accepted for count in self.origins},
            "abstained": {count.reason: count.rounds for count in self.abstained},
            "tokens": self.tokens,
        }


class _Nodes:
    """Counts nodes by the set of their origins: collected every round, counted when many have come together."""

    def __init__(self) -> None:
        self._counted: Counter[frozenset[str]] = Counter()
        self._collected: list[frozenset[str]] = []

    def add(self, nodes: Sequence[frozenset[str]]) -> None:
        """One entry a node."""
        self._collected += nodes
        if len(self._collected) > _COLLECTED:
            self._count()

    def _count(self) -> None:
        self._counted.update(self._collected)
        self._collected.clear()

    def by_origin(self) -> dict[str, int]:
        """Nodes of each origin, and of all (origin "all")."""
        self._count()
        nodes = {ALL: self._counted.total()}
        for origins, times in self._counted.items():
            for origin in origins:
                nodes[origin] = nodes.get(origin, 0) + times
        return nodes


class SpecCounter:
    """Counts one request's rounds."""

    def __init__(self) -> None:
        self._rounds = 0
        self._tokens = 0
        self._drafted, self._reached, self._accepted = _Nodes(), _Nodes(), _Nodes()
        self._abstained: dict[str, int] = {}

    def round_done(self, tree: DraftTree, acceptance: Acceptance, kept: int | None = None) -> None:
        """A round has verified `tree` (perhaps only a root).

        Args:
            tree: what was verified.
            acceptance: the path that agreed, and its tokens.
            kept: how many of these tokens were committed, from the front: where the request ends inside them, what
                follows was cut, and neither it nor its drafts count. None: all.

        Raises:
            DraftError: the acceptance names nodes that this tree does not have, or `kept` is more than its tokens.
        """
        if max(acceptance.nodes) >= len(tree) or len(acceptance.tokens) != len(acceptance.nodes):
            raise DraftError(f"{acceptance} does not belong to a tree of {len(tree)} nodes")
        kept = len(acceptance.tokens) if kept is None else kept
        if not 0 <= kept <= len(acceptance.tokens):
            raise DraftError(f"kept is {kept}; the round accepted {len(acceptance.tokens)} tokens")
        origins, asked = tree.origins, set(acceptance.nodes[:kept])  # the nodes a committed token belongs to
        self._drafted.add(origins[1:])
        self._reached.add([o for parent, o in zip(tree.parents, origins, strict=True) if parent in asked])
        self._accepted.add([origins[node] for node in acceptance.nodes[1 : kept + 1]])
        self._rounds += 1
        self._tokens += kept

    def abstained(self, reason: str, times: int = 1) -> None:
        """A round goes without drafts; `round_done` still follows with a tree of only a root. times = -1: no, it found
        some after all."""
        times += self._abstained.pop(reason, 0)
        if times:
            self._abstained[reason] = times

    def snapshot(self) -> SpecStats:
        """The counts now."""
        drafted, reached, accepted = (n.by_origin() for n in (self._drafted, self._reached, self._accepted))
        origins = (OriginCount(o, n, reached.get(o, 0), accepted.get(o, 0)) for o, n in drafted.items())
        abstained = (AbstainCount(reason, n) for reason, n in self._abstained.items())
        return SpecStats(self._rounds, self._tokens, tuple(origins), tuple(abstained))
