"""The acceptance oracle: noise against an independent murmur3, filters by hand, sampling by frequency."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgl_spec.drafting.acceptance import (
    accept_greedy,
    accept_sampled,
    filtered_logprobs,
    gumbel_noise,
    sample_token,
)
from sgl_spec.drafting.flat_tree import flatten
from sgl_spec.drafting.tree import Chain, DraftError, DraftTree

M32 = 0xFFFFFFFF


def murmur3(data: bytes) -> int:
    """MurmurHash3 x86 32-bit with seed 0, for any length, from its public description."""
    state = 0
    whole = len(data) // 4 * 4
    tail = int.from_bytes(data[whole:], "little")
    for (block,) in struct.iter_unpack("<I", data[:whole]):
        state ^= scrambled(block)
        state = (rotl(state, 13) * 5 + 0xE6546B64) & M32
    state ^= scrambled(tail) if tail else 0
    state ^= len(data)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        state = ((state ^ (state >> shift)) * factor) & M32
    return state ^ (state >> 16)


def rotl(x: int, bits: int) -> int:
    return ((x << bits) | (x >> (32 - bits))) & M32


def scrambled(block: int) -> int:
    return (rotl((block * 0xCC9E2D51) & M32, 15) * 0x1B873593) & M32


def test_the_reference_hash_is_murmur3():
    assert murmur3(b"") == 0
    assert murmur3(b"test") == 0xBA6BD213
    assert murmur3(b"The quick brown fox jumps over the lazy dog") == 0x2E4FF723


@settings(deadline=None)
@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**31 - 1))
def test_noise_is_the_hash_of_seed_position_and_token(seed, position):
    noise = gumbel_noise(seed, position, 5)
    for token in range(5):
        hashed = murmur3(struct.pack("<QII", seed % 2**64, position, token))
        u = hashed / M32
        expected = -math.log(-math.log(u)) if 0 < u < 1 else math.copysign(709.0 if u == 0 else 22.0, u - 0.5)
        assert noise[token] == pytest.approx(expected, rel=1e-9, abs=1.0 if u in (0, 1) else 1e-12)


def test_noise_is_finite_and_gumbel():
    noise = gumbel_noise(3, 11, 1 << 16)
    assert np.isfinite(noise).all()
    assert noise.mean() == pytest.approx(0.5772, abs=0.02)
    assert noise.var() == pytest.approx(math.pi**2 / 6, abs=0.05)


def test_noise_of_a_token_does_not_depend_on_the_vocabulary():
    assert np.array_equal(gumbel_noise(3, 11, 100), gumbel_noise(3, 11, 1000)[:100])


def kept(probs, **changed):
    settings = {"temperature": 1.0, "top_k": -1, "top_p": 1.0, "min_p": 0.0} | changed
    return np.flatnonzero(np.isfinite(filtered_logprobs(np.log(probs), **settings))).tolist()


def test_filters_by_hand():
    probs = [0.125, 0.5, 0.25, 0.125]
    assert kept(probs) == [0, 1, 2, 3]
    assert kept(probs, top_k=2) == [1, 2]
    assert kept(probs, top_k=3) == [0, 1, 2], "the lower id of two equals ranks first"
    assert kept(probs, top_p=0.4) == [1]
    assert kept(probs, top_p=0.6) == [1, 2]
    assert kept(probs, top_p=0.8) == [0, 1, 2]
    assert kept(probs, min_p=0.45) == [1, 2]
    assert kept(probs, min_p=1.0) == [1]
    assert kept(probs, temperature=0.0) == [1]
    assert kept(probs, top_k=3, top_p=0.6, min_p=0.9) == [1]


def test_temperature_scales_the_logits():
    logits = np.array([0.0, 1.0, 3.0])
    assert filtered_logprobs(logits, 0.5, -1, 1.0, 0.0) == pytest.approx(
        filtered_logprobs(logits * 2, 1.0, -1, 1.0, 0.0)
    )


def test_forbidden_tokens_stay_forbidden():
    logits = np.array([1.0, -np.inf, 0.0])
    assert filtered_logprobs(logits, 1.0, -1, 1.0, 0.0)[1] == -np.inf
    assert all(sample_token(logits, 5, position, 9.0, -1, 1.0, 0.0) != 1 for position in range(300))


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ((1.0, -1, 1.0, 0.0), [0.4, 0.3, 0.2, 0.1]),
        ((1.0, 3, 1.0, 0.0), [4 / 9, 3 / 9, 2 / 9, 0]),
        ((1.0, -1, 0.5, 0.0), [4 / 7, 3 / 7, 0, 0]),
        ((1.0, -1, 1.0, 0.4), [4 / 9, 3 / 9, 2 / 9, 0]),
    ],
)
def test_samples_follow_the_filtered_distribution(filters, expected):
    logits = np.log([0.4, 0.3, 0.2, 0.1])
    draws = [sample_token(logits, 42, position, *filters) for position in range(4000)]
    shares = np.bincount(draws, minlength=4) / len(draws)
    assert shares == pytest.approx(expected, abs=0.03)


@pytest.mark.parametrize(
    ("name", "value"),
    [("temperature", -0.1), ("temperature", math.nan), ("top_k", 0), ("top_k", -2), ("top_p", 0.0),
     ("top_p", 1.1), ("min_p", -0.1), ("min_p", 1.1)],
)  # fmt: skip
def test_sampling_parameters_out_of_range_are_named(name, value):
    settings = {"temperature": 1.0, "top_k": -1, "top_p": 1.0, "min_p": 0.0} | {name: value}
    with pytest.raises(DraftError, match=f"{name} is {value}"):
        filtered_logprobs([0.0, 1.0], **settings)


def forked_tree() -> DraftTree:
    """root -> 5 -> 6, root -> 7."""
    tree = DraftTree(1)
    tree.graft(Chain((5, 6), (0.6, 0.9), "lookup"))
    tree.graft(Chain((7,), (0.3,), "lookup"))
    return tree


def test_greedy_by_hand():
    flat = flatten(forked_tree(), 6)
    assert accept_greedy(flat, [5, 6, 9, 0, 0, 0]) == ((0, 1, 2), (5, 6, 9))
    assert accept_greedy(flat, [5, 8, 9, 0, 0, 0]) == ((0, 1), (5, 8))
    assert accept_greedy(flat, np.array([7, 0, 0, 4, 0, 0])) == ((0, 3), (7, 4))
    assert accept_greedy(flat, [0, 0, 0, 0, 0, 0]) == ((0,), (0,)), "padding is token 0 and is never accepted"


def test_too_few_rows_are_refused():
    flat = flatten(forked_tree(), 6)
    with pytest.raises(DraftError, match="target_tokens has 2 rows"):
        accept_greedy(flat, [5, 6])
    with pytest.raises(DraftError, match="logits has 3 rows"):
        accept_sampled(flat, np.zeros((3, 10)), 0, 0, 1.0, -1, 1.0, 0.0)


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 1000))
def test_sampled_takes_each_nodes_own_token_at_its_own_position(seed, position):
    flat = flatten(forked_tree(), 5)
    logits = np.random.default_rng(seed).normal(size=(5, 10))
    logits[:, 5:8] += 2.0
    accepted = accept_sampled(flat, logits, seed, position, 0.8, -1, 0.95, 0.0)
    for step, (node, token) in enumerate(zip(*accepted, strict=True)):
        assert token == sample_token(logits[node], seed, position + step, 0.8, -1, 0.95, 0.0)
        assert flat.depths[node] == step
    assert all(flat.tokens[node] == token for node, token in zip(accepted.nodes[1:], accepted.tokens, strict=False))
    last_children = [v for v in range(flat.size) if flat.parents[v] == accepted.nodes[-1]]
    assert accepted.tokens[-1] not in flat.tokens[last_children]


def test_sampling_at_temperature_zero_is_greedy():
    flat = flatten(forked_tree(), 4)
    logits = np.random.default_rng(0).normal(size=(4, 10))
    greedy = accept_greedy(flat, logits.argmax(axis=1))
    assert accept_sampled(flat, logits, 9, 4, 0.0, -1, 1.0, 0.0) == greedy
