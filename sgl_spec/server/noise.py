"""The hash behind seeded sampling, for chosen (row, token) pairs instead of whole rows.

Where it stands in a round: under `sampling`. Equal, pair by pair, to SGLang's `murmur_hash32` (its Triton kernel on
a GPU), which a contract test holds it against; hashing only the tokens that can win saves most of the work.
"""

from __future__ import annotations

import torch

_MASK = 0xFFFFFFFF


def _mix(state: torch.Tensor, block: torch.Tensor) -> torch.Tensor:
    block = (block * 0xCC9E2D51) & _MASK
    block = ((block << 15) | (block >> 17)) & _MASK
    state = state ^ ((block * 0x1B873593) & _MASK)
    state = ((state << 13) | (state >> 19)) & _MASK
    return (state * 5 + 0xE6546B64) & _MASK


def hash_tokens(seed: torch.Tensor, positions: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """32-bit MurmurHash3 of (seed low, seed high, position, token), int64 [pairs] in [0, 2**32).

    seed, positions, tokens: int64 [pairs]. In int64, products wrap modulo 2**64 and only their low 32 bits are kept.
    """
    state = torch.zeros_like(tokens)
    for block in (seed & _MASK, (seed >> 32) & _MASK, positions & _MASK, tokens & _MASK):
        state = _mix(state, block)
    state = state ^ 16
    state = ((state ^ (state >> 16)) * 0x85EBCA6B) & _MASK
    state = ((state ^ (state >> 13)) * 0xC2B2AE35) & _MASK
    return state ^ (state >> 16)
