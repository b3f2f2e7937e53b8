"""The hash behind seeded sampling, and the Gumbel noise made of it.

Where it stands in a round: under `sampling`. The hash equals, pair by pair, SGLang's `murmur_hash32` (its Triton kernel
on a GPU), which a contract test holds it against. It is here twice: in torch, for any device, and compiled, for the one
question a CPU asks of a whole vocabulary: which tokens can still win.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from sgl_spec.compiled import kept_njit

HASHES = 0xFFFFFFFF  # the largest hash
_SLACK = 1.00001  # more than the float32 roundings in `Noise.can_reach`


def _signed(constant: int) -> int:
    """The int32 with the bits of a 32-bit constant. Products of int32 tensors keep their low 32 bits, as we want."""
    return constant - (1 << 32) if constant >> 31 else constant


_BLOCK_1, _BLOCK_2, _ADDED = _signed(0xCC9E2D51), _signed(0x1B873593), _signed(0xE6546B64)
_FINISH_1, _FINISH_2, _BYTES = _signed(0x85EBCA6B), _signed(0xC2B2AE35), 16


def _shifted(x: torch.Tensor, bits: int) -> torch.Tensor:
    """x >> bits without the sign, which int32 would copy in."""
    return (x >> bits) & (HASHES >> bits)


def _rotated(x: torch.Tensor, bits: int) -> torch.Tensor:
    return (x << bits) | _shifted(x, 32 - bits)


def _mix(state: torch.Tensor, block: torch.Tensor) -> torch.Tensor:
    block = _rotated(block * _BLOCK_1, 15) * _BLOCK_2
    return _rotated(state ^ block, 13) * 5 + _ADDED


def hash_tokens(seed: torch.Tensor, positions: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """32-bit MurmurHash3 of (seed low, seed high, position, token), int64 in [0, 2**32).

    seed, positions, tokens: int64, of one shape or of shapes that broadcast ([rows, 1] and [vocabulary]).
    """
    low, high = seed.to(torch.int32), (seed >> 32).to(torch.int32)
    state = torch.zeros_like(low)
    for block in (low, high, positions.to(torch.int32), tokens.to(torch.int32)):
        state = _mix(state, block)
    state = state ^ _BYTES
    state = (state ^ _shifted(state, 16)) * _FINISH_1
    state = (state ^ _shifted(state, 13)) * _FINISH_2
    return (state ^ _shifted(state, 16)).long() & HASHES


def gumbel(hashed: torch.Tensor) -> torch.Tensor:
    """Standard Gumbel noise of a 32-bit hash, float64; both ends clamped as in SGLang's `multinomial_with_seed`."""
    uniform = hashed.double() / HASHES
    exponential = uniform.log_().clamp_(min=torch.finfo(torch.float64).min, max=-(2.0**-32)).neg_()
    return exponential.log_().neg_()


# ---- on a CPU, compiled ------------------------------------------------------------------------------------------


@kept_njit(inline="always")
def _mixed(state, block):  # type: ignore[no-untyped-def]
    """`_mix` of two uint32. Every step is cut back to 32 bits: numba would go on in 64."""
    u32 = np.uint32
    block = u32(block * u32(0xCC9E2D51))
    block = u32(u32(u32(block << u32(15)) | u32(block >> u32(17))) * u32(0x1B873593))
    state = u32(state ^ block)
    return u32(u32(u32(u32(state << u32(13)) | u32(state >> u32(19))) * u32(5)) + u32(0xE6546B64))


@kept_njit(inline="always")
def _state_of(seed, position):  # type: ignore[no-untyped-def]
    u32 = np.uint32
    return _mixed(_mixed(_mixed(u32(0), u32(seed & 0xFFFFFFFF)), u32((seed >> 32) & 0xFFFFFFFF)), u32(position))


@kept_njit(inline="always")
def _hash_of(state, token):  # type: ignore[no-untyped-def]
    u32 = np.uint32
    h = u32(_mixed(state, u32(token)) ^ u32(16))
    h = u32(u32(h ^ u32(h >> u32(16))) * u32(0x85EBCA6B))
    h = u32(u32(h ^ u32(h >> u32(13))) * u32(0xC2B2AE35))
    return u32(h ^ u32(h >> u32(16)))


@kept_njit()
def _hash_pairs(seeds, positions, rows, tokens, hashed):  # type: ignore[no-untyped-def]
    for pair in range(rows.shape[0]):
        row = rows[pair]
        hashed[pair] = _hash_of(_state_of(seeds[row], positions[row]), tokens[pair])


@kept_njit()
def _mark_able(probabilities, seeds, positions, scales, able):  # type: ignore[no-untyped-def]
    """able[r, t] = 2**32 - 1 - hash(r, t) <= probabilities[r, t] * scales[r]. The inner loop becomes vector code."""
    for row in range(probabilities.shape[0]):
        state, scale = _state_of(seeds[row], positions[row]), scales[row]
        for token in range(probabilities.shape[1]):
            left = np.uint32(np.uint32(0xFFFFFFFF) - _hash_of(state, token))
            able[row, token] = np.float32(left) <= probabilities[row, token] * scale


class Noise(NamedTuple):
    """The noise of some rows, on a CPU. seed, positions: int64 [rows]."""

    seed: torch.Tensor
    positions: torch.Tensor

    def at(self, rows: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """The noise of pairs, float64 [pairs]. rows, tokens: int64 [pairs]."""
        hashed = torch.empty_like(tokens)
        _hash_pairs(self.seed.numpy(), self.positions.numpy(), rows.numpy(), tokens.numpy(), hashed.numpy())
        return gumbel(hashed)

    def can_reach(self, logprobs: torch.Tensor, reached: torch.Tensor) -> torch.Tensor:
        """Whether log-probability plus noise may come to `reached`, bool [rows, vocabulary]. True also for some that
        just fail; never False for one that does not.

        logprobs: float32 [rows, vocabulary]; reached: float64 [rows].
        With u the hash as a uniform, the noise is -log(-log u), and -log u >= 1 - u: to reach a sum s a token needs
        1 - u <= p / exp(s). That costs no logarithm, and few tokens pass.
        """
        # No p is 0, so that an infinite scale lets all pass.
        probabilities = torch.exp(logprobs).clamp_(min=torch.finfo(torch.float32).tiny)
        scale = (torch.exp(-reached) * (HASHES * _SLACK)).float()
        able = torch.empty_like(logprobs, dtype=torch.bool)
        rows = (self.seed.numpy(), self.positions.numpy(), scale.numpy())
        _mark_able(probabilities.numpy(), *rows, able.numpy())
        return able
