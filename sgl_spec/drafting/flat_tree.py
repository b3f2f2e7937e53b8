"""The arrays a verifier reads: made from the pruned DraftTree, used by the target forward and by acceptance.

Ancestor masks over a tree of drafts are the tree attention of Medusa (Cai et al., arXiv 2401.10774).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sgl_spec.drafting import tree_kernel as kernel
from sgl_spec.drafting.tree import NO_NODE, Chain, DraftError, DraftTree


class FlatTree(NamedTuple):
    """A DraftTree as arrays of one fixed width w. Row i is node i; rows from `size` on are padding.

    Attributes:
        tokens: int64[w]; 0 in padding.
        parents: int64[w]; -1 for the root and padding.
        depths: int64[w]; 0 for the root and padding.
        mask: bool[w, w]; mask[i, j] when i attends j: j is i or an ancestor. Padding attends only itself.
        next_child: int64[w]; the likeliest child, -1 where there is none. Padding is linked from nowhere.
        next_sibling: int64[w]; the next likelier sibling of the same parent, -1 at the end.
        size: real nodes, the root included.
    """

    tokens: NDArray[np.int64]
    parents: NDArray[np.int64]
    depths: NDArray[np.int64]
    mask: NDArray[np.bool_]
    next_child: NDArray[np.int64]
    next_sibling: NDArray[np.int64]
    size: int

    @property
    def width(self) -> int:
        """Rows, padding included."""
        return len(self.tokens)


def flatten(tree: DraftTree, width: int) -> FlatTree:
    """Lay `tree` out in `width` rows, node numbers unchanged (parents before children).

    Trees from `DraftTree.pruned` are numbered in descending `a`, so there siblings' rows are in that order
    too; the sibling links are in that order for every tree.

    Raises:
        DraftError: width is less than the number of nodes.
    """
    size = len(tree)
    if width < size:
        raise DraftError(f"width is {width}; this tree has {size} nodes with its root and needs at least that")
    rows, mask = kernel.lay_out(tree.columns, tree.likeliest_first, width)
    tokens, parents, depths, next_child, next_sibling = rows
    return FlatTree(tokens, parents, depths, mask, next_child, next_sibling, size)


def unflatten(flat: FlatTree) -> DraftTree:
    """The tree a FlatTree was made from, for tests and for printing what a verifier was given.

    Arrays hold no probabilities and no origins: siblings get falling q that only keep their order, and the
    origin is "flat".

    Raises:
        DraftError: the arrays describe no tree of distinct siblings with parents before children.
    """
    tree = DraftTree(int(flat.tokens[0]))
    for node in range(1, flat.size):
        parent = int(flat.parents[node])
        tree.graft(Chain((int(flat.tokens[node]),), (_rank_q(flat, node),), "flat"), under=parent)
        if len(tree) != node + 1 or parent >= node:
            raise DraftError(f"node {node} with parent {parent} repeats a sibling's token or precedes its parent")
    return tree


def _rank_q(flat: FlatTree, node: int) -> float:
    rank = 0
    sibling = int(flat.next_child[flat.parents[node]])
    while sibling not in (node, NO_NODE):
        sibling = int(flat.next_sibling[sibling])
        rank += 1
    return 0.5 / (rank + 1) ** 2  # sums to less than 1 over any number of siblings
