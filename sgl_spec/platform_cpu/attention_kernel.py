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

import numpy as np
from numba import njit, prange

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


@njit(fastmath=_DOT_MATH, inline="never", cache=True)
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


@njit(fastmath={"contract"}, inline="never", cache=True)
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


@njit(fastmath={"contract"}, inline="never", cache=True)
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


@njit(parallel=True, cache=True)
def attend(
    query,
    keys,
    values,
    table,
    row_request,
    row_prefix,
    path_start,
    path_slots,
    tile_start,
    head_split,
    scale,
    cap,
    window,
    out,
):  # type: ignore[no-untyped-def]
    """Attention of every query row over its prefix and its path.

    Args:
        query: float32[rows, heads, dim].
        keys, values: uint16 or float32 [slots, kv_heads, dim]; slot = one token's place in the KV pool.
        table: int32[requests, positions], the slot of each position of each request (SGLang's req_to_token).
        row_request: int64[rows], the row of `table` a query row reads its prefix from.
        row_prefix: int64[rows], how many positions of the prefix it sees.
        path_start: int64[rows + 1], path_slots: int64[...]: the slots, in position order and ending with the row's
            own, of the tokens it sees after the prefix.
        tile_start: int64[tiles + 1], rows that share a request and are processed together.
        head_split: 1 = a work item is one KV head with its query heads; otherwise one query head (more items for
            few rows). The bits are the same.
        scale, cap, window: softmax scale; soft cap or 0; sliding window in keys including the row's own, or 0.
        out: float32[rows, heads, value_dim].
    """
    heads, dim = query.shape[1], query.shape[2]
    kv_heads, value_dim = keys.shape[1], values.shape[2]
    group = heads // kv_heads
    per_item = group if head_split == 1 else 1
    items_per_tile = heads // per_item
    for item in prange((tile_start.shape[0] - 1) * items_per_tile):
        tile = item // items_per_tile
        first_head = (item % items_per_tile) * per_item
        kv_head = first_head // group
        begin, end = tile_start[tile], tile_start[tile + 1]
        longest, shared = 0, 0
        for row in range(begin, end):
            shared = max(shared, row_prefix[row])
            longest = max(longest, row_prefix[row] + path_start[row + 1] - path_start[row])
        lines = (end - begin) * per_item
        scores = np.empty((lines, longest + LANES + UNROLL), np.float32)
        totals = np.zeros((lines, value_dim), np.float32)
        block = np.empty((KEY_BLOCK, dim), np.float32)
        value_block = np.empty((KEY_BLOCK, value_dim), np.float32)
        block_bits = block.view(np.uint32)
        value_bits = value_block.view(np.uint32)
        powers = np.empty(LANES, np.float32)
        lanes = np.empty(LANES, np.float32)
        request = row_request[begin]

        for start in range(0, shared, KEY_BLOCK):
            for k in range(min(KEY_BLOCK, shared - start)):
                _widen(keys, table[request, start + k], kv_head, block[k], block_bits[k])
            for row in range(begin, end):
                count = min(KEY_BLOCK, row_prefix[row] - start)
                if count > 0:
                    for h in range(per_item):
                        line = (row - begin) * per_item + h
                        _score_block(query[row, first_head + h], block, count, scores[line, start:])
        for row in range(begin, end):
            prefix, length = row_prefix[row], path_start[row + 1] - path_start[row]
            for start in range(0, length, KEY_BLOCK):
                count = min(KEY_BLOCK, length - start)
                for k in range(count):
                    _widen(keys, path_slots[path_start[row] + start + k], kv_head, block[k], block_bits[k])
                for h in range(per_item):
                    line = (row - begin) * per_item + h
                    _score_block(query[row, first_head + h], block, count, scores[line, prefix + start :])
            first = max(0, prefix + length - window) if window > 0 else 0
            for h in range(per_item):
                line = (row - begin) * per_item + h
                _limit_scores(scores[line], prefix + length, first, scale, cap)
                total = _softmax_in_place(scores[line], prefix + length, powers, lanes)
                out[row, first_head + h, 0] = total

        for start in range(0, shared, KEY_BLOCK):
            for k in range(min(KEY_BLOCK, shared - start)):
                _widen(values, table[request, start + k], kv_head, value_block[k], value_bits[k])
            for row in range(begin, end):
                count = min(KEY_BLOCK, row_prefix[row] - start)
                if count > 0:
                    for h in range(per_item):
                        line = (row - begin) * per_item + h
                        _accumulate_block(scores[line, start:], value_block, count, totals[line])
        for row in range(begin, end):
            prefix, length = row_prefix[row], path_start[row + 1] - path_start[row]
            for start in range(0, length, KEY_BLOCK):
                count = min(KEY_BLOCK, length - start)
                for k in range(count):
                    _widen(values, path_slots[path_start[row] + start + k], kv_head, value_block[k], value_bits[k])
                for h in range(per_item):
                    line = (row - begin) * per_item + h
                    _accumulate_block(scores[line, prefix + start :], value_block, count, totals[line])
            for h in range(per_item):
                line = (row - begin) * per_item + h
                total = out[row, first_head + h, 0]
                for d in range(value_dim):
                    out[row, first_head + h, d] = totals[line, d] / total
