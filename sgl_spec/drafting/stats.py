"""What became of a request's drafts, counted at the end of every round: real nodes, never padding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from sgl_spec.drafting.acceptance import Acceptance
from sgl_spec.drafting.tree import DraftError, DraftTree

ALL = "all"


class OriginCount(NamedTuple):
    """Nodes of one origin, or of all together (origin "all"), that were drafted and that were accepted."""

    origin: str
    drafted: int
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
        """The form in `meta_info["sgl_spec"]`: rounds, drafted, accepted, abstained, tokens."""
        return {
            "rounds": self.rounds,
            "drafted": {count.origin: count.drafted for count in self.origins},
            "accepted": {count.origin: count.accepted for count in self.origins},
            "abstained": {count.reason: count.rounds for count in self.abstained},
            "tokens": self.tokens,
        }


class SpecCounter:
    """Counts one request's rounds."""

    def __init__(self) -> None:
        self._rounds = 0
        self._tokens = 0
        self._drafted: dict[str, int] = {ALL: 0}
        self._accepted: dict[str, int] = {ALL: 0}
        self._abstained: dict[str, int] = {}
        # Origins of the last round's path, node by node, so that a stop can take the cut ones back.
        self._last_path: list[frozenset[str]] = []
        self._last_tokens = 0

    def round_done(self, tree: DraftTree, acceptance: Acceptance) -> None:
        """A round has verified `tree` (perhaps only a root) and committed `acceptance`.

        Raises:
            DraftError: the acceptance names nodes that this tree does not have.
        """
        if max(acceptance.nodes) >= len(tree) or len(acceptance.tokens) != len(acceptance.nodes):
            raise DraftError(f"{acceptance} does not belong to a tree of {len(tree)} nodes")
        origins = tree.origins
        self._rounds += 1
        self._tokens += len(acceptance.tokens)
        self._last_tokens = len(acceptance.tokens)
        self._last_path = [origins[node] for node in acceptance.nodes[1:]]
        _count(self._drafted, origins[1:], 1)
        _count(self._accepted, self._last_path, 1)

    def abstained(self, reason: str) -> None:
        """A round goes without drafts; `round_done` still follows with a tree of only a root."""
        self._abstained[reason] = self._abstained.get(reason, 0) + 1

    def uncommit(self, n_tokens: int) -> None:
        """The last `n_tokens` of the last round were cut by a stop: neither they nor their drafts count.

        Raises:
            DraftError: the last round did not commit that many.
        """
        if not 0 <= n_tokens <= self._last_tokens:
            raise DraftError(f"n_tokens is {n_tokens}; the last round committed {self._last_tokens}")
        kept = min(self._last_tokens - n_tokens, len(self._last_path))
        _count(self._accepted, self._last_path[kept:], -1)
        self._last_path = self._last_path[:kept]
        self._last_tokens -= n_tokens
        self._tokens -= n_tokens

    def snapshot(self) -> SpecStats:
        """The counts now."""
        origins = (OriginCount(o, n, self._accepted.get(o, 0)) for o, n in self._drafted.items())
        abstained = (AbstainCount(reason, n) for reason, n in self._abstained.items())
        return SpecStats(self._rounds, self._tokens, tuple(origins), tuple(abstained))


def _count(counts: dict[str, int], nodes: list[frozenset[str]], step: int) -> None:
    counts[ALL] += step * len(nodes)
    for origins in nodes:
        for origin in origins:
            counts[origin] = counts.get(origin, 0) + step
