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

    def by_origin(self, also: Sequence[frozenset[str]]) -> dict[str, int]:
        """Nodes of each origin, those of `also` included, and of all (origin "all")."""
        self._count()
        sets = self._counted + Counter(also)
        nodes = {ALL: sets.total()}
        for origins, times in sets.items():
            for origin in origins:
                nodes[origin] = nodes.get(origin, 0) + times
        return nodes


class _Round(NamedTuple):
    """A verified round: the tree's parents and origins by node, the accepted path, how many tokens were committed."""

    parents: Sequence[int]
    origins: Sequence[frozenset[str]]
    path: tuple[int, ...]
    tokens: int

    def reached(self) -> list[frozenset[str]]:
        """The origins of all nodes that a committed token was compared with."""
        path = self.path[: self.tokens]
        return [origins for parent, origins in zip(self.parents, self.origins, strict=True) if parent in path]

    def accepted(self) -> list[frozenset[str]]:
        """The origins of the nodes whose tokens were committed."""
        return [self.origins[node] for node in self.path[1 : self.tokens + 1]]


_NO_ROUND = _Round((), (), (), 0)


class SpecCounter:
    """Counts one request's rounds."""

    def __init__(self) -> None:
        self._rounds = 0
        self._tokens = 0
        self._drafted, self._reached, self._accepted = _Nodes(), _Nodes(), _Nodes()
        self._abstained: dict[str, int] = {}
        self._last = _NO_ROUND  # counted when the next one comes: until then a stop may cut it

    def round_done(self, tree: DraftTree, acceptance: Acceptance) -> None:
        """A round has verified `tree` (perhaps only a root) and committed `acceptance`.

        Raises:
            DraftError: the acceptance names nodes that this tree does not have.
        """
        if max(acceptance.nodes) >= len(tree) or len(acceptance.tokens) != len(acceptance.nodes):
            raise DraftError(f"{acceptance} does not belong to a tree of {len(tree)} nodes")
        last = self._last
        self._drafted.add(last.origins[1:])
        self._reached.add(last.reached())
        self._accepted.add(last.accepted())
        self._last = _Round(tree.parents, tree.origins, acceptance.nodes, len(acceptance.tokens))
        self._rounds += 1
        self._tokens += len(acceptance.tokens)

    def abstained(self, reason: str) -> None:
        """A round goes without drafts; `round_done` still follows with a tree of only a root."""
        self._abstained[reason] = self._abstained.get(reason, 0) + 1

    def uncommit(self, n_tokens: int) -> None:
        """The last `n_tokens` of the last round were cut by a stop: neither they nor their drafts count.

        Raises:
            DraftError: the last round did not commit that many.
        """
        left = self._last.tokens
        if not 0 <= n_tokens <= left:
            raise DraftError(f"n_tokens is {n_tokens}; the last round committed {left}")
        if n_tokens:
            self._last = self._last._replace(tokens=left - n_tokens)
            self._tokens -= n_tokens

    def snapshot(self) -> SpecStats:
        """The counts now."""
        drafted = self._drafted.by_origin(self._last.origins[1:])
        reached = self._reached.by_origin(self._last.reached())
        accepted = self._accepted.by_origin(self._last.accepted())
        origins = (OriginCount(o, n, reached.get(o, 0), accepted.get(o, 0)) for o, n in drafted.items())
        abstained = (AbstainCount(reason, n) for reason, n in self._abstained.items())
        return SpecStats(self._rounds, self._tokens, tuple(origins), tuple(abstained))
