"""The attention ops against their slow twins: decode, causal extend and tree verify."""

from __future__ import annotations

import itertools
import zlib

import pytest
import torch
from attention_world import DTYPES, GROUPS, HEAD_SIZES, Limits, Shape, Span, World, mask_of, random_parents

from sgl_spec.errors import PlatformError
from sgl_spec.platform_cpu import attention, reference

# The last one counts the row's own key, and is shorter than every sequence but the shortest.
LIMITS = (Limits(), Limits(cap=5.0), Limits(window=20), Limits(cap=5.0, window=20))
LENGTHS = (1, 16, 63, 64, 65, 130)
SHAPES = [
    Shape(dtype, dim, group, kv_heads=1 if group == 8 else 2)
    for dtype, dim, group in itertools.product(DTYPES, HEAD_SIZES, GROUPS)
]
WIDTH = 9


def shape_id(shape: Shape) -> str:
    return f"{shape.dtype}-{shape.dim}-group{shape.group}".removeprefix("torch.")


def world_for(shape: Shape, salt: int = 0) -> World:
    return World(shape, seed=zlib.crc32(repr((shape, salt)).encode()))


def limits_for(shape: Shape) -> Limits:
    """Each shape gets one of the four; all four occur with every data type."""
    return LIMITS[SHAPES.index(shape) % len(LIMITS)]


def assert_same(fast: torch.Tensor, slow: torch.Tensor) -> None:
    """A bfloat16 result may be the neighbour of the exact one; a float32 result carries float32's sums."""
    rtol, atol = (2.0**-7, 1e-5) if fast.dtype == torch.bfloat16 else (2e-5, 4e-6)
    torch.testing.assert_close(fast, slow, rtol=rtol, atol=atol)


@pytest.mark.parametrize("shape", SHAPES, ids=shape_id)
def test_decode_equals_its_twin(shape: Shape) -> None:
    world = world_for(shape)
    spans = [Span(world.request(world.take(length)), length) for length in LENGTHS]
    query, limits = world.queries(len(spans)), limits_for(shape)

    fast, slow = (world.decode(ops, query, spans, limits) for ops in (attention, reference))

    assert_same(fast, slow)


@pytest.mark.parametrize("shape", SHAPES, ids=shape_id)
def test_causal_extend_equals_its_twin(shape: Shape) -> None:
    world = world_for(shape, 1)
    spans = [Span(world.request(world.take(length)), length, extend)
             for length, extend in ((5, 5), (1, 1), (65, 1), (70, 12), (100, 3))]  # fmt: skip
    query, limits = world.queries(sum(s.extend for s in spans)), limits_for(shape)

    fast, slow = (world.extend(ops, query, spans, limits) for ops in (attention, reference))

    assert_same(fast, slow)


@pytest.mark.parametrize("shape", SHAPES, ids=shape_id)
def test_tree_extend_equals_its_twin(shape: Shape) -> None:
    world = world_for(shape, 2)
    spans = [Span(world.request(world.take(prefix + WIDTH)), prefix + WIDTH, WIDTH) for prefix in (0, 1, 63, 80)]
    parents = [random_parents(world.rng, WIDTH, nodes) for nodes in (WIDTH, 1, 5, WIDTH)]
    masks = torch.stack([mask_of(p) for p in parents])
    query, limits = world.queries(WIDTH * len(spans)), limits_for(shape)

    fast, slow = (world.extend(ops, query, spans, limits, masks) for ops in (attention, reference))

    assert_same(fast, slow)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_values_may_be_of_another_size_than_keys(dtype: torch.dtype) -> None:
    world = world_for(Shape(dtype, dim=48, group=3, value_dim=32))
    spans = [Span(world.request(world.take(70)), 70, 6)]
    query = world.queries(6)

    fast, slow = (world.extend(ops, query, spans) for ops in (attention, reference))

    assert fast.shape == (6, 6, 32)
    assert_same(fast, slow)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_decode_stores_the_new_keys_and_values_first(dtype: torch.dtype) -> None:
    """As SGLang hands them over: the keys and values of the step, flat, and the slots they belong in."""
    shape = Shape(dtype, dim=64, group=3)
    results = []
    for ops in (attention, reference):
        world = world_for(shape)
        slots = [world.take(10), world.take(3)]
        spans = [Span(world.request(s), len(s)) for s in slots]
        query, key, value = world.queries(2), world.normal(2, 2 * 64), world.normal(2, 2 * 64)
        loc = torch.tensor([s[-1] for s in slots])
        before = world.keys.clone()
        out = world.decode(ops, query, spans, new=(key, value, loc))
        assert torch.equal(world.keys[loc].flatten(1), key)
        assert torch.equal(world.values[loc].flatten(1), value)
        before[loc] = world.keys[loc]
        assert torch.equal(world.keys, before)
        results.append(out)
    assert_same(*results)


def test_scores_far_apart_and_equal_scores() -> None:
    """One key whose score dwarfs the rest takes all weight; equal keys share it evenly."""
    world = world_for(Shape(torch.float32, dim=16, group=1))
    slots = world.take(100)
    world.keys[slots] = 0.0
    world.keys[slots[37]] = 1000.0
    query = torch.ones(2, 2, 16)
    query[1] = 0.0
    spans = [Span(world.request(slots), 100)] * 2

    out = world.decode(attention, query, spans)

    assert torch.equal(out[0], world.values[slots[37]])
    torch.testing.assert_close(out[1], world.values[slots].mean(0), rtol=1e-5, atol=1e-6)


def test_no_request_is_no_work() -> None:
    world = world_for(Shape(torch.float32, dim=16, group=1))
    assert world.decode(attention, world.queries(0), []).shape == (0, 2, 16)


REFUSED = {
    "cross attention": {"is_cross_attn": True},
    "fp8": {"k_scale": 0.5},
    "scaled": {"v_scale": 2.0},
    "sinks": {"sinks": torch.zeros(1)},
}


@pytest.mark.parametrize(("named", "change"), REFUSED.items(), ids=REFUSED)
def test_what_is_not_supported_is_refused_by_name(named: str, change: dict[str, object]) -> None:
    q, cache, table, one = torch.zeros(1, 1, 16), torch.zeros(4, 1, 16), torch.zeros(1, 4).int(), torch.ones(1).long()
    values: dict[str, object] = {"k_scale": 1.0, "v_scale": 1.0, "is_cross_attn": False, "sinks": None, **change}
    ks, vs, cross, sinks = (values[k] for k in ("k_scale", "v_scale", "is_cross_attn", "sinks"))

    with pytest.raises(PlatformError, match=named):
        attention.decode_attention_cpu(q, cache, cache, ks, vs, q.clone(), None, None, None, q, table, one * 0, one,
                                       1.0, 0.0, cross, 0, None, sinks)  # fmt: skip
    with pytest.raises(PlatformError, match=named):
        attention.extend_attention_cpu(q, None, None, q.clone(), cache, cache, ks, vs, table, one * 0, one, one,
                                       one * 0, 1, 1.0, 0.0, cross, 0, None, sinks, None, True)  # fmt: skip


def test_encoder_only_attention_is_refused_by_name() -> None:
    q, cache, table, one = torch.zeros(1, 1, 16), torch.zeros(4, 1, 16), torch.zeros(1, 4).int(), torch.ones(1).long()
    with pytest.raises(PlatformError, match="encoder-only"):
        attention.extend_attention_cpu(q, None, None, q.clone(), cache, cache, 1.0, 1.0, table, one * 0, one, one,
                                       one * 0, 1, 1.0, 0.0, False, 0, None, None, None, False)  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float16, torch.float8_e4m3fn], ids=str)
def test_a_cache_of_another_type_is_refused_by_name(dtype: torch.dtype) -> None:
    world = world_for(Shape(torch.float32, dim=16, group=1))
    world.keys, world.values = world.keys.to(dtype), world.values.to(dtype)
    with pytest.raises(PlatformError, match=str(dtype)):
        world.decode(attention, world.queries(1), [Span(world.request(world.take(5)), 5)])
