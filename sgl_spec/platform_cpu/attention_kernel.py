"""The one attention kernel of the CPU platform: decode, prefill, draft decode and tree verify are the same code.

Where it stands in a round: inside the target (or draft-head) forward; it knows nothing of how tokens were guessed.

Batch invariance, the property everything else rests on (DESIGN section 3): each query row has a list of visible
keys in *position order*: the cached prefix, then the row's own path through the tokens of this forward. All
arithmetic for a row runs over that list in that order, whatever else is in the batch:

1. scores: one dot product per key, by the same instructions for every key;
2. the maximum over the row (exact, so its order does not matter);
3. exp and its sum, in 16 lanes keyed by position, the lanes added in order;
4. the weighted sum of values, key after key.

So a token computed in a tree, in a prefill chunk or alone has equal bits. Two passes with the scores kept
(instead of flash attention's running rescale) make this free of block boundaries; the scores of one tile of rows
are a few hundred KB. Reasoning: Thinking Machines, "Defeating nondeterminism in LLM inference" (2025).

numba has no bfloat16: 16-bit keys and values arrive as uint16 and are widened here; all arithmetic is float32.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit, prange

from sgl_spec.compiled import kept_njit

LANES = 16
KEY_BLOCK = 64
UNROLL = 4
ROWS_PER_TILE = 8

_LOG2E = np.float32(1.4426950408889634)
_LN2_HI = np.float32(0.693145751953125)
_LN2_LO = np.float32(1.428606765330187e-06)
_EXP_FLOOR = np.float32(-87.0)
_SMALLEST_POWER = np.float32(2.0e-38)
_MINUS_INF = np.float32(-np.inf)

# `reassoc` lets the dot product run in vector lanes (the order then depends on the head dimension alone);
# `contract` allows fused multiply-add. Both functions that use them are never inlined: one body of machine code
# serves prefix and path, decode and prefill, so every key is treated alike.
_DOT_MATH = {"reassoc", "contract", "nsz"}


@kept_njit(fastmath=_DOT_MATH, inline="never")
def _score_block(query, keys, count, out):  # type: ignore[no-untyped-def]
    """out[k] = query . keys[k] for k < count, and up to UNROLL - 1 entries more, which the caller overwrites.

    Four keys at a time, always: a shorter loop for the rest could add in another order.
    """
    for k in range(0, count, UNROLL):
        s0 = s1 = s2 = s3 = np.float32(0.0)
        for d in range(query.shape[0]):
            q = query[d]
            s0 += q * keys[k, d]
            s1 += q * keys[k + 1, d]
            s2 += q * keys[k + 2, d]
            s3 += q * keys[k + 3, d]
        out[k] = s0
        out[k + 1] = s1
        out[k + 2] = s2
        out[k + 3] = s3


@kept_njit(fastmath={"contract"}, inline="never")
def _accumulate_block(weights, values, count, out):  # type: ignore[no-untyped-def]
    """out += weights[k] * values[k], one k after the other (the unrolled sum is the same chain of additions)."""
    whole = count // UNROLL * UNROLL
    for k in range(0, whole, UNROLL):
        w0, w1, w2, w3 = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
        for d in range(out.shape[0]):
            total = out[d] + w0 * values[k, d]
            total = total + w1 * values[k + 1, d]
            total = total + w2 * values[k + 2, d]
            out[d] = total + w3 * values[k + 3, d]
    for k in range(whole, count):
        weight = weights[k]
        for d in range(out.shape[0]):
            out[d] += weight * values[k, d]


@kept_njit(fastmath={"contract"}, inline="never")
def _softmax_in_place(scores, length, powers, lanes):  # type: ignore[no-untyped-def]
    """scores[:length] becomes exp(scores - max), zero up to a multiple of LANES; returns the sum.

    exp(x) = 2**n * e**r with |r| <= ln(2) / 2 and e**r by its Taylor polynomial of degree 7 (error < 1 ulp of
    float32); 2**n is made in the exponent bits, through the integer view of `powers`.
    """
    padded = (length + LANES - 1) // LANES * LANES
    scores[length:padded] = _MINUS_INF
    lanes[:] = _MINUS_INF
    for start in range(0, padded, LANES):
        for j in range(LANES):
            lanes[j] = max(lanes[j], scores[start + j])
    top = lanes[0]
    for j in range(1, LANES):
        top = max(top, lanes[j])
    bits = powers.view(np.uint32)
    lanes[:] = np.float32(0.0)
    for start in range(0, padded, LANES):
        for j in range(LANES):
            x = max(scores[start + j] - top, _EXP_FLOOR)
            n = np.floor(x * _LOG2E + np.float32(0.5))
            r = (x - n * _LN2_HI) - n * _LN2_LO
            poly = np.float32(1.0 / 5040.0)
            poly = poly * r + np.float32(1.0 / 720.0)
            poly = poly * r + np.float32(1.0 / 120.0)
            poly = poly * r + np.float32(1.0 / 24.0)
            poly = poly * r + np.float32(1.0 / 6.0)
            poly = poly * r + np.float32(0.5)
            poly = poly * r + np.float32(1.0)
            poly = poly * r + np.float32(1.0)
            bits[j] = np.uint32((np.int32(n) + np.int32(127)) << np.int32(23))
            scores[start + j] = poly
        for j in range(LANES):
            # Under the floor the true weight is below 2e-38; zero there also removes the padding.
            value = scores[start + j] * powers[j] if powers[j] > _SMALLEST_POWER else np.float32(0.0)
            scores[start + j] = value
            lanes[j] += value
    total = np.float32(0.0)
    for j in range(LANES):
        total += lanes[j]
    return total


@njit(inline="always")
def _widen(source, slot, head, out, out_bits):  # type: ignore[no-untyped-def]
    """One key or value vector as float32; a bfloat16 is the upper half of a float32."""
    if source.itemsize == 2:
        for d in range(out.shape[0]):
            out_bits[d] = np.uint32(source[slot, head, d]) << np.uint32(16)
    else:
        for d in range(out.shape[0]):
            out[d] = source[slot, head, d]


@njit(inline="always")
def _limit_scores(scores, length, first, scale, cap):  # type: ignore[no-untyped-def]
    """Scale, soft-cap (Gemma 2) and hide keys before `first` (sliding window)."""
    for k in range(length):
        scores[k] *= scale
    if cap > 0:
        for k in range(length):
            scores[k] = cap * np.float32(math.tanh(scores[k] / cap))
    for k in range(first):
        scores[k] = _MINUS_INF


class Item(NamedTuple):
    """One unit of parallel work: query heads [first_head, first_head + heads) of rows [begin, end), one KV head."""

    begin: int
    end: int
    first_head: int
    heads: int
    kv_head: int


@njit
def _fill(source, slots, head, block):  # type: ignore[no-untyped-def]
    bits = block.view(np.uint32)
    for k in range(len(slots)):
        _widen(source, slots[k], head, block[k], bits[k])


@njit
def _score_prefix(item, query, keys, slots, row_prefix, block, scores):  # type: ignore[no-untyped-def]
    """Scores of the keys that rows of one request share. `slots`: of every position any of the rows sees."""
    for start in range(0, len(slots), KEY_BLOCK):
        _fill(keys, slots[start : start + KEY_BLOCK], item.kv_head, block)
        for row in range(item.begin, item.end):
            count = min(KEY_BLOCK, row_prefix[row] - start)
            for h in range(item.heads if count > 0 else 0):
                line = (row - item.begin) * item.heads + h
                _score_block(query[row, item.first_head + h], block, count, scores[line, start:])


@njit
def _score_paths(item, query, keys, row_prefix, path_start, path_slots, block, scores):  # type: ignore[no-untyped-def]
    """Scores of each row's own path, at the positions after its prefix."""
    for row in range(item.begin, item.end):
        slots = path_slots[path_start[row] : path_start[row + 1]]
        for start in range(0, len(slots), KEY_BLOCK):
            some = slots[start : start + KEY_BLOCK]
            _fill(keys, some, item.kv_head, block)
            for h in range(item.heads):
                line = (row - item.begin) * item.heads + h
                at = row_prefix[row] + start
                _score_block(query[row, item.first_head + h], block, len(some), scores[line, at:])


@njit
def _weigh(item, row_prefix, path_start, scale, cap, window, scores, sums):  # type: ignore[no-untyped-def]
    """Scores become weights; `sums` the sum of each line's."""
    powers = np.empty(LANES, np.float32)
    lanes = np.empty(LANES, np.float32)
    for row in range(item.begin, item.end):
        length = row_prefix[row] + path_start[row + 1] - path_start[row]
        first = max(0, length - window) if window > 0 else 0
        for h in range(item.heads):
            line = (row - item.begin) * item.heads + h
            _limit_scores(scores[line], length, first, scale, cap)
            sums[line] = _softmax_in_place(scores[line], length, powers, lanes)


@njit
def _add_prefix(item, values, slots, row_prefix, weights, block, totals):  # type: ignore[no-untyped-def]
    """Weighted values of the shared keys."""
    for start in range(0, len(slots), KEY_BLOCK):
        _fill(values, slots[start : start + KEY_BLOCK], item.kv_head, block)
        for row in range(item.begin, item.end):
            count = min(KEY_BLOCK, row_prefix[row] - start)
            for h in range(item.heads if count > 0 else 0):
                line = (row - item.begin) * item.heads + h
                _accumulate_block(weights[line, start:], block, count, totals[line])


@njit
def _add_paths(item, values, row_prefix, path_start, path_slots, weights, block, totals):  # type: ignore[no-untyped-def]
    """Weighted values of each row's path."""
    for row in range(item.begin, item.end):
        slots = path_slots[path_start[row] : path_start[row + 1]]
        for start in range(0, len(slots), KEY_BLOCK):
            some = slots[start : start + KEY_BLOCK]
            _fill(values, some, item.kv_head, block)
            for h in range(item.heads):
                line = (row - item.begin) * item.heads + h
                at = row_prefix[row] + start
                _accumulate_block(weights[line, at:], block, len(some), totals[line])


@njit
def _attend_item(item, query, keys, values, table, rows, scale, cap, window, out):  # type: ignore[no-untyped-def]
    """Every row of one item, start to end. `rows` = (request, prefix, path_start, path_slots), as in `attend`."""
    row_request, row_prefix, path_start, path_slots = rows
    longest, shared = 0, 0
    for row in range(item.begin, item.end):
        shared = max(shared, row_prefix[row])
        longest = max(longest, row_prefix[row] + path_start[row + 1] - path_start[row])
    lines, value_dim = (item.end - item.begin) * item.heads, values.shape[2]
    slots = table[row_request[item.begin], :shared]
    scores = np.empty((lines, longest + LANES + UNROLL), np.float32)
    sums = np.empty(lines, np.float32)
    totals = np.zeros((lines, value_dim), np.float32)
    key_block = np.empty((KEY_BLOCK, keys.shape[2]), np.float32)
    value_block = np.empty((KEY_BLOCK, value_dim), np.float32)
    _score_prefix(item, query, keys, slots, row_prefix, key_block, scores)
    _score_paths(item, query, keys, row_prefix, path_start, path_slots, key_block, scores)
    _weigh(item, row_prefix, path_start, scale, cap, window, scores, sums)
    _add_prefix(item, values, slots, row_prefix, scores, value_block, totals)
    _add_paths(item, values, row_prefix, path_start, path_slots, scores, value_block, totals)
    for line in range(lines):
        row, head = item.begin + line // item.heads, item.first_head + line % item.heads
        for d in range(value_dim):
            out[row, head, d] = totals[line, d] / sums[line]


@kept_njit(parallel=True)
def attend(query, keys, values, table, rows, tile_start, head_split, scale, cap, window, out):  # type: ignore[no-untyped-def]
    """Attention of every query row over its prefix and its path.

    Args:
        query: float32[rows, heads, dim].
        keys, values: uint16 or float32 [slots, kv_heads, dim]; slot = one token's place in the KV pool.
        table: int32[requests, positions], the slot of each position of each request (SGLang's req_to_token).
        rows: a tuple of int64 arrays. request[rows], the row of `table` a query row reads its prefix from;
            prefix[rows], how many positions of it the row sees; path_start[rows + 1] and path_slots[...], the slots, in
            position order and ending with the row's own, of the tokens it sees after the prefix.
        tile_start: int64[tiles + 1], rows that share a request and are processed together.
        head_split: 1 = an item is one KV head with its query heads; otherwise one query head (more items for few
            rows). The bits are the same.
        scale, cap, window: softmax scale; soft cap or 0; sliding window in keys including the row's own, or 0.
        out: float32[rows, heads, value_dim].
    """
    heads, group = query.shape[1], query.shape[1] // keys.shape[1]
    per_item = group if head_split == 1 else 1
    items_per_tile = heads // per_item
    for number in prange((tile_start.shape[0] - 1) * items_per_tile):
        tile, first_head = number // items_per_tile, (number % items_per_tile) * per_item
        item = Item(tile_start[tile], tile_start[tile + 1], first_head, per_item, first_head // group)
        _attend_item(item, query, keys, values, table, rows, scale, cap, window, out)
