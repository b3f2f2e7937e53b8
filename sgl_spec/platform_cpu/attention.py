"""Attention as the torch ops SGLang's CPU backend calls: `decode_attention_cpu` and `extend_attention_cpu`.

Where it stands in a round: inside the forward of a prefill, a plain decode, a draft step or a tree verify. This
module turns each of the four into rows with a prefix and a path, and `attention_kernel.attend` does the rest.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt
import torch

from sgl_spec.errors import PlatformError
from sgl_spec.platform_cpu.attention_kernel import ROWS_PER_TILE, attend

Ints = npt.NDArray[np.int64]

# Few rows: split a KV head's query heads over work items, so that every thread has some.
_ITEMS_WANTED = 8


class Rows(NamedTuple):
    """What each query row sees: a prefix of one request's positions, then a path of slots (see `attend`)."""

    request: Ints
    prefix: Ints
    path_start: Ints
    path_slots: Ints
    tile_start: Ints


def decode_rows(request: Ints, lengths: Ints) -> Rows:
    """One row per request; its own key is the last position of the prefix."""
    rows = len(request)
    return Rows(request, lengths, np.zeros(rows + 1, np.int64), np.zeros(0, np.int64), np.arange(rows + 1))


def causal_rows(request: Ints, lengths: Ints, extends: Ints) -> Rows:
    """`extends[b]` consecutive rows for request b, the last at position `lengths[b] - 1`."""
    per_row = np.repeat(np.arange(len(request)), extends)
    offset = np.arange(len(per_row)) - np.repeat(np.cumsum(extends) - extends, extends)
    prefix = (lengths - extends)[per_row] + offset + 1
    rows = len(per_row)
    return Rows(request[per_row], prefix, np.zeros(rows + 1, np.int64), np.zeros(0, np.int64), _tiles(extends))


def tree_rows(
    request: Ints, lengths: Ints, width: int, mask: npt.NDArray[np.bool_], table: npt.NDArray[np.int32]
) -> Rows:
    """`width` rows for each request, row i seeing the rows j of its request with mask[b, i, j].

    Parents precede children in a tree's order, so increasing j is position order along a path.
    """
    batch = len(request)
    prefix = lengths - width
    of_batch, of_row, seen = np.nonzero(mask.reshape(batch, width, width))
    counts = np.bincount(of_batch * width + of_row, minlength=batch * width)
    path_start = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    path_slots = table[request[of_batch], prefix[of_batch] + seen].astype(np.int64)
    widths = np.full(batch, width, np.int64)
    return Rows(np.repeat(request, width), np.repeat(prefix, width), path_start, path_slots, _tiles(widths))


def _tiles(extends: Ints) -> Ints:
    """Row ranges of at most ROWS_PER_TILE rows that never cross a request."""
    per_request = -(-extends // ROWS_PER_TILE)
    first_row = np.repeat(np.cumsum(extends) - extends, per_request)
    within = np.arange(len(first_row)) - np.repeat(np.cumsum(per_request) - per_request, per_request)
    return np.append(first_row + within * ROWS_PER_TILE, int(extends.sum()))


def _array(tensor: torch.Tensor) -> npt.NDArray[np.generic]:
    """The tensor's memory for numba: float32 as it is, bfloat16 as uint16."""
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(np.uint16)
    if tensor.dtype == torch.float32:
        return tensor.numpy()
    raise PlatformError(
        f"the CPU platform's KV cache holds bfloat16 or float32, not {tensor.dtype}; start with --dtype bfloat16 "
        "or float32 and --kv-cache-dtype auto"
    )


def _indices(tensor: torch.Tensor) -> Ints:
    return tensor.to(torch.int64).numpy()


def run(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    table: torch.Tensor,
    rows: Rows,
    scale: float,
    cap: float,
    window: int,
    out: torch.Tensor,
) -> None:
    """Attend every row and write `out` ([rows, heads, value_dim], the model's dtype)."""
    if len(rows.request) == 0:
        return
    if numba.get_num_threads() != torch.get_num_threads():
        numba.set_num_threads(min(torch.get_num_threads(), numba.config.NUMBA_NUM_THREADS))
    wide = np.empty((query.shape[0], query.shape[1], values.shape[2]), np.float32)
    tiles = (len(rows.tile_start) - 1) * keys.shape[1]
    attend(
        query.to(torch.float32).contiguous().numpy(), _array(keys), _array(values), table.numpy(), tuple(rows[:4]),
        rows.tile_start, 1 if tiles >= _ITEMS_WANTED else 2, np.float32(scale), np.float32(cap), window, wide,
    )  # fmt: skip
    out.copy_(torch.from_numpy(wide))


def _refuse(is_cross_attention: bool, key_scale: float, value_scale: float, sinks: torch.Tensor | None) -> None:
    for wrong, what in (
        (is_cross_attention, "cross attention"),
        (key_scale != 1.0 or value_scale != 1.0, "a scaled (fp8) KV cache"),
        (sinks is not None, "attention sinks"),
    ):
        if wrong:
            raise PlatformError(f"the CPU platform does not support {what}; use a model without it, or a GPU")


def decode_attention_cpu(
    query: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor, k_scale: float, v_scale: float,
    output: torch.Tensor, key: torch.Tensor | None, value: torch.Tensor | None, loc: torch.Tensor | None,
    attn_logits: torch.Tensor, req_to_token: torch.Tensor, req_pool_indices: torch.Tensor, seq_lens: torch.Tensor,
    sm_scale: float, logit_cap: float, is_cross_attn: bool, sliding_window: int,
    encoder_lens: torch.Tensor | None, sinks: torch.Tensor | None,
) -> None:  # fmt: skip
    """One query row per request over its `seq_lens` positions; writes the new key and value at `loc` first.

    query [requests, heads, dim]; k_cache, v_cache [slots, kv_heads, dim]; req_to_token [pool rows, positions];
    sliding_window counts keys including the row's own, 0 = none. `attn_logits` is scratch of the stock kernel.
    """
    _refuse(is_cross_attn, k_scale, v_scale, sinks)
    if key is not None and value is not None and loc is not None:
        k_cache[loc] = key.view(-1, *k_cache.shape[1:]).to(k_cache.dtype)
        v_cache[loc] = value.view(-1, *v_cache.shape[1:]).to(v_cache.dtype)
    rows = decode_rows(_indices(req_pool_indices), _indices(seq_lens))
    run(query, k_cache, v_cache, req_to_token, rows, sm_scale, logit_cap, max(sliding_window, 0), output)


def extend_attention_cpu(
    q_extend: torch.Tensor, k_extend: torch.Tensor | None, v_extend: torch.Tensor | None, o_extend: torch.Tensor,
    k_buffer: torch.Tensor, v_buffer: torch.Tensor, k_scale: float, v_scale: float, req_to_token: torch.Tensor,
    req_pool_indices: torch.Tensor, seq_lens: torch.Tensor, extend_seq_lens: torch.Tensor,
    extend_start_loc: torch.Tensor, max_len_extend: int, sm_scale: float, logit_cap: float, is_cross_attn: bool,
    sliding_window: int, encoder_lens: torch.Tensor | None, sinks: torch.Tensor | None,
    tree_mask: torch.Tensor | None, is_causal: bool,
) -> None:  # fmt: skip
    """The last `extend_seq_lens[b]` of `seq_lens[b]` positions of each request; causal, or by `tree_mask`.

    The keys and values of this forward are in the cache already (the backend stores them before it calls), so
    k_extend and v_extend are not read. tree_mask: bool, flat [requests, width, width], all widths equal.
    """
    _refuse(is_cross_attn, k_scale, v_scale, sinks)
    if not is_causal:
        raise PlatformError("the CPU platform does not support encoder-only attention; use a decoder model")
    request, lengths, extends = _indices(req_pool_indices), _indices(seq_lens), _indices(extend_seq_lens)
    if tree_mask is None:
        rows = causal_rows(request, lengths, extends)
    else:
        width = int(extends[0])
        mask = tree_mask[: len(request) * width * width].numpy()
        rows = tree_rows(request, lengths, width, mask, req_to_token.numpy())
    run(q_extend, k_buffer, v_buffer, req_to_token, rows, sm_scale, logit_cap, max(sliding_window, 0), o_extend)
