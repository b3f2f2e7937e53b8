"""The slow twin of every op of the CPU platform: the same signatures, one Python loop per thing that is looped over.

Where it stands in a round: nowhere; the tests hold the fast ops against it (design, rule 5). Meanings are those of
SGLang's Triton kernels (`sglang/kernels/ops/`), not of the fast ops, from which nothing is imported here. Real
numbers are float64. The attention's one departure from the Triton kernels: in a tree, a sliding window counts
positions along a node's path, where they count rows; only so is a node's window what it is when decoded alone.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch

_WORD = 0xFFFFFFFF


class Limits(NamedTuple):
    """scale of the scores; soft cap, 0 = none; how many keys a query sees, its own included, 0 = all."""

    scale: float
    cap: float
    window: int


class Cache(NamedTuple):
    """keys, values: [slots, kv_heads, dim]."""

    keys: torch.Tensor
    values: torch.Tensor


# ---- attention ------------------------------------------------------------------------------------------------------


def _attend_head(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, limits: Limits) -> torch.Tensor:
    """Softmax attention (Vaswani et al., arXiv 1706.03762) of one query [dim] over keys, values [visible, dim]."""
    scores = [float(query.double() @ key.double()) * limits.scale for key in keys]
    if limits.cap > 0:
        scores = [limits.cap * math.tanh(score / limits.cap) for score in scores]
    top = max(scores)
    weights = [math.exp(score - top) for score in scores]
    total = torch.zeros(values.shape[1], dtype=torch.float64)
    for weight, value in zip(weights, values, strict=True):
        total += weight / sum(weights) * value.double()
    return total


def _attend(query: torch.Tensor, cache: Cache, visible: Sequence[int], limits: Limits, out: torch.Tensor) -> None:
    """One row: query [heads, dim] over the slots `visible` in position order, the last of them its own."""
    slots = list(visible[-limits.window :]) if limits.window > 0 else list(visible)
    group = query.shape[0] // cache.keys.shape[1]
    for head in range(query.shape[0]):
        keys, values = cache.keys[slots, head // group], cache.values[slots, head // group]
        out[head] = _attend_head(query[head], keys, values, limits).to(out.dtype)


def decode_attention_cpu(
    query: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor, k_scale: float, v_scale: float,
    output: torch.Tensor, key: torch.Tensor | None, value: torch.Tensor | None, loc: torch.Tensor | None,
    attn_logits: torch.Tensor, req_to_token: torch.Tensor, req_pool_indices: torch.Tensor, seq_lens: torch.Tensor,
    sm_scale: float, logit_cap: float, is_cross_attn: bool, sliding_window: int,
    encoder_lens: torch.Tensor | None, sinks: torch.Tensor | None,
) -> None:  # fmt: skip
    """Request by request: store the new key and value at `loc`, then attend to the first `seq_lens` positions."""
    for i in range(len(seq_lens)):
        if key is not None and value is not None and loc is not None:
            k_cache[int(loc[i])] = key[i].view(k_cache.shape[1:])
            v_cache[int(loc[i])] = value[i].view(v_cache.shape[1:])
    for i, (request, length) in enumerate(zip(req_pool_indices.tolist(), seq_lens.tolist(), strict=True)):
        visible = req_to_token[request, :length].tolist()
        _attend(query[i], Cache(k_cache, v_cache), visible, Limits(sm_scale, logit_cap, sliding_window), output[i])


def _visible_in_extend(slots: Sequence[int], prefix: int, row: int, mask: torch.Tensor | None) -> list[int]:
    """The slots that row `row` after the prefix sees: all before and itself, or those its tree mask names."""
    own = range(row + 1) if mask is None else [j for j in range(mask.shape[1]) if bool(mask[row, j])]
    return [*slots[:prefix], *(slots[prefix + j] for j in own)]


def extend_attention_cpu(
    q_extend: torch.Tensor, k_extend: torch.Tensor | None, v_extend: torch.Tensor | None, o_extend: torch.Tensor,
    k_buffer: torch.Tensor, v_buffer: torch.Tensor, k_scale: float, v_scale: float, req_to_token: torch.Tensor,
    req_pool_indices: torch.Tensor, seq_lens: torch.Tensor, extend_seq_lens: torch.Tensor,
    extend_start_loc: torch.Tensor, max_len_extend: int, sm_scale: float, logit_cap: float, is_cross_attn: bool,
    sliding_window: int, encoder_lens: torch.Tensor | None, sinks: torch.Tensor | None,
    tree_mask: torch.Tensor | None, is_causal: bool,
) -> None:  # fmt: skip
    """Row by row, each with the list of slots it sees. tree_mask: flat [requests, width, width] bool, or None."""
    limits, cache = Limits(sm_scale, logit_cap, sliding_window), Cache(k_buffer, v_buffer)
    for i, request in enumerate(req_pool_indices.tolist()):
        length, extend, start = int(seq_lens[i]), int(extend_seq_lens[i]), int(extend_start_loc[i])
        slots = req_to_token[request, :length].tolist()
        mask = None if tree_mask is None else tree_mask[i * extend**2 : (i + 1) * extend**2].view(extend, extend)
        for row in range(extend):
            visible = _visible_in_extend(slots, length - extend, row, mask)
            _attend(q_extend[start + row], cache, visible, limits, o_extend[start + row])


# ---- pointwise and linear -------------------------------------------------------------------------------------------


def _rotated_head(head: torch.Tensor, turns: torch.Tensor, is_neox: bool) -> torch.Tensor:
    """One head [head_size] by turns [rotary_dim], cosines then sines: pairs (i, i + half), or (2i, 2i + 1)."""
    half = len(turns) // 2
    out = head.double().clone()
    for i in range(half):
        a, b = (i, i + half) if is_neox else (2 * i, 2 * i + 1)
        x, y, cos, sin = float(head[a]), float(head[b]), float(turns[i]), float(turns[half + i])
        out[a], out[b] = x * cos - y * sin, y * cos + x * sin
    return out


def _rotated_rows(
    rows: torch.Tensor, positions: torch.Tensor, head_size: int, cache: torch.Tensor, is_neox: bool
) -> torch.Tensor:
    out = rows.clone()
    for row, position in enumerate(positions.flatten().tolist()):
        for start in range(0, rows.shape[1], head_size):
            head = rows[row, start : start + head_size]
            out[row, start : start + head_size] = _rotated_head(head, cache[position], is_neox).to(rows.dtype)
    return out


def rotary_embedding_cpu(
    positions: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    head_size: int,
    cos_sin_cache: torch.Tensor,
    is_neox: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rotary position embedding (Su et al., arXiv 2104.09864), pair by pair. query, key: [rows, heads * head_size]."""
    query = _rotated_rows(query, positions, head_size, cos_sin_cache, is_neox)
    return query, _rotated_rows(key, positions, head_size, cos_sin_cache, is_neox)


def _rotate_left(word: int, bits: int) -> int:
    return ((word << bits) | (word >> (32 - bits))) & _WORD


def murmur3(blocks: Iterable[int]) -> int:
    """MurmurHash3_x86_32 (A. Appleby) with seed 0 of a message of 32-bit blocks."""
    state, size = 0, 0
    for block in blocks:
        mixed = _rotate_left((block & _WORD) * 0xCC9E2D51 & _WORD, 15) * 0x1B873593 & _WORD
        state = (_rotate_left(state ^ mixed, 13) * 5 + 0xE6546B64) & _WORD
        size += 4
    state ^= size
    state = (state ^ state >> 16) * 0x85EBCA6B & _WORD
    state = (state ^ state >> 13) * 0xC2B2AE35 & _WORD
    return state ^ state >> 16


def murmur_hash32_cpu(seed: torch.Tensor, positions: torch.Tensor, col_indices: torch.Tensor) -> torch.Tensor:
    """The hash of (seed low, seed high, position, column) as one 16-byte message, uint32 [rows, columns]."""
    rows = [
        [murmur3((row_seed, row_seed >> 32, position, column)) for column in col_indices.tolist()]
        for row_seed, position in zip(seed.tolist(), positions.tolist(), strict=True)
    ]
    return torch.tensor(rows, dtype=torch.int64).view(len(seed), len(col_indices)).to(torch.uint32)


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """x @ weight.T + bias, one row at a time, in float64."""
    rows = [weight.double() @ row.double() for row in x.reshape(-1, x.shape[-1])]
    if bias is not None:
        rows = [row + bias.double() for row in rows]
    out = torch.stack(rows) if rows else x.new_zeros(0, weight.shape[0])
    return out.to(x.dtype).view(*x.shape[:-1], weight.shape[0])


# ---- memory ---------------------------------------------------------------------------------------------------------


def copy_all_layer_kv_cache_cpu(
    data_ptrs: torch.Tensor, strides: torch.Tensor, tgt_loc: torch.Tensor, src_loc: torch.Tensor
) -> None:
    """Buffer by buffer: read all source slots, then write all target slots."""
    for address, stride in zip(data_ptrs.tolist(), strides.tolist(), strict=True):
        read = [ctypes.string_at(address + source * stride, stride) for source in src_loc.tolist()]
        for target, content in zip(tgt_loc.tolist(), read, strict=True):
            ctypes.memmove(address + target * stride, content, stride)
