"""Batch invariance of the attention kernel: a token's bits are its own, whatever is computed with it, and how.

Every node of random trees is decoded alone over its prefix and path; the same node in a tree verify, in a causal
chunk, in a decode batch and among other requests must come out equal by `torch.equal`, with one thread and two, and
with the work split by KV head or by query head.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import pytest
import torch
from attention_world import (
    DTYPES,
    GROUPS,
    HEAD_SIZES,
    Limits,
    Shape,
    Span,
    World,
    mask_of,
    path_to,
    random_parents,
)

from sgl_spec.platform_cpu import attention

WIDTH = 16
# At and around the kernel's block of 64 keys and its 16 lanes, and none at all.
PREFIXES = (0, 1, 15, 17, 63, 64, 65, 127, 130, 200)
SPLIT_BY_KV_HEAD, SPLIT_BY_QUERY_HEAD = 0, 10**9
SHAPES = [Shape(*choice) for choice in itertools.product(DTYPES, HEAD_SIZES, GROUPS)]


class Tree(NamedTuple):
    """A random tree over a random prefix. queries: [WIDTH, heads, dim]; alone: each node decoded by itself."""

    prefix: list[int]
    slots: list[int]
    parents: list[int]
    queries: torch.Tensor
    alone: torch.Tensor

    def path(self, node: int) -> list[int]:
        return path_to(node, self.parents)

    def sequence(self, node: int) -> list[int]:
        """The slots a node sees, its own last."""
        return [*self.prefix, *(self.slots[n] for n in self.path(node))]


class Setting(NamedTuple):
    threads: int
    split: int


class Forest:
    """Three random trees in one pool, and what each node gives when it is decoded alone, in the stock setting."""

    def __init__(self, shape: Shape) -> None:
        self.world = World(shape, seed=zlib.crc32(repr(shape).encode()))
        rng = self.world.rng
        self.limits = Limits(rng.choice((0.0, 0.0, 5.0)), rng.choice((0, 0, 9, 40)))
        self.trees = [self._tree(rng.choice(PREFIXES)) for _ in range(3)]

    def _tree(self, prefix_length: int) -> Tree:
        world = self.world
        parents = random_parents(world.rng, WIDTH, world.rng.randint(2, WIDTH))
        tree = Tree(world.take(prefix_length), world.take(WIDTH), parents, world.queries(WIDTH), torch.empty(0))
        return tree._replace(alone=torch.cat([self.decoded(tree, [node]) for node in range(WIDTH)]))

    def span(self, slots: list[int], extend: int = 1) -> Span:
        return Span(self.world.request(slots), len(slots), extend)

    def decoded(self, tree: Tree, nodes: list[int]) -> torch.Tensor:
        spans = [self.span(tree.sequence(node)) for node in nodes]
        return self.world.decode(attention, tree.queries[nodes], spans, self.limits)

    def verified(self, trees: list[Tree]) -> torch.Tensor:
        spans = [self.span([*tree.prefix, *tree.slots], WIDTH) for tree in trees]
        masks = torch.stack([mask_of(tree.parents) for tree in trees])
        return self.world.extend(attention, torch.cat([t.queries for t in trees]), spans, self.limits, masks)


@pytest.fixture(scope="module", params=SHAPES, ids=lambda s: f"{s.dtype}-{s.dim}-group{s.group}".removeprefix("torch."))
def forest(request: pytest.FixtureRequest) -> Forest:
    return Forest(request.param)


@pytest.fixture(params=[Setting(t, s) for t in (1, 2) for s in (SPLIT_BY_KV_HEAD, SPLIT_BY_QUERY_HEAD)], ids=repr)
def setting(request: pytest.FixtureRequest, forest: Forest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Setting]:
    """Another number of threads and another division of the work than those `forest` was decoded with."""
    threads = torch.get_num_threads()
    torch.set_num_threads(request.param.threads)
    monkeypatch.setattr(attention, "_ITEMS_WANTED", request.param.split)
    yield request.param
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("setting")
def test_a_node_in_a_tree_and_among_trees(forest: Forest) -> None:
    for order in ([0], [1], [2], [0, 1, 2], [2, 1, 0]):
        trees = [forest.trees[i] for i in order]
        wanted = torch.cat([tree.alone for tree in trees])
        assert torch.equal(forest.verified(trees), wanted), order


@pytest.mark.usefixtures("setting")
def test_a_node_in_a_causal_chunk(forest: Forest) -> None:
    """The deepest path of each tree as a prompt's last tokens: all of it, its last token only, and with others."""
    chunks = []
    for tree in forest.trees:
        path = max((tree.path(node) for node in range(WIDTH)), key=len)
        slots = tree.sequence(path[-1])
        for count in {1, len(path) // 2 + 1, len(path)}:
            chunks.append((forest.span(slots, count), tree.queries[path[-count:]], tree.alone[path[-count:]]))
    for span, queries, alone in chunks:
        assert torch.equal(forest.world.extend(attention, queries, [span], forest.limits), alone)
    spans, queries, alone = zip(*chunks, strict=True)
    assert torch.equal(forest.world.extend(attention, torch.cat(queries), spans, forest.limits), torch.cat(alone))


@pytest.mark.usefixtures("setting")
def test_a_node_decoded_with_others(forest: Forest) -> None:
    for tree in forest.trees:
        nodes = forest.world.rng.sample(range(WIDTH), WIDTH)
        assert torch.equal(forest.decoded(tree, nodes), tree.alone[nodes])


def test_equality_is_not_vacuous(forest: Forest) -> None:
    """Nodes differ from each other, are finite, and follow what they see: another key changes them."""
    tree = forest.trees[0]
    assert bool(torch.isfinite(tree.alone).all())
    assert len({tuple(row.flatten().tolist()) for row in tree.alone}) == WIDTH
    own, value = tree.slots[0], forest.world.values[tree.slots[0]].clone()
    forest.world.values[own] += 1
    changed = forest.decoded(tree, [0])
    forest.world.values[own] = value
    assert not torch.equal(changed[0], tree.alone[0])
    assert torch.equal(forest.decoded(tree, [0])[0], tree.alone[0])
