"""The noise is SGLang's, hashed in torch or compiled; and the quick question what can win never loses a winner."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from sglang.kernels.ops.sampling.murmur_hash import murmur_hash32

from sgl_spec.drafting.acceptance import gumbel_noise
from sgl_spec.server.noise import HASHES, Noise, gumbel, hash_tokens

SEEDS = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=4)
POSITIONS = st.integers(0, 2**31 - 1)
TOKENS = 50


@given(SEEDS, POSITIONS)
@example([0, -1, 2**63 - 1, -(2**63)], 0)
def test_it_is_sglangs_hash_and_the_oracles_noise(seeds: list[int], position: int) -> None:
    seed, positions = torch.tensor(seeds), torch.arange(len(seeds)) + position
    rows = hash_tokens(seed[:, None], positions[:, None], torch.arange(TOKENS))
    assert torch.equal(rows, murmur_hash32(seed.view(torch.uint64), positions, torch.arange(TOKENS)).long())

    every = torch.arange(len(seeds)).repeat_interleave(TOKENS)
    tokens = torch.arange(TOKENS).repeat(len(seeds))
    assert torch.equal(hash_tokens(seed[every], positions[every], tokens), rows.flatten())
    assert torch.equal(Noise(seed, positions).at(every, tokens), gumbel(rows.flatten()))
    slow = [gumbel_noise(s, position + row, TOKENS) for row, s in enumerate(seeds)]
    np.testing.assert_allclose(gumbel(rows).numpy(), np.array(slow), rtol=1e-12)


@given(SEEDS, POSITIONS, st.floats(-30, 30), st.sampled_from([0.1, 3.0, 40.0, 1e6]), st.integers(0, 2**32))
@example([5], 9, -800.0, 3.0, 1)
def test_what_can_reach_a_sum_is_never_missed(
    seeds: list[int], position: int, reached: float, spread: float, dice: int
) -> None:
    seed, positions = torch.tensor(seeds), torch.arange(len(seeds)) + position
    logits = torch.randn(len(seeds), TOKENS, generator=torch.Generator().manual_seed(dice)) * spread
    logits[:, ::7] = -torch.inf
    logprobs = torch.log_softmax(logits, -1)
    sums = logprobs + gumbel(hash_tokens(seed[:, None], positions[:, None], torch.arange(TOKENS)))
    goal = torch.full((len(seeds),), reached, dtype=torch.float64)
    able = Noise(seed, positions).can_reach(logprobs, goal)
    assert bool((able | (sums < reached)).all())


def test_little_else_is_taken_for_able() -> None:
    """What passes costs two logarithms: of a flat row of 50,000, a handful."""
    logprobs = torch.log_softmax(torch.zeros(1, 50_000), -1)
    noise = Noise(torch.tensor([3]), torch.tensor([4]))
    sums = logprobs + noise.at(torch.zeros(50_000, dtype=torch.int64), torch.arange(50_000))
    assert 1 <= int(noise.can_reach(logprobs, sums.max(-1).values).sum()) < 5


def test_noise_is_finite_at_both_ends() -> None:
    low, high = gumbel(torch.tensor([0, HASHES])).tolist()
    assert (round(low), round(high, 2)) == (-710, 22.18)
