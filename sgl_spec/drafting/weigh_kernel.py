"""The loops that give the nodes of a round's tree their probabilities, compiled: with priors alone, with calibrated
tables, and what the tables learn from what was committed. Planner and tree_merge call them between `tree_kernel.graft`
and `tree_kernel.only`.

tree.py and calibration/tables.py say what these loops do. The slow twins are DraftTree.pruned and
tests/unit/calibration_twin.py. Everything is in this one file because numba's cache on disk notices when a function's
own file has changed, but not when one it calls from another file has. Numbers that may be tuned arrive as arguments.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sgl_spec.compiled import kept_njit

ROOT = 0
# Columns of a tree that is being built, as tree_kernel has them.
_TOKEN, _PARENT, _DEPTH, _CHILD, _SIBLING = range(5)
# Rows of what `weigh` and `calibrate` return: q and a, and what q was calibrated from.
Q, A, PRIOR = range(3)
# Columns of a node's key: its origins as bits, its bucket of prior q (NONE: not calibrated), its situation.
BITS, BUCKET, SITUATION = range(3)
NONE = -1
# Columns of cells: trials and hits, and in the coarse ones the sum of the priors.
TRIALS, HITS, PRIORS = range(3)
# Columns of reliability: nodes, sum of q, hits.
_SUM_Q = 1

_entry = kept_njit(error_model="numpy", no_cfunc_wrapper=True)
_inner = njit(error_model="numpy", no_cfunc_wrapper=True, no_cpython_wrapper=True)
_int = np.int64


@_inner
def _combined(opinions, node, known):  # type: ignore[no-untyped-def]
    """As tree._combined, of the opinions on `node` that are not 0; `known` is room to sort them in."""
    size = 0
    for origin in range(len(known)):
        q = opinions[node, origin]
        if q > 0.0:
            place = size
            while place > 0 and known[place - 1] > q:
                known[place] = known[place - 1]
                place -= 1
            known[place] = q
            size += 1
    if size == 1:
        return known[0]
    doubt = 1.0
    for i in range(size):
        doubt *= 1.0 - known[i]
    return max(1.0 - doubt, known[size - 1])


@_inner
def _settle(nodes, size, weights, sums):  # type: ignore[no-untyped-def]
    """Siblings share at most 1; then a, along the paths."""
    for node in range(1, size):
        parent = nodes[node, _PARENT]
        weights[Q, node] /= max(1.0, sums[parent])
        weights[A, node] = weights[A, parent] * weights[Q, node]


@_inner
def _best(weights, max_drafts, min_gain):  # type: ignore[no-untyped-def]
    """The root and the `max_drafts` nodes of the largest a, in descending a, of equal ones the older first."""
    total = weights.shape[1]
    best = np.empty(total, np.int64)
    best[0] = ROOT
    size, most = _int(1), min(max_drafts, total - 1) + 1
    for node in range(1, total):
        a = weights[A, node]
        if a < min_gain or (size == most and a <= weights[A, best[size - 1]]):
            continue
        place = size if size < most else size - 1
        size = place + 1
        while place > 1 and weights[A, best[place - 1]] < a:
            best[place] = best[place - 1]
            place -= 1
        best[place] = node
    return best[:size]


@_entry
def weigh(nodes, opinions, size, max_drafts, min_gain):  # type: ignore[no-untyped-def]
    """Weigh the `size` nodes of a tree by what their drafters say, as DraftTree does.

    Returns:
        float64[2, size]: q and a; int64[kept]: the root and the best `max_drafts` nodes with a of `min_gain` or more,
        in descending a.
    """
    weights, sums = np.empty((2, size)), np.zeros(size)
    known = np.empty(opinions.shape[1])
    weights[Q, ROOT] = weights[A, ROOT] = 1.0
    for node in range(1, size):
        weights[Q, node] = _combined(opinions, node, known)
        sums[nodes[node, _PARENT]] += weights[Q, node]
    _settle(nodes, size, weights, sums)
    return weights, _best(weights, max_drafts, min_gain)


@_inner
def _prior(opinions, node, ids, heard, certain, damping, key):  # type: ignore[no-untyped-def]
    """What the opinions come to: 2 where one is certain. Enters the origins into `key`."""
    bits, largest, doubt = heard, 0.0, 1.0
    for column in range(len(ids)):
        q = opinions[node, column]
        if q > 0.0:
            bits |= _int(1) << ids[column]
            largest = max(largest, q)
            doubt *= 1.0 - q
            if q >= 1.0 and certain >> ids[column] & 1:
                largest = 2.0
    key[BITS] = bits
    return largest if largest > 1.0 else largest + damping * ((1.0 - doubt) - largest)


@_inner
def _set_of(sets, bits):  # type: ignore[no-untyped-def]
    """The number of a set of origins, 0 if it has none: sets[0] says how many have, sets[n] is set n."""
    for number in range(1, sets[0] + 1):
        if sets[number] == bits:
            return _int(number)
    return _int(0)


@_inner
def _bucket(edges, q):  # type: ignore[no-untyped-def]
    bucket = _int(0)
    while bucket < len(edges) and q >= edges[bucket]:
        bucket += 1
    return bucket


@_inner
def _depth_bucket(depth_edges, depth):  # type: ignore[no-untyped-def]
    bucket = _int(0)
    while bucket < len(depth_edges) and depth > depth_edges[bucket]:
        bucket += 1
    return bucket


@_inner
def _shrunk(cells, row, trust, before):  # type: ignore[no-untyped-def]
    """The share of hits in a cell, if `before` counts as what was seen in `trust` trials."""
    return (cells[row, HITS] + trust * before) / (cells[row, TRIALS] + trust)


@_inner
def _calibrated(prior, row, situation, situations, coarse, fine, slot, trust):  # type: ignore[no-untyped-def]
    """As tables.calibrated."""
    said = prior
    if coarse[row, TRIALS] > 0.0:
        said = coarse[row, PRIORS] / coarse[row, TRIALS]
    seen = _shrunk(coarse, row, trust[0], said)
    seen = _shrunk(fine, row * situations + situation, trust[1], seen)
    seen = _shrunk(slot, row, trust[2], seen)
    if prior <= said:
        return prior * seen / said
    return 1.0 - (1.0 - prior) * (1.0 - seen) / (1.0 - said)


@_entry
def calibrate(  # type: ignore[no-untyped-def]
    nodes, opinions, size, ids, heard, certain, temperature, sets, coarse, fine, slot, edges, depth_edges, numbers,
    max_drafts, min_gain
):  # fmt: skip
    """Weigh the `size` nodes of a tree by the tables.

    Args:
        nodes, opinions, size: as tree_kernel.graft leaves them.
        ids: int64[columns of opinions]: the bit of each column's origin.
        heard: bits that every node's set has besides.
        certain: bits of the origins whose q of 1 is no guess.
        temperature: bucket of the request's temperature.
        sets: int64[any]: see `_set_of`.
        coarse, fine, slot: cells by set and bucket; by set, bucket and situation (depth, temperature); by set and
            bucket in the request's slot.
        edges: float64[buckets - 1]: where the buckets of prior q begin. depth_edges: int64[any]: where those of depth
            end.
        numbers: float64[7]: least and most prior, damping, trust of coarse, fine and slot, number of temperatures.
        max_drafts, min_gain: as in `weigh`.

    Returns:
        float64[3, size]: q, a and prior; int64[size, 3]: keys; int64[kept]: as `weigh`.
    """
    least, most, damping, trust, temperatures = numbers[0], numbers[1], numbers[2], numbers[3:6], _int(numbers[6])
    buckets, situations = len(edges) + 1, (len(depth_edges) + 1) * temperatures
    weights, sums, keys = np.empty((3, size)), np.zeros(size), np.empty((size, 3), np.int64)
    for row in range(3):
        weights[row, ROOT] = 1.0
        keys[ROOT, row] = NONE
    for node in range(1, size):
        key = keys[node]
        prior = _prior(opinions, node, ids, _int(heard), certain, damping, key)
        key[SITUATION] = _depth_bucket(depth_edges, nodes[node, _DEPTH]) * temperatures + temperature
        key[BUCKET] = NONE
        q = 1.0
        if prior <= 1.0:
            prior = max(least, min(most, prior))
            key[BUCKET] = _bucket(edges, prior)
            row = _set_of(sets, key[BITS]) * buckets + key[BUCKET]
            q = _calibrated(prior, row, key[SITUATION], situations, coarse, fine, slot, trust)
        weights[PRIOR, node], weights[Q, node] = min(prior, 1.0), q
        sums[nodes[node, _PARENT]] += q
    _settle(nodes, size, weights, sums)
    return weights, keys, _best(weights, max_drafts, min_gain)


@_inner
def _count(cells, row, kept, hit):  # type: ignore[no-untyped-def]
    cells[row, TRIALS] = cells[row, TRIALS] * kept + 1.0
    cells[row, HITS] = cells[row, HITS] * kept + hit


@_inner
def _numbered(sets, bits):  # type: ignore[no-untyped-def]
    """As `_set_of`, but a new set gets a number while there is one left."""
    number = _set_of(sets, bits)
    if number == 0 and sets[0] < len(sets) - 1:
        sets[0] += 1
        number = _int(sets[0])
        sets[number] = bits
    return number


@_inner
def _rely(reliability, bits, depth, q, hit):  # type: ignore[no-untyped-def]
    """Count a prediction for each of its origins."""
    bins = reliability.shape[2]
    at = min(_int(q * bins), bins - 1)
    for origin in range(reliability.shape[0]):
        if bits >> origin & 1:
            cell = reliability[origin, depth, at]
            cell[TRIALS] += 1.0
            cell[_SUM_Q] += q
            cell[2] += hit


@_entry
def learn(  # type: ignore[no-untyped-def]
    nodes, weights, keys, drafted, tokens, sets, coarse, fine, slot, buckets, situations, temperatures, kept,
    reliability
):  # fmt: skip
    """What was committed after the root decides on every node whose parent is on that path: it was reached.

    Args:
        nodes, weights, keys: of `calibrate`; the tree may hold far more than was verified.
        drafted: bool[size]: nodes that were verified; their q count for `reliability`.
        tokens: int64[any]: what was committed, in order.
        sets, coarse, fine, slot: changed in place. buckets, situations, temperatures: how many there are.
        kept: float64[3]: what is left of a coarse, fine and slot cell's counts at the next trial.
        reliability: float64[origins, depths, bins, 3]: changed in place.
    """
    node = _int(ROOT)
    for token in tokens:
        child, following = nodes[node, _CHILD], _int(NONE)
        while child >= 0:
            hit = 1.0 if nodes[child, _TOKEN] == token else 0.0
            if hit > 0.0:
                following = child
            bits, bucket, situation = keys[child, BITS], keys[child, BUCKET], keys[child, SITUATION]
            if drafted[child]:
                _rely(reliability, bits, situation // temperatures, weights[Q, child], hit)
            number = _numbered(sets, bits) if bucket >= 0 else _int(0)
            if number > 0:
                row = number * buckets + bucket
                _count(coarse, row, kept[0], hit)
                coarse[row, PRIORS] = coarse[row, PRIORS] * kept[0] + weights[PRIOR, child]
                _count(fine, row * situations + situation, kept[1], hit)
                _count(slot, row, kept[2], hit)
            child = nodes[child, _SIBLING]
        if following < 0:
            return
        node = following
