"""A draft head's candidates for one request, and the best of them as chains.

Where it stands in a round: between the head's steps and the planner. Keeping the nodes with the largest product of
probabilities is the reranking of EAGLE-2 (Li et al., arXiv 2406.16858, section 4.2).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sgl_spec.drafting.chain_block import ChainBlock

NO_PARENT = -1


class HeadCandidates(NamedTuple):
    """A tree of guesses below the last committed token, parents before children.

    Attributes:
        tokens: int64[n].
        parents: int64[n]; an earlier node, or NO_PARENT right below the last committed token.
        scores: float64[n]; the product of the head's probabilities from there to the node, from 0 to 1.
    """

    tokens: NDArray[np.int64]
    parents: NDArray[np.int64]
    scores: NDArray[np.float64]


def likeliest_chains(candidates: HeadCandidates, count: int, origin: str) -> ChainBlock:
    """The `count` nodes with the largest scores, as one chain from the top to each leaf.

    Nodes of score 0 are left out. Scores fall along every path, so the nodes are connected.
    """
    tokens, parents, scores = candidates
    # Of equal scores the earlier node first: a parent then never comes after its child.
    kept = np.argsort(-scores, kind="stable")[:count]
    kept = kept[scores[kept] > 0.0]
    leaves = np.setdiff1d(kept, parents[kept])
    paths = [_path(int(leaf), parents) for leaf in leaves]
    nodes = np.array([node for path in paths for node in path], np.int64)
    stops = np.cumsum([len(path) for path in paths], dtype=np.int64)
    above = np.where(parents[nodes] == NO_PARENT, 1.0, scores[parents[nodes]])
    q = np.minimum(scores[nodes] / above, 1.0)
    return ChainBlock(np.concatenate((tokens[nodes], stops)), q, origin)


def _path(node: int, parents: NDArray[np.int64]) -> list[int]:
    """From the top to `node`."""
    path = []
    while node != NO_PARENT:
        path.append(node)
        node = int(parents[node])
    return path[::-1]
