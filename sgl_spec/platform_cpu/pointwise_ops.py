"""Rotary embedding, and the hash behind seeded sampling.

Where it stands in a round: rotary in every layer of the forward; the hash when target tokens are sampled.
Both treat every row alone, so their bits do not depend on the batch.
"""

from __future__ import annotations

import torch

_MASK = 0xFFFFFFFF


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, head_size: int, is_neox: bool) -> torch.Tensor:
    rows = x.view(cos.shape[0], -1, head_size)
    rotary = 2 * cos.shape[-1]
    turned, rest = rows[..., :rotary], rows[..., rotary:]
    first, second = turned.chunk(2, -1) if is_neox else (turned[..., ::2], turned[..., 1::2])
    one, two = first * cos - second * sin, second * cos + first * sin
    turned = torch.cat((one, two), -1) if is_neox else torch.stack((one, two), -1).flatten(-2)
    return torch.cat((turned, rest), -1).view(x.shape)


def rotary_embedding_cpu(
    positions: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    head_size: int,
    cos_sin_cache: torch.Tensor,
    is_neox: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rotary position embedding (Su et al., arXiv 2104.09864).

    positions [rows]; query, key [rows, heads * head_size]; cos_sin_cache [positions, rotary_dim], cosines first.
    """
    cos, sin = cos_sin_cache[positions.flatten()].to(query.dtype).unsqueeze(1).chunk(2, -1)
    return _rotate(query, cos, sin, head_size, is_neox), _rotate(key, cos, sin, head_size, is_neox)


def _mix(state: torch.Tensor, block: torch.Tensor) -> torch.Tensor:
    block = (block * 0xCC9E2D51) & _MASK
    block = ((block << 15) | (block >> 17)) & _MASK
    state = state ^ ((block * 0x1B873593) & _MASK)
    state = ((state << 13) | (state >> 19)) & _MASK
    return (state * 5 + 0xE6546B64) & _MASK


def murmur_hash32_cpu(seed: torch.Tensor, positions: torch.Tensor, col_indices: torch.Tensor) -> torch.Tensor:
    """32-bit MurmurHash3 of (seed low, seed high, position, column) for every row and column.

    seed, positions: [rows]; col_indices: [columns]; returns uint32 [rows, columns], equal to SGLang's Triton kernel
    (`kernels/ops/sampling/murmur_hash.py`). Computed in int64: products of 32-bit numbers wrap modulo 2**64, and
    only their low 32 bits are kept.
    """
    bits = seed.view(torch.int64) if seed.dtype == torch.uint64 else seed.to(torch.int64)
    place = positions.to(torch.int64) & _MASK
    state = _mix(_mix(_mix(torch.zeros_like(bits), bits & _MASK), (bits >> 32) & _MASK), place)
    hashed = _mix(state[:, None], (col_indices.to(torch.int64) & _MASK)[None, :]) ^ 16
    hashed = ((hashed ^ (hashed >> 16)) * 0x85EBCA6B) & _MASK
    hashed = ((hashed ^ (hashed >> 13)) * 0xC2B2AE35) & _MASK
    hashed = hashed ^ (hashed >> 16)
    return hashed.to(torch.uint32)
