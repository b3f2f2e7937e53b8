"""What may be verified for one request in a round: asks the drafters, joins their chains, and lets the refiner (a
grammar) cut and add. Called by the planner, which chooses from it.

Whatever goes wrong here is some drafter's fault: that of the last in `asked`, which the caller gives as an empty list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sgl_spec.drafting.chain_block import ChainBlock
from sgl_spec.drafting.drafter import Drafter, Refiner
from sgl_spec.drafting.hint import Hint
from sgl_spec.drafting.tree import NO_NODE, ROOT, Chain, DraftError, DraftTree
from sgl_spec.drafting.tree_merge import Candidates, Limits, ProposalError, Weighed, gather

# A drafter is asked for a few dozen nodes; one that answers with more chains than this is broken.
MAX_CHAINS = 1024
# No room for the others that a refiner looks at: it sees the likeliest so many nodes.
_REFINED_NODES = 256

Weigh = Callable[[Candidates, int, float], Weighed]


class Sources(NamedTuple):
    """Who is asked. refiner: None for none."""

    drafters: tuple[Drafter, ...]
    refiner: Refiner | None


class Wanted(NamedTuple):
    """What is asked for.

    Attributes:
        rid: the request.
        root_token: its last committed token.
        max_drafts: of each drafter about so many are wanted.
        max_depth: no deeper node could be used.
        limits: what may be drafted for the request at all.
        hint: says which origins may be drafted.
    """

    rid: str
    root_token: int
    max_drafts: int
    max_depth: int
    limits: Limits
    hint: Hint


def ask(sources: Sources, wanted: Wanted, weigh: Weigh, asked: list[object]) -> Candidates:
    """All candidates.

    Args:
        weigh: candidates, most nodes, least a: the best of them.
        asked: is told who is at fault, should this raise.

    Raises:
        ProposalError: a chain of a drafter is none.
        Exception: whatever a drafter raises.
    """
    refiner = _refining(sources, wanted, asked)
    proposals = _proposals(sources.drafters, wanted, asked)
    try:
        found = gather(proposals, wanted.root_token, wanted.max_depth, wanted.limits)
    except ProposalError as error:
        asked.append(sources.drafters[error.number])
        raise
    if refiner is None:
        return found
    asked.append(refiner)
    return _refined(refiner, wanted, weigh(found, _REFINED_NODES, 0.0))


def join(
    sources: Sources, wanted: Wanted, found: Candidates, chains: Sequence[Chain], asked: list[object]
) -> Candidates:
    """`found`, of this round, with `chains` of one origin that came later (a draft head's), cut by the refiner too.

    Raises:
        As `ask`.
    """
    refiner = _refining(sources, wanted, asked)
    asked.append(chains)
    allowed: Sequence[Chain] = [chain for chain in chains if wanted.hint.allows(_origin(chain))]
    joined = gather([allowed], wanted.root_token, wanted.max_depth, wanted.limits, onto=found)
    if refiner is None:
        return joined
    asked.append(refiner)
    possible = [cut for cut in (_cut(refiner, wanted, chain) for chain in allowed) if cut.tokens]
    return gather([possible], wanted.root_token, wanted.max_depth, wanted.limits, onto=found)


def _cut(refiner: Refiner, wanted: Wanted, chain: Chain) -> Chain:
    """What the refiner allows of a valid chain, which may be nothing."""
    endings = set(wanted.limits.endings.tolist())
    usable = tuple(takewhile(lambda token: token not in endings, chain.tokens[: wanted.max_depth]))
    length = refiner.cut(wanted.rid, usable) if usable else 0
    return Chain(chain.tokens[:length], chain.q[:length], chain.origin)


def _refining(sources: Sources, wanted: Wanted, asked: list[object]) -> Refiner | None:
    """The refiner, if there is one and it has something to say in this round."""
    if sources.refiner is None:
        return None
    asked.append(sources.refiner)
    return sources.refiner if sources.refiner.begin_round(wanted.rid) else None


def _proposals(drafters: Sequence[Drafter], wanted: Wanted, asked: list[object]) -> list[Sequence[Chain]]:
    """What each drafter proposes, of the origins that the request allows."""
    hint = wanted.hint
    proposals: list[Sequence[Chain]] = []
    for drafter in drafters:
        asked.append(drafter)
        proposed = drafter.propose(wanted.rid, wanted.max_drafts)
        if type(proposed) not in (list, ChainBlock) or len(proposed) > MAX_CHAINS:
            raise DraftError(f"proposed {type(proposed).__name__}; it must be a list of at most {MAX_CHAINS}")
        if hint.origins is not None:
            proposed = [chain for chain in proposed if hint.allows(_origin(chain))]
        proposals.append(proposed)
    return proposals


def _origin(chain: Chain) -> str:
    if not isinstance(chain, Chain):
        raise DraftError(f"proposed a {type(chain).__name__}; it must be a Chain")
    return chain.origin


def _refined(refiner: Refiner, wanted: Wanted, found: Weighed) -> Candidates:
    """The drafters' candidates without what the refiner forbids, and with what it adds."""
    possible = _possible(refiner, wanted.rid, found.candidates)
    kept = found._replace(best=found.best[possible[found.best]])
    tree = kept.tree(len(kept.best))
    if wanted.hint.allows(refiner.origin):
        refiner.extend(wanted.rid, tree, wanted.max_depth)
    return _as_candidates(kept, tree, wanted.max_depth)


def _possible(refiner: Refiner, rid: str, candidates: Candidates) -> NDArray[np.bool_]:
    """bool[nodes]: what the refiner allows. It is asked once for each leaf, neighbours one after the other."""
    tokens, parents, _, _, _ = candidates.nodes[: candidates.size].T.tolist()
    below: list[list[int]] = [[] for _ in tokens]
    for node in range(1, len(tokens)):
        below[parents[node]].append(node)
    possible = np.zeros(len(tokens), np.bool_)
    possible[ROOT] = True
    pending = [[child] for child in reversed(below[ROOT])]
    while pending:
        path = pending.pop()
        children = below[path[-1]]
        if children:
            pending.extend([*path, child] for child in reversed(children))
        else:
            possible[path[: refiner.cut(rid, tuple([tokens[node] for node in path]))]] = True
    return possible


def _as_candidates(before: Weighed, tree: DraftTree, max_depth: int) -> Candidates:
    """`tree`, which was made of `before` and grafted on, with the opinions that each origin really gave; without what
    was grafted deeper than could be used."""
    rows = [node for node, depth in enumerate(tree.depths) if depth <= max_depth]
    place = {node: row for row, node in enumerate(rows)}
    old, size = len(before.best), len(rows)
    names = list(before.candidates.origins)
    names += sorted({origin for node in rows for origin in tree.origins[node]} - set(names))
    nodes, opinions = np.empty((size, 5), np.int64), np.zeros((size, len(names)))
    parents = [NO_NODE, *[place[tree.parents[node]] for node in rows[1:]]]
    child, sibling = [NO_NODE] * size, [NO_NODE] * size
    for row in range(1, size):
        sibling[row], child[parents[row]] = child[parents[row]], row
    columns = ([tree.tokens[node] for node in rows], parents, [tree.depths[node] for node in rows], child, sibling)
    nodes[:] = np.array(columns).T
    opinions[:old, : len(before.candidates.origins)] = before.candidates.opinions[before.best]
    for row, node in enumerate(rows):
        # Old nodes were grafted on with their weighed q; only what was added to them is taken from the tree.
        for origin, q in tree.opinions(node).items() if row >= old or len(tree.origins[node]) > 1 else ():
            column = names.index(origin)
            if opinions[row, column] == 0.0:
                opinions[row, column] = q
    return Candidates(nodes, opinions, size, tuple(names), before.candidates.joined)
