"""The draft tree of one round: made from the drafters' chains, pruned to a budget, flattened, verified.

This is the one place where trees are made, merged, pruned and printed. The score is the one of Sequoia (Chen
et al., arXiv 2402.12374) and OPT-Tree (Wang et al., arXiv 2406.17276): a node's path probability is the
product of its own and its ancestors' probabilities, the expected number of accepted drafts is the sum over
the nodes, and so the best nodes always form a connected tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sgl_spec.drafting.origin_sets import origin_sets
from sgl_spec.errors import SglSpecError

ROOT = 0
NO_NODE = -1


class DraftError(SglSpecError, ValueError):
    """A draft, or a question about drafts, that makes no sense: the message names the field and its value."""


class Chain(NamedTuple):
    """A run of guessed tokens.

    Attributes:
        tokens: token ids; tokens[0] follows the node the chain is grafted under (mostly the root, which is
            the last committed token).
        q: for each token, P(target emits it | the tokens before it were accepted), in (0, 1].
        origin: which drafter guessed it.
    """

    tokens: tuple[int, ...]
    q: tuple[float, ...]
    origin: str


class Node(NamedTuple):
    """One node of a tree, for reading. `a` is the product of `q` along the path from the root."""

    token: int
    parent: int
    depth: int
    q: float
    a: float
    origins: frozenset[str]


class Weights(NamedTuple):
    """Probabilities of all nodes by index; the root has 1.0 in both."""

    q: list[float]
    a: list[float]


class Merged(NamedTuple):
    """A pruned tree as arrays, numbered in descending `a`, as tree_merge makes it of all chains in one step.

    Attributes:
        columns: int64[4, nodes]: tokens, parents, depths, and the origins as bits: bit i stands for origins[i].
        weights: float64[2, nodes]: q and a.
        opinions: float64[nodes, origins]: q as each origin gave it, 0 for none.
        origins: names.
    """

    columns: NDArray[np.int64]
    weights: NDArray[np.float64]
    opinions: NDArray[np.float64]
    origins: tuple[str, ...]


class DraftTree:
    """Guessed continuations of one request. Node 0 is the root: the last committed token, which is no draft.

    Nodes are numbered in the order they were made, parents before children; the number is the node's name in
    FlatTree and Acceptance too. The lists `tokens`, `parents`, `depths` and `origins` are for reading only.

    Args:
        root_token: the last committed token.
    """

    def __init__(self, root_token: int) -> None:
        self.root_token = root_token
        self.tokens: list[int] = [root_token]
        self.parents: list[int] = [NO_NODE]
        self.depths: list[int] = [0]
        self.origins: list[frozenset[str]] = [frozenset()]
        self._evidence: list[float] = [1.0]  # P as the drafters see it, before siblings share at most 1
        self._opinions: dict[int, dict[str, float]] = {}  # by origin, of the nodes that have several
        self._children: list[dict[int, int]] | None = [{}]  # None: not looked up since pruning
        self._weights: Weights | None = None
        self._merged: Merged | None = None  # what the tree was made from, until it is grafted on

    @classmethod
    def from_merged(cls, root_token: int, merged: Merged) -> DraftTree:
        """The tree of arrays that tree_merge made, in the place of grafting and pruning."""
        tree = cls(root_token)
        tree.tokens, tree.parents, tree.depths, bits = merged.columns.tolist()
        tree.origins = list(map(origin_sets(merged.origins).__getitem__, bits))
        tree._children = None
        tree._merged = merged
        return tree

    def __len__(self) -> int:
        """Nodes, the root included."""
        return len(self.tokens)

    @property
    def num_drafts(self) -> int:
        """Nodes without the root."""
        return len(self.tokens) - 1

    @property
    def q(self) -> Sequence[float]:
        """P(target emits the node's token | its parent accepted) by node; siblings sum to at most 1."""
        return self._weigh().q

    @property
    def a(self) -> Sequence[float]:
        """P(the node is accepted) for every node: the product of q along its path."""
        return self._weigh().a

    @property
    def chances(self) -> NDArray[np.float64]:
        """float64[drafts]: `a` of a pruned tree's drafts, descending."""
        return np.array(self._weigh().a[1:]) if self._merged is None else self._merged.weights[1, 1:]

    @property
    def expected_tokens(self) -> float:
        """Tokens this round is expected to commit: the bonus token and the sum of `a` over the drafts."""
        return sum(self._weigh().a)

    @property
    def nodes(self) -> list[Node]:
        """All nodes, the root first."""
        columns = (self.tokens, self.parents, self.depths, self.q, self.a, self.origins)
        return [Node(*row) for row in zip(*columns, strict=True)]

    @property
    def columns(self) -> NDArray[np.int64]:
        """int64[3 or more, nodes]: tokens, parents, depths; for reading only."""
        if self._merged is not None:
            return self._merged.columns
        return np.array((self.tokens, self.parents, self.depths), np.int64)

    @property
    def likeliest_first(self) -> NDArray[np.int64]:
        """All nodes but the root, in descending `a`; of equal ones the older first."""
        if self._merged is not None:
            return np.arange(1, len(self.tokens))
        a = self._weigh().a
        return np.array(sorted(range(1, len(a)), key=a.__getitem__, reverse=True), np.int64)

    def children(self, node: int) -> list[int]:
        """The children of `node`, the likeliest first."""
        a = self._weigh().a
        return sorted(self._child_maps()[node].values(), key=lambda child: (-a[child], child))

    def opinions(self, node: int) -> dict[str, float]:
        """q of a node as each of its origins gave it, when it was grafted on this tree."""
        self._part_from_merged()
        several = self._opinions.get(node)
        return dict(several) if several is not None else dict.fromkeys(self.origins[node], self._evidence[node])

    def graft(self, chain: Chain, under: int = ROOT) -> int:
        """Add `chain` below the node `under`; returns the node of its last token.

        Where the same token is already a child, that node is used again: it keeps all origins, and their
        evidence is combined as that of independent witnesses, 1 - prod(1 - q). One origin repeating itself is
        one witness; its larger q counts. The result does not depend on the order of grafting.

        Raises:
            DraftError: no such node, an empty chain, tokens that are no token ids, or q outside (0, 1].
        """
        if not 0 <= under < len(self.tokens):
            raise DraftError(f"under is {under}; the tree has nodes 0 to {len(self.tokens) - 1}")
        check_chain(chain)
        self._part_from_merged()
        origin = origin_sets((chain.origin,))[1]
        children, evidence, origins = self._child_maps(), self._evidence, self.origins
        node = under
        for token, q in zip(chain.tokens, chain.q, strict=True):
            child = children[node].get(token)
            if child is None:
                child = children[node][token] = len(children)
                children.append({})
                self._append(node, token, q, origin)
            elif q != evidence[child] or origins[child] is not origin:
                self._merge(child, q, chain.origin)
            node = child
        self._weights = None
        return node

    def _part_from_merged(self) -> None:
        """The tree is about to change: take over what only its arrays hold so far."""
        if self._merged is None:
            return
        self._evidence = list(self._weigh().q)
        names = self._merged.origins
        for node, known in enumerate(self._merged.opinions.tolist()):
            if len(self.origins[node]) > 1:
                self._opinions[node] = {name: q for name, q in zip(names, known, strict=True) if q}
        self._merged = None

    def _append(self, parent: int, token: int, evidence: float, origins: frozenset[str]) -> None:
        self.tokens.append(token)
        self.parents.append(parent)
        self.depths.append(self.depths[parent] + 1)
        self.origins.append(origins)
        self._evidence.append(evidence)

    def _child_maps(self) -> list[dict[int, int]]:
        """For each node its children by token."""
        if self._children is None:
            self._children = [{} for _ in self.tokens]
            for node in range(1, len(self.tokens)):
                self._children[self.parents[node]][self.tokens[node]] = node
        return self._children

    def _merge(self, node: int, q: float, origin: str) -> None:
        known = self._opinions.get(node)
        if known is None:
            known = self._opinions[node] = {next(iter(self.origins[node])): self._evidence[node]}
            self.origins[node] |= {origin}
        else:
            self.origins[node] |= {origin}
        known[origin] = max(q, known.get(origin, 0.0))
        self._evidence[node] = _combined(known)

    def _weigh(self) -> Weights:
        if self._weights is None and self._merged is not None:
            self._weights = Weights(*self._merged.weights.tolist())
        elif self._weights is None:
            parents, q = self.parents, list(self._evidence)
            sums = [0.0] * len(parents)
            for node in range(1, len(parents)):
                sums[parents[node]] += q[node]
            if max(sums) > 1.0:
                q = [1.0] + [q[v] / max(1.0, sums[parents[v]]) for v in range(1, len(parents))]
            a = [1.0]
            for node in range(1, len(parents)):
                a.append(a[parents[node]] * q[node])
            self._weights = Weights(q, a)
        return self._weights

    def pruned(self, max_drafts: int, min_gain: float) -> DraftTree:
        """A new tree of the at most `max_drafts` nodes with the largest `a`, none below `min_gain`.

        `a` falls along every path, so these nodes are connected. They are numbered in descending `a`, and
        keep the probabilities they have here.
        """
        self._part_from_merged()
        q, a = self._weigh()
        # Equal `a` keeps the older node first, and a parent is older than its children: none is orphaned.
        best = sorted(range(1, len(a)), key=a.__getitem__, reverse=True)[: max(max_drafts, 0)]
        while best and a[best[-1]] < min_gain:
            best.pop()
        order = [ROOT, *best]
        return self._only(order, Weights([q[node] for node in order], [a[node] for node in order]))

    def first(self, count: int) -> DraftTree:
        """A new tree of the first `count` nodes, at least the root; of a pruned tree they are the best."""
        if self._merged is None:
            return self._only(list(range(count)), Weights(*(list(w[:count]) for w in self._weigh())))
        columns, weights, opinions, names = self._merged
        kept = DraftTree(self.root_token)
        kept.tokens, kept.parents, kept.depths = self.tokens[:count], self.parents[:count], self.depths[:count]
        kept.origins, kept._children = self.origins[:count], None
        kept._merged = Merged(np.ascontiguousarray(columns[:, :count]), weights[:, :count], opinions[:count], names)
        return kept

    def _only(self, order: list[int], weights: Weights) -> DraftTree:
        """The nodes of `order`, which holds the parent of each before it, renumbered in that order."""
        renamed = {old: new for new, old in enumerate(order)}
        kept = DraftTree(self.root_token)
        kept.tokens = [self.tokens[node] for node in order]
        kept.parents = [NO_NODE, *[renamed[self.parents[node]] for node in order[1:]]]
        kept.depths = [self.depths[node] for node in order]
        kept.origins = [self.origins[node] for node in order]
        kept._evidence = list(weights.q)
        several = ((v, known) for v, known in self._opinions.items() if v in renamed and len(self.origins[v]) > 1)
        kept._opinions = {renamed[node]: dict(known) for node, known in several}
        kept._weights = weights
        kept._children = None
        return kept

    def render(self) -> str:
        """The tree as text for people: a line a node with its token, q, a and origins."""
        lines = [f"root {self.root_token}  expected tokens {self.expected_tokens:.2f}"]
        lines.extend(self._render_below(ROOT, ""))
        return "\n".join(lines)

    def _render_below(self, top: int, indent: str) -> Iterator[str]:
        # An explicit stack: a hostile chain may be deeper than Python's recursion limit.
        pending = [(child, indent) for child in reversed(self.children(top))]
        q, a = self.q, self.a
        while pending:
            node, indent = pending.pop()
            last = node == self.children(self.parents[node])[-1]
            origins = "+".join(sorted(self.origins[node]))
            branch = "└─ " if last else "├─ "
            yield f"{indent}{branch}{self.tokens[node]}  q={q[node]:.3f} a={a[node]:.3f} {origins}"
            deeper = indent + ("   " if last else "│  ")
            pending.extend((child, deeper) for child in reversed(self.children(node)))


def _combined(opinions: dict[str, float]) -> float:
    """P that at least one of several independent witnesses is right, whatever order they came in."""
    known = sorted(opinions.values())
    if len(known) == 1:
        return known[0]  # exactly, whatever the rounding
    doubt = 1.0
    for q in known:
        doubt *= 1.0 - q
    return max(1.0 - doubt, known[-1])


def check_chain(chain: Chain) -> None:
    """Raises DraftError, which says what is wrong, for what is no chain."""
    tokens, q, origin = chain
    if type(origin) is not str:
        raise DraftError(f"chain has origin {origin!r}; an origin is a string")
    try:
        if not tokens or len(tokens) != len(q):
            raise DraftError(f"chain of {origin!r} has {len(tokens)} tokens and {len(q)} q; each needs one")
        # A sum's type shows the types of its terms; a NaN, which min and max may miss, makes it NaN.
        good_tokens = type(sum(tokens)) is int and min(tokens) >= 0
        total = sum(q)
        good_q = type(total) is float and min(q) > 0.0 and max(q) <= 1.0 and total > 0.0
    except TypeError as error:
        raise DraftError(f"chain of {origin!r} holds what is no sequence of numbers: {error}") from error
    if not good_tokens:
        raise DraftError(f"chain of {origin!r} has tokens {tokens[:8]!r}; token ids are ints from 0")
    if not good_q:
        raise DraftError(f"chain of {origin!r} has q {q[:8]!r}; a probability here is a float in (0, 1]")
