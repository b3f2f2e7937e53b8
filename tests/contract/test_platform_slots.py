"""The slot ops against their slow twins, on random pools; and as SGLang's own functions call them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sglang.kernels.ops.kvcache.cache_move import copy_all_layer_kv_cache_func
from sglang.kernels.ops.speculative.cache_locs import (
    assign_draft_cache_locs_contiguous_func,
    assign_extend_cache_locs_func,
    fill_front_out_cache_loc_func,
)
from sglang.kernels.ops.speculative.eagle import fill_accept_out_cache_loc_func, fill_bonus_tokens_func
from sglang.srt.mem_cache.allocation import assign_req_to_token_pool_func

from sgl_spec.platform_cpu import cache_ops, reference, reference_slots

SEEDS = st.integers(0, 2**32 - 1)
examples = settings(deadline=None, max_examples=60)
WIDTH_OF_POOL = 40
UNTOUCHED = -7


class Pool(NamedTuple):
    """A slot table, the rows of some requests in it, and a span of positions for each."""

    table: torch.Tensor
    requests: torch.Tensor
    start: torch.Tensor
    end: torch.Tensor

    @property
    def total(self) -> int:
        return int((self.end - self.start).sum())


def pool(seed: int, index_type: torch.dtype = torch.int64, most: int = WIDTH_OF_POOL) -> Pool:
    rng = random.Random(seed)
    rows = rng.randint(1, 6)
    slots = rng.sample(range(1000), 8 * WIDTH_OF_POOL)
    table = torch.tensor(slots, dtype=torch.int32).view(8, WIDTH_OF_POOL)
    start = [rng.randint(0, most) for _ in range(rows)]
    end = [rng.randint(s, most) for s in start]
    requests = torch.tensor(rng.sample(range(8), rows))
    return Pool(table, requests, torch.tensor(start, dtype=index_type), torch.tensor(end, dtype=index_type))


def blank(count: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.full((count,), UNTOUCHED, dtype=dtype)


def both(name: str, twins: Any, run: Callable[[Callable[..., Any]], torch.Tensor]) -> None:
    """`run` with the fast op and with its twin gives the same."""
    fast, slow = run(getattr(cache_ops, name)), run(getattr(twins, name))
    assert torch.equal(fast, slow)
    assert fast.dtype == slow.dtype


@examples
@given(SEEDS, st.sampled_from([torch.int32, torch.int64]))
def test_reading_slots(seed: int, index_type: torch.dtype) -> None:
    at = pool(seed, index_type)

    def run(op: Callable[..., Any]) -> torch.Tensor:
        out = blank(at.total + 3)
        op(at.requests, at.table, at.start, at.end, out, WIDTH_OF_POOL)
        return out

    both("assign_extend_cache_locs_cpu", reference_slots, run)


@examples
@given(SEEDS, st.sampled_from([torch.int32, torch.int64]))
def test_assigning_slots(seed: int, index_type: torch.dtype) -> None:
    at = pool(seed, index_type)
    given_slots = torch.randperm(5000, generator=torch.Generator().manual_seed(seed % 1000))[: at.total]

    def run(op: Callable[..., Any]) -> torch.Tensor:
        table = at.table.clone()
        op(at.requests, table, at.start, at.end, given_slots, WIDTH_OF_POOL)
        return table

    both("assign_req_to_token_pool_cpu", reference_slots, run)


@examples
@given(SEEDS, st.integers(1, 4), st.integers(1, 5))
def test_slots_of_a_draft_head(seed: int, topk: int, steps: int) -> None:
    at = pool(seed, most=WIDTH_OF_POOL - topk * steps)

    def run(op: Callable[..., Any]) -> torch.Tensor:
        out = blank(len(at.requests) * topk * steps)
        op(at.requests, at.table, at.start, out, WIDTH_OF_POOL, topk, steps)
        return out

    both("assign_draft_cache_locs_contiguous_cpu", reference_slots, run)


@examples
@given(SEEDS, st.integers(1, 4), st.integers(1, 5))
def test_slot_table_of_draft_decode(seed: int, topk: int, steps: int) -> None:
    at = pool(seed, most=WIDTH_OF_POOL - topk * steps)
    arguments = (at.table, at.requests, at.end, topk, steps, WIDTH_OF_POOL)

    fast = cache_ops.build_draft_decode_metadata_cpu(*arguments)
    slow = reference_slots.build_draft_decode_metadata_cpu(*arguments)

    assert fast.shape == slow.shape
    assert fast.dtype == torch.int32
    assert fast.is_contiguous()
    assert torch.equal(torch.where(slow == reference_slots.ABSENT, slow, fast), slow)


@examples
@given(SEEDS, st.integers(1, 6), st.integers(1, 9))
def test_slots_of_accepted_nodes(seed: int, requests: int, width: int) -> None:
    rng = random.Random(seed)
    accepted = torch.full((requests, width), -1, dtype=torch.int32)
    for i in range(requests):
        nodes = [0, *sorted(rng.sample(range(1, width), rng.randint(0, width - 1)))]
        accepted[i, : len(nodes)] = torch.tensor(nodes, dtype=torch.int32) + i * width
    slots = torch.tensor(rng.sample(range(1000), requests * width))

    def run(op: Callable[..., Any]) -> torch.Tensor:
        out = blank(requests * width)
        op(accepted, slots, out)
        return out

    both("fill_accept_out_cache_loc_cpu", reference_slots, run)


@examples
@given(SEEDS, st.integers(1, 6), st.integers(1, 9))
def test_bonus_tokens(seed: int, requests: int, stride: int) -> None:
    rng = random.Random(seed)
    tokens = torch.tensor([rng.randrange(50000) for _ in range(requests * stride)], dtype=torch.int32)
    lengths = torch.tensor([rng.randint(1, stride) for _ in range(requests)], dtype=torch.int32)

    def run(op: Callable[..., Any]) -> torch.Tensor:
        out = blank(requests, torch.int32)
        op(tokens, lengths, out, stride)
        return out

    both("fill_bonus_tokens_cpu", reference_slots, run)


class Moves(NamedTuple):
    target: torch.Tensor
    source: torch.Tensor


def random_moves(rng: random.Random, slots: int) -> Moves:
    """Targets all different; sources any, so that they overlap targets and stay where they are at times."""
    count = rng.randint(0, slots)
    target = rng.sample(range(slots), count)
    source = [t if rng.random() < 0.2 else rng.randrange(slots) for t in target]
    return Moves(torch.tensor(target, dtype=torch.int64), torch.tensor(source, dtype=torch.int64))


def random_layers(seed: int, slots: int) -> list[torch.Tensor]:
    """Key and value buffers of two layers, of different sizes and types, as SGLang's pools have them."""
    generator = torch.Generator().manual_seed(seed % 2**31)
    sizes = ((slots, 2, 8), (slots, 2, 8), (slots, 1, 5), (slots, 3, 4))
    types = (torch.bfloat16, torch.bfloat16, torch.float32, torch.bfloat16)
    return [torch.randn(s, generator=generator).to(t) for s, t in zip(sizes, types, strict=True)]


def addresses(layers: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    strides = [layer[0].numel() * layer.itemsize for layer in layers]
    return torch.tensor([layer.data_ptr() for layer in layers]), torch.tensor(strides)


@examples
@given(SEEDS, st.integers(1, 20))
def test_moving_keys_and_values(seed: int, slots: int) -> None:
    moves, results = random_moves(random.Random(seed), slots), []
    for op in (cache_ops.copy_all_layer_kv_cache_cpu, reference.copy_all_layer_kv_cache_cpu):
        layers = random_layers(seed, slots)
        before = [layer.clone() for layer in layers]
        op(*addresses(layers), moves.target, moves.source)
        for layer, old in zip(layers, before, strict=True):
            assert torch.equal(layer[moves.target], old[moves.source])
        results.append(layers)
    assert all(torch.equal(fast, slow) for fast, slow in zip(*results, strict=True))


# ---- as SGLang calls them -------------------------------------------------------------------------------------------


def test_through_sglangs_own_functions_for_slots() -> None:
    at = pool(5)
    wanted = blank(at.total)
    reference_slots.assign_extend_cache_locs_cpu(at.requests, at.table, at.start, at.end, wanted, 0)
    width = 4
    start = at.start.clamp(max=WIDTH_OF_POOL - width)
    uniform = blank(len(start) * width)
    reference_slots.assign_extend_cache_locs_cpu(at.requests, at.table, start, start + width, uniform, 0)
    got = assign_extend_cache_locs_func(at.requests, at.table, start, start + width, len(start), width, "cpu")
    assert torch.equal(got, uniform)

    table = torch.zeros_like(at.table)
    assign_req_to_token_pool_func(at.requests, table, at.start, at.end, wanted, len(at.requests))
    again = blank(at.total)
    reference_slots.assign_extend_cache_locs_cpu(at.requests, table, at.start, at.end, again, 0)
    assert torch.equal(again, wanted)

    drafts = blank(len(start) * width)
    assign_draft_cache_locs_contiguous_func(at.requests, at.table, start, drafts, 2, 2)
    assert torch.equal(drafts, uniform)


def test_through_sglangs_own_functions_for_accepted_tokens() -> None:
    accepted = torch.tensor([[0, 2, -1], [3, -1, -1]], dtype=torch.int32)
    slots, out = torch.tensor([10, 11, 12, 13, 14, 15]), blank(6)
    fill_accept_out_cache_loc_func(accepted, slots, out, accepted.numel())
    assert out.tolist() == [10, 12, 13, UNTOUCHED, UNTOUCHED, UNTOUCHED]

    bonus = blank(2, torch.int32)
    fill_bonus_tokens_func(torch.tensor([7, 8, 0, 9, 0, 0]), torch.tensor([2, 1]), bonus, 3, 2)
    assert bonus.tolist() == [8, 9]

    front = blank(3)
    fill_front_out_cache_loc_func(torch.tensor([2, 1]), slots, front)
    assert front.tolist() == [10, 11, 13]


def test_through_sglangs_own_function_for_moving() -> None:
    layers = random_layers(1, 8)
    before = [layer.clone() for layer in layers]
    target, source = torch.tensor([1, 2, 0, 5]), torch.tensor([2, 3, 4, 0])
    copy_all_layer_kv_cache_func(*addresses(layers), target, source, 3, 4, {})  # the first three only
    for layer, old in zip(layers, before, strict=True):
        assert torch.equal(layer[target[:3]], old[source[:3]])
        assert torch.equal(layer[5], old[5])


@pytest.mark.parametrize("twins", [cache_ops, reference_slots], ids=["fast", "twin"])
def test_a_plain_case_by_hand(twins: Any) -> None:
    """Two requests, topk 2, two steps: each branch's row is the sequence and then its own two slots."""
    table = torch.tensor([[10, 11, 12, 13, 14, 15, 16, 17], [20, 21, 22, 23, 24, 25, 26, 27]], dtype=torch.int32)
    built = twins.build_draft_decode_metadata_cpu(table, torch.tensor([1, 0]), torch.tensor([3, 1]), 2, 2, 8)
    assert built[0].tolist() == [20, 21, 22, 23, 24]
    assert built[1].tolist() == [20, 21, 22, 25, 26]
    assert built[2, :3].tolist() == [10, 11, 12]
    assert built[3, :3].tolist() == [10, 13, 14]
