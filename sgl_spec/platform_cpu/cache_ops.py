"""Slots of the KV pool: reading a request's slots, assigning new ones, moving what was accepted.

Where it stands in a round: `assign_*` before the forward, `fill_*` and `copy_all_layer_kv_cache_cpu` after
acceptance. Shapes follow SGLang's Triton kernels in `kernels/ops/speculative/cache_locs.py`, `eagle.py` and
`kernels/ops/kvcache/cache_move.py`, which these stand in for.
"""

from __future__ import annotations

import ctypes

import numpy as np
import numpy.typing as npt
import torch


def _spans(start: torch.Tensor, end: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """For spans [start_i, end_i): the index i of every covered position, and the position."""
    counts = (end - start).to(torch.int64)
    owner = torch.repeat_interleave(torch.arange(len(counts)), counts)
    first = torch.cumsum(counts, 0) - counts
    position = torch.arange(len(owner)) - first[owner] + start.to(torch.int64)[owner]
    return owner, position


def assign_extend_cache_locs_cpu(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start: torch.Tensor,
    end: torch.Tensor,
    out_cache_loc: torch.Tensor,
    pool_len: int,
) -> None:
    """out_cache_loc = the slots of positions [start_i, end_i) of each request, packed. pool_len is not needed."""
    owner, position = _spans(start, end)
    slots = req_to_token[req_pool_indices.to(torch.int64)[owner], position]
    out_cache_loc[: len(slots)] = slots.to(out_cache_loc.dtype)


def assign_req_to_token_pool_cpu(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start: torch.Tensor,
    end: torch.Tensor,
    out_cache_loc: torch.Tensor,
    pool_len: int,
) -> None:
    """The inverse: req_to_token at positions [start_i, end_i) of each request = the packed slots."""
    owner, position = _spans(start, end)
    slots = out_cache_loc[: len(owner)].to(req_to_token.dtype)
    req_to_token[req_pool_indices.to(torch.int64)[owner], position] = slots


def assign_draft_cache_locs_contiguous_cpu(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    out_cache_loc: torch.Tensor,
    pool_len: int,
    topk: int,
    num_steps: int,
) -> None:
    """out_cache_loc = the topk * num_steps slots after each request's length, for the draft head's steps."""
    start = seq_lens.to(torch.int64)
    assign_extend_cache_locs_cpu(req_pool_indices, req_to_token, start, start + topk * num_steps, out_cache_loc, 0)


def build_draft_decode_metadata_cpu(
    req_to_token: torch.Tensor,
    req_pool_indices: torch.Tensor,
    seq_lens: torch.Tensor,
    topk: int,
    num_steps: int,
    pool_len: int,
) -> torch.Tensor:
    """A slot table [requests * topk, longest + num_steps] whose row (b, k) is the prefix of b, then branch k's steps.

    Branch k's slots are positions [length + k * num_steps, length + (k + 1) * num_steps) of the request.
    """
    lengths = seq_lens.to(torch.int64).repeat_interleave(topk)
    request = req_pool_indices.to(torch.int64).repeat_interleave(topk)
    branch = torch.arange(topk).repeat(len(seq_lens))
    position = torch.arange(int(seq_lens.max()) + num_steps)[None, :].expand(len(lengths), -1)
    shift = torch.where(position >= lengths[:, None], (branch * num_steps)[:, None], 0)
    source = (position + shift).clamp(max=req_to_token.shape[1] - 1)
    return req_to_token[request[:, None], source].contiguous()


def fill_accept_out_cache_loc_cpu(
    accept_index: torch.Tensor, out_cache_loc: torch.Tensor, accept_out_cache_loc: torch.Tensor
) -> None:
    """accept_out_cache_loc = the slots of the accepted nodes, packed in order (accept_index is -1 where unused)."""
    flat = accept_index.flatten()
    used = flat[flat >= 0].to(torch.int64)
    accept_out_cache_loc[: len(used)] = out_cache_loc[used].to(accept_out_cache_loc.dtype)


def fill_bonus_tokens_cpu(
    accept_tokens: torch.Tensor, accept_lens: torch.Tensor, bonus_tokens: torch.Tensor, accept_stride: int
) -> None:
    """bonus_tokens[i] = the last accepted token of request i; accept_lens counts it."""
    last = torch.arange(len(accept_lens)) * accept_stride + accept_lens.to(torch.int64) - 1
    bonus_tokens.copy_(accept_tokens.flatten()[last].to(bonus_tokens.dtype))


def _buffer(address: int, length: int) -> npt.NDArray[np.uint8]:
    return np.frombuffer((ctypes.c_uint8 * length).from_address(address), dtype=np.uint8)


def copy_all_layer_kv_cache_cpu(
    data_ptrs: torch.Tensor, strides: torch.Tensor, tgt_loc: torch.Tensor, src_loc: torch.Tensor
) -> None:
    """Copy slot src_loc[i] to slot tgt_loc[i] in every layer's key and value buffer.

    data_ptrs: address of each buffer; strides: bytes of one slot in each. All sources are read before any target
    is written, as in SGLang's kernel: accepted slots overlap the places they move to.
    """
    moved = (tgt_loc != src_loc).nonzero().flatten()
    if len(moved) == 0:
        return
    target = tgt_loc[moved].to(torch.int64).numpy()
    source = src_loc[moved].to(torch.int64).numpy()
    slots = int(max(target.max(), source.max())) + 1
    for address, stride in zip(data_ptrs.tolist(), strides.tolist(), strict=True):
        rows = _buffer(address, slots * stride).reshape(slots, stride)
        rows[target] = rows[source]
