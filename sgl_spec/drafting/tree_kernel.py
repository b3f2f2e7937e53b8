"""The loops over a round's tree, compiled: all drafters' chains to one tree, some of its nodes to a pruned one, and a
tree to the verifier's arrays. weigh_kernel says in between what the nodes are worth. Plain Python took most of a
round's time on the host.

tree_merge and flat_tree say what these loops do; nothing else calls them. The slow twins are DraftTree.graft with
DraftTree.pruned, and the networkx closure in tests/unit/test_flat_tree.py.

Plain loops and few numpy functions, and constants widened where a variable starts with one: that keeps the time to
compile all this, which the first server on a machine spends, near two seconds.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sgl_spec.compiled import kept_njit

ROOT = 0
NO_NODE = -1
WRONG = -1
# Columns while a tree is built.
_TOKEN, _PARENT, _DEPTH, _CHILD, _SIBLING = range(5)
# Origins are bits of an int64.
MOST_ORIGINS = 62

_entry = kept_njit(error_model="numpy", no_cfunc_wrapper=True)
_inner = njit(error_model="numpy", no_cfunc_wrapper=True, no_cpython_wrapper=True)
_int = np.int64


@_inner
def _child(nodes, node, token):  # type: ignore[no-untyped-def]
    child = nodes[node, _CHILD]
    while child >= 0 and nodes[child, _TOKEN] != token:
        child = nodes[child, _SIBLING]
    return child


@_inner
def _append(nodes, size, parent, token):  # type: ignore[no-untyped-def]
    nodes[size, _TOKEN], nodes[size, _PARENT], nodes[size, _DEPTH] = token, parent, nodes[parent, _DEPTH] + 1
    nodes[size, _CHILD], nodes[size, _SIBLING] = NO_NODE, nodes[parent, _CHILD]
    nodes[parent, _CHILD] = size


@_inner
def _graft(nodes, opinions, size, numbers, q, start, stop, origin, endings, vocab_size):  # type: ignore[no-untyped-def]
    """Add tokens `start` to `stop` below the root, up to one of `endings`; the new size, or 0 if a number is wrong."""
    node = _int(ROOT)
    for i in range(start, stop):
        token = numbers[i]
        for ending in endings:
            if token == ending:
                return size
        if not (0 <= token < vocab_size and 0.0 < q[i] <= 1.0):
            return _int(0)
        child = _child(nodes, node, token)
        if child < 0:
            child = size
            _append(nodes, size, node, token)
            size += 1
        opinions[child, origin] = max(opinions[child, origin], q[i])
        node = child
    return size


@_entry
def graft(nodes, opinions, size, root, numbers, q, origin, endings, vocab_size, max_depth):  # type: ignore[no-untyped-def]
    """Graft chains below the root of a tree that is being built; returns its size then.

    Args:
        nodes: int64[at least size + len(q), 5], its first `size` rows in use, or with size 0 at least 1 + len(q).
        opinions: float64[as many, origins]: q by origin, 0 for none; all 0 at first.
        size: nodes so far; 0 begins the tree.
        root: the root's token.
        numbers: int64[tokens + chains, or + 2 * chains]: the tokens of all chains one after the other, where each
            chain stops, and, if `origin` is below 0, each chain's origin.
        q: float64[tokens].
        origin: of all chains, a column of `opinions`.
        endings: int64[any]: chains are cut before such a token.
        vocab_size, max_depth: token ids from there on are wrong; chains are cut to so many tokens.

    Returns:
        The size, or WRONG when what is left of some chain is none.
    """
    if size == 0:
        nodes[ROOT, _TOKEN], nodes[ROOT, _PARENT], nodes[ROOT, _DEPTH] = root, NO_NODE, 0
        nodes[ROOT, _CHILD], nodes[ROOT, _SIBLING] = NO_NODE, NO_NODE
    size = max(size, _int(1))
    tokens = len(q)
    chains = (len(numbers) - tokens) // (1 if origin >= 0 else 2)
    start = _int(0)
    for chain in range(chains):
        stop = numbers[tokens + chain]
        by = origin if origin >= 0 else numbers[tokens + chains + chain]
        size = _graft(nodes, opinions, size, numbers, q, start, min(stop, start + max_depth), by, endings, vocab_size)
        if size == 0 or start == stop:
            return _int(WRONG)
        start = stop
    return size


@_entry
def only(nodes, opinions, weights, best, size):  # type: ignore[no-untyped-def]
    """The first `size` nodes of `best`, which holds the parent of each before it, renumbered in that order.

    Args:
        nodes, opinions: of `graft`. weights: float64[2 or more, all nodes]: q and a.

    Returns:
        int64[4, size]: tokens, parents, depths, origins as bits; float64[2, size]: q and a; float64[size, origins]:
        q by origin, 0 for none.
    """
    num_origins = opinions.shape[1]
    columns, chosen, kept = np.empty((4, size), np.int64), np.empty((2, size)), np.empty((size, num_origins))
    renamed = np.empty(len(nodes), np.int64)
    for new in range(size):
        node = best[new]
        renamed[node] = new
        parent = nodes[node, _PARENT]
        columns[0, new], columns[2, new] = nodes[node, _TOKEN], nodes[node, _DEPTH]
        columns[1, new] = renamed[parent] if parent >= 0 else NO_NODE
        chosen[0, new], chosen[1, new] = weights[0, node], weights[1, node]
        bits = _int(0)
        for origin in range(num_origins):
            kept[new, origin] = opinions[node, origin]
            if opinions[node, origin] > 0.0:
                bits |= _int(1) << origin
        columns[3, new] = bits
    return columns, chosen, kept


@_entry
def lay_out(columns, order, width):  # type: ignore[no-untyped-def]
    """A tree's arrays in `width` rows.

    Args:
        columns: int64[3 or more, size]: tokens, parents, depths.
        order: int64[size - 1]: all nodes but the root, the likelier siblings first.
        width: at least size.

    Returns:
        int64[5, width]: tokens, parents, depths, next_child, next_sibling; bool[width, width]: the mask.
    """
    size = columns.shape[1]
    rows, mask = np.zeros((5, width), np.int64), np.zeros((width, width), np.bool_)
    for node in range(width):
        rows[1, node] = rows[3, node] = rows[4, node] = NO_NODE
        mask[node, node] = True
    for node in range(size):
        parent = columns[1, node]
        rows[0, node], rows[1, node], rows[2, node] = columns[0, node], parent, columns[2, node]
        if parent >= 0:
            for ancestor in range(node):
                mask[node, ancestor] = mask[parent, ancestor]
    for i in range(size - 2, -1, -1):
        node = order[i]
        parent = columns[1, node]
        rows[4, node] = rows[3, parent]
        rows[3, parent] = node
    return rows, mask
