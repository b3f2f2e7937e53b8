"""Rotary embedding and the sampling hash against their slow twins, and the hash against every other form of it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sglang.kernels.ops.sampling.murmur_hash import murmur_hash32
from sglang.srt.layers.sampler import multinomial_with_seed

from sgl_spec.drafting.acceptance import gumbel_noise, sample_token
from sgl_spec.platform_cpu import pointwise_ops, reference
from sgl_spec.server.noise import hash_tokens

SHAPES = tuple(itertools.product((torch.bfloat16, torch.float32), (16, 64, 80, 128, 256), (True, False), (1.0, 0.5)))
ROWS = 7


def turning(dtype: torch.dtype, rotary: int) -> torch.Tensor:
    """SGLang's cache for 500 positions [500, rotary]: cosines, then sines."""
    rates = 10000.0 ** (-torch.arange(0, rotary, 2) / rotary)
    angles = torch.arange(500)[:, None] * rates
    return torch.cat((angles.cos(), angles.sin()), -1).to(dtype)


@pytest.mark.parametrize(("dtype", "head_size", "is_neox", "part"), SHAPES, ids=str)
def test_rotary_equals_its_twin(dtype: torch.dtype, head_size: int, is_neox: bool, part: float) -> None:
    generator = torch.Generator().manual_seed(head_size)
    query, key = (torch.randn(ROWS, heads * head_size, generator=generator).to(dtype) for heads in (6, 2))
    positions = torch.randint(0, 500, (ROWS,), generator=generator)
    arguments = (positions, query, key, head_size, turning(dtype, int(head_size * part)), is_neox)

    for fast, slow in zip(
        pointwise_ops.rotary_embedding_cpu(*arguments), reference.rotary_embedding_cpu(*arguments), strict=True
    ):
        # In bfloat16 both products and their sum are rounded: three times half a unit of numbers up to about 4.
        torch.testing.assert_close(fast, slow, rtol=2**-7, atol=2**-5 if dtype == torch.bfloat16 else 1e-6)
        assert fast.shape == slow.shape


@pytest.mark.parametrize("is_neox", [True, False])
def test_rotary_treats_each_row_alone(is_neox: bool) -> None:
    generator = torch.Generator().manual_seed(1)
    query, key = torch.randn(90, 6 * 64, generator=generator), torch.randn(90, 2 * 64, generator=generator)
    positions, cache = torch.randint(0, 500, (90,), generator=generator), turning(torch.float32, 64)
    whole = pointwise_ops.rotary_embedding_cpu(positions, query, key, 64, cache, is_neox)
    for start, end in ((0, 1), (5, 6), (3, 20), (17, 90)):
        part = slice(start, end)
        got = pointwise_ops.rotary_embedding_cpu(positions[part], query[part], key[part], 64, cache, is_neox)
        assert all(torch.equal(g, w[part]) for g, w in zip(got, whole, strict=True))


# ---- the hash -------------------------------------------------------------------------------------------------------

SEEDS_64 = st.integers(-(2**63), 2**63 - 1)
POSITIONS = st.integers(0, 2**31 - 1)
COLUMNS = st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=20)


def test_the_twin_is_murmur3() -> None:
    """Published values of MurmurHash3_x86_32 with seed 0: of no bytes, of 00000000 and of 21436587."""
    assert reference.murmur3(()) == 0
    assert reference.murmur3((0,)) == 0x2362F9DE
    assert reference.murmur3((0x87654321,)) == 0xF55B516B


@settings(deadline=None)
@given(st.lists(st.tuples(SEEDS_64, POSITIONS), min_size=1, max_size=8), COLUMNS)
def test_every_form_of_the_hash_agrees(rows: list[tuple[int, int]], columns: list[int]) -> None:
    seed, positions = (torch.tensor(values, dtype=torch.int64) for values in zip(*rows, strict=True))
    column = torch.tensor(columns, dtype=torch.int64)

    slow = reference.murmur_hash32_cpu(seed, positions, column)

    fast = pointwise_ops.murmur_hash32_cpu(seed, positions, column)
    assert fast.dtype == torch.uint32
    assert torch.equal(fast, slow)
    assert torch.equal(murmur_hash32(seed, positions, column), slow)
    assert torch.equal(pointwise_ops.murmur_hash32_cpu(seed.view(torch.uint64), positions.int(), column.int()), slow)
    pairs = [values.flatten() for values in torch.broadcast_tensors(seed[:, None], positions[:, None], column[None])]
    assert torch.equal(hash_tokens(*pairs), slow.to(torch.int64).flatten())


@settings(deadline=None, max_examples=30)
@given(SEEDS_64, POSITIONS)
def test_the_oracles_noise_is_made_of_the_hash(seed: int, position: int) -> None:
    hashed = reference.murmur_hash32_cpu(torch.tensor([seed]), torch.tensor([position]), torch.arange(300))
    uniform = hashed[0].to(torch.float64).numpy() / (2**32 - 1)
    with np.errstate(divide="ignore"):
        wanted = -np.log(-np.clip(np.log(uniform), np.finfo(np.float64).min, -(2.0**-32)))
    np.testing.assert_allclose(gumbel_noise(seed, position, 300), wanted, rtol=1e-12)


def test_sglangs_own_seeded_sampler_runs_on_the_platform_and_agrees() -> None:
    """Without a filter SGLang numbers columns by token id, as we always do: so the tokens are the same."""
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(40, 300, generator=generator) * 2
    seed, positions = torch.arange(40) * 7919 + 2**40, torch.arange(40) * 13
    stock = multinomial_with_seed(torch.log_softmax(logits, -1), seed, positions).flatten().tolist()
    ours = [
        sample_token(row, s, p, 1.0, -1, 1.0, 0.0)
        for row, s, p in zip(logits.numpy(), seed.tolist(), positions.tolist(), strict=True)
    ]
    assert stock == ours
