"""The tree ops against their slow twins: walking, linking from a mask, building from a head's candidates."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import networkx
import pytest
import torch
from attention_world import mask_of, random_parents
from hypothesis import given, settings
from hypothesis import strategies as st
from sglang.kernels.ops.speculative.reconstruct_tree import reconstruct_indices_from_tree_mask_func
from sglang.kernels.ops.speculative.spec_tree import (
    TreeMaskMode,
    build_tree_kernel_efficient_func,
    verify_tree_greedy_func,
)

from sgl_spec.errors import PlatformError
from sgl_spec.platform_cpu import reference_slots, tree_ops

SEEDS = st.integers(0, 2**32 - 1)
examples = settings(deadline=None, max_examples=80)


class Links(NamedTuple):
    """What the ops write. mask: flat bool; positions: flat; the rest [requests, width]."""

    mask: torch.Tensor
    positions: torch.Tensor
    index: torch.Tensor
    child: torch.Tensor
    sibling: torch.Tensor


def blank_links(requests: int, width: int) -> Links:
    index, child, sibling = (torch.full((requests, width), -1) for _ in range(3))
    mask, positions = torch.ones(requests * width * width, dtype=torch.bool), torch.full((requests * width,), -1)
    return Links(mask, positions, index, child, sibling)


def assert_equal(fast: tuple[torch.Tensor, ...], slow: tuple[torch.Tensor, ...]) -> None:
    for a, b in zip(fast, slow, strict=True):
        assert torch.equal(a, b)


# ---- from a mask ----------------------------------------------------------------------------------------------------


class Masked(NamedTuple):
    parents: list[list[int]]
    mask: torch.Tensor
    lengths: torch.Tensor


def masked(seed: int, requests: int, width: int) -> Masked:
    rng = random.Random(seed)
    parents = [random_parents(rng, width, rng.randint(1, width)) for _ in range(requests)]
    lengths = torch.tensor([rng.randint(0, 5000) for _ in range(requests)])
    return Masked(parents, torch.stack([mask_of(p) for p in parents]).flatten(), lengths)


def reconstructed(op: Callable[..., Any], trees: Masked, width: int) -> Links:
    out = blank_links(len(trees.lengths), width)
    op(trees.mask, trees.lengths, out.positions, out.index, out.child, out.sibling, len(trees.lengths), width)
    return out


@examples
@given(SEEDS, st.integers(1, 5), st.integers(1, 20))
def test_links_from_a_mask(seed: int, requests: int, width: int) -> None:
    trees = masked(seed, requests, width)

    fast = reconstructed(tree_ops.reconstruct_indices_from_tree_mask, trees, width)

    assert_equal(fast, reconstructed(reference_slots.reconstruct_indices_from_tree_mask, trees, width))
    assert_equal(fast, reconstructed(reconstruct_indices_from_tree_mask_func, trees, width))
    for b, parents in enumerate(trees.parents):
        assert [walked_parent(fast, b, node) for node in range(width)] == parents


def walked_parent(links: Links, b: int, node: int) -> int:
    """The node whose list of children, walked by the links, has `node`; -1 if none has."""
    for parent in range(links.child.shape[1]):
        child = int(links.child[b, parent])
        while child != -1:
            if child == node:
                return parent
            child = int(links.sibling[b, child])
    return -1


# ---- walking --------------------------------------------------------------------------------------------------------


class Walk(NamedTuple):
    predicts: torch.Tensor
    accepted: torch.Tensor
    count: torch.Tensor


def walked(op: Callable[..., Any], candidates: torch.Tensor, links: Links, target: torch.Tensor, depth: int) -> Walk:
    requests, width = candidates.shape
    out = Walk(
        torch.full((requests * width,), -5, dtype=torch.int32),
        torch.full((requests, depth), -1, dtype=torch.int32),
        torch.full((requests,), -5, dtype=torch.int32),
    )
    op(predicts=out.predicts, accept_index=out.accepted, accept_token_num=out.count, candidates=candidates,
       retrive_index=links.index, retrive_next_token=links.child, retrive_next_sibling=links.sibling,
       target_predict=target)  # fmt: skip
    return out


def stock_names(predicts: torch.Tensor, accept_index: torch.Tensor, accept_token_num: torch.Tensor,
                candidates: torch.Tensor, retrive_index: torch.Tensor, retrive_next_token: torch.Tensor,
                retrive_next_sibling: torch.Tensor, target_predict: torch.Tensor) -> None:  # fmt: skip
    verify_tree_greedy_func(predicts, accept_index, accept_token_num, candidates, retrive_index, retrive_next_token,
                            retrive_next_sibling, target_predict)  # fmt: skip


@examples
@given(SEEDS, st.integers(1, 5), st.integers(1, 16), st.booleans())
def test_greedy_walk(seed: int, requests: int, width: int, shallow: bool) -> None:
    """A vocabulary of three tokens, so that matches, and siblings of one token, are frequent."""
    rng = random.Random(seed)
    links = reconstructed(reference_slots.reconstruct_indices_from_tree_mask, masked(seed, requests, width), width)
    candidates, target = (
        torch.tensor([[rng.randrange(3) for _ in range(width)] for _ in range(requests)]) for _ in "ct"
    )
    depth = rng.randint(1, width) if shallow else width

    fast = walked(tree_ops.verify_tree_greedy_cpu, candidates, links, target, depth)

    assert_equal(fast, walked(reference_slots.verify_tree_greedy_cpu, candidates, links, target, depth))
    assert_equal(fast, walked(stock_names, candidates, links, target, depth))


# ---- from a head's candidates ---------------------------------------------------------------------------------------


class Candidates(NamedTuple):
    """What SGLang's EAGLE worker hands over for each request: see `organize_draft_results`."""

    parent_list: torch.Tensor
    selected: torch.Tensor
    topk: int
    steps: int


def candidates_of_a_head(
    rng: random.Random, requests: int, topk: int, steps: int, width: int, closed: bool
) -> Candidates:
    """`steps` steps of a head: the first has topk candidates; each later one expands topk of the step before it.

    closed: whether an ancestor of a selected candidate is always selected too, as its higher score would have it.
    """
    parents, selected = [], []
    for _ in range(requests):
        listed, above = [-1, *range(topk)], dict.fromkeys(range(topk), -1)
        for step in range(1, steps):
            first = topk + topk * topk * (step - 1)
            listed_before = listed[-topk:]
            above |= {first + i: listed_before[i // topk] for i in range(topk * topk)}
            listed += rng.sample(range(first, first + topk * topk), topk)
        parents.append(listed[: 1 + topk * (steps - 1)] if steps > 1 else [])
        selected.append(choose(rng, above, width - 1, closed))
    return Candidates(torch.tensor(parents, dtype=torch.int64).view(requests, -1), torch.tensor(selected), topk, steps)


def choose(rng: random.Random, above: dict[int, int], count: int, closed: bool) -> list[int]:
    if not closed:
        return sorted(rng.sample(sorted(above), count))
    chosen: set[int] = set()
    while len(chosen) < count:
        chosen.add(
            rng.choice([c for c, parent in above.items() if c not in chosen and (parent == -1 or parent in chosen)])
        )
    return sorted(chosen)


def built(op: Callable[..., Any], head: Candidates, lengths: torch.Tensor, width: int) -> Links:
    out = blank_links(len(lengths), width)
    op(head.parent_list, head.selected, lengths, out.mask, out.positions, out.index, out.child, out.sibling, head.topk,
       head.steps, width, TreeMaskMode.QLEN_ONLY)  # fmt: skip
    return out


heads = st.tuples(SEEDS, st.integers(1, 4), st.integers(1, 4), st.integers(1, 4))


def head_of(drawn: tuple[int, int, int, int], closed: bool) -> tuple[Candidates, torch.Tensor, int]:
    seed, requests, topk, steps = drawn
    rng = random.Random(seed)
    width = 1 + rng.randint(1, topk + topk * topk * (steps - 1))
    lengths = torch.tensor([rng.randint(1, 5000) for _ in range(requests)])
    return candidates_of_a_head(rng, requests, topk, steps, width, closed), lengths, width


@examples
@given(heads)
def test_tree_of_a_heads_candidates(drawn: tuple[int, int, int, int]) -> None:
    head, lengths, width = head_of(drawn, closed=True)

    fast = built(tree_ops.build_tree_kernel_efficient_cpu, head, lengths, width)

    assert_equal(fast, built(reference_slots.build_tree_kernel_efficient_cpu, head, lengths, width))
    assert_equal(fast, built(build_tree_kernel_efficient_func, head, lengths, width))
    for b in range(len(lengths)):
        tree = networkx.DiGraph((walked_parent(fast, b, node), node) for node in range(1, width))
        mask = fast.mask.view(-1, width, width)[b]
        for node in range(width):
            seen = networkx.ancestors(tree, node) | {node}
            assert set(mask[node].nonzero().flatten().tolist()) == seen
            assert int(fast.positions[b * width + node]) == int(lengths[b]) + len(seen) - 1


@examples
@given(heads)
def test_candidates_whose_parent_was_not_selected_are_linked_from_nowhere(drawn: tuple[int, int, int, int]) -> None:
    head, lengths, width = head_of(drawn, closed=False)

    fast = built(tree_ops.build_tree_kernel_efficient_cpu, head, lengths, width)

    assert_equal(fast, built(reference_slots.build_tree_kernel_efficient_cpu, head, lengths, width))


def test_another_mask_mode_is_refused_by_name() -> None:
    head, lengths, width = head_of((1, 1, 2, 2), closed=True)
    out = blank_links(1, width)
    with pytest.raises(PlatformError, match="FULL_MASK"):
        tree_ops.build_tree_kernel_efficient_cpu(
            head.parent_list, head.selected, lengths, out.mask, out.positions, out.index, out.child, out.sibling,
            head.topk, head.steps, width, TreeMaskMode.FULL_MASK,
        )  # fmt: skip
