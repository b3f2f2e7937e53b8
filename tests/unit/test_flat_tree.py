"""FlatTree: the round trip, the mask against networkx, the links, the padding."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgl_spec.drafting.flat_tree import FlatTree, flatten, unflatten
from sgl_spec.drafting.tree import Chain, DraftError, DraftTree

chains = st.lists(st.tuples(st.integers(0, 3), st.floats(0.01, 1.0)), min_size=1, max_size=5)


@st.composite
def trees(draw) -> DraftTree:
    tree = DraftTree(draw(st.integers(0, 9)))
    for pairs in draw(st.lists(chains, max_size=6)):
        tree.graft(Chain(tuple(t for t, _ in pairs), tuple(q for _, q in pairs), "lookup"))
    return tree.pruned(12, 0.0) if draw(st.booleans()) else tree


def same(one: FlatTree, other: FlatTree) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@settings(deadline=None)
@given(trees(), st.integers(0, 20))
def test_round_trip(tree, padding):
    flat = flatten(tree, len(tree) + padding)
    again = unflatten(flat)
    assert (again.root_token, again.tokens) == (tree.root_token, tree.tokens)
    assert (again.parents, again.depths) == (tree.parents, tree.depths)
    assert [again.children(node) for node in range(len(again))] == [tree.children(n) for n in range(len(tree))]
    assert same(flatten(again, flat.width), flat)


@settings(deadline=None)
@given(trees(), st.integers(0, 20))
def test_mask_is_the_ancestor_closure(tree, padding):
    flat = flatten(tree, len(tree) + padding)
    graph = nx.DiGraph()
    graph.add_nodes_from(range(flat.width))
    graph.add_edges_from((int(flat.parents[node]), node) for node in range(1, flat.size))
    expected = np.zeros((flat.width, flat.width), dtype=bool)
    for node in graph:
        expected[node, [node, *nx.ancestors(graph, node)]] = True
    assert flat.mask.dtype == np.bool_
    assert np.array_equal(flat.mask, expected)


@settings(deadline=None)
@given(trees(), st.integers(0, 20))
def test_links_reach_every_real_node_once_and_no_padding(tree, padding):
    flat = flatten(tree, len(tree) + padding)
    reached = [0]
    for node in reached:
        child = int(flat.next_child[node])
        falling = []
        while child != -1:
            assert flat.parents[child] == node
            falling.append(tree.a[child])
            reached.append(child)
            child = int(flat.next_sibling[child])
        assert falling == sorted(falling, reverse=True)
    assert sorted(reached) == list(range(flat.size))


@settings(deadline=None)
@given(trees(), st.integers(0, 20))
def test_shapes_and_padding(tree, padding):
    flat = flatten(tree, len(tree) + padding)
    assert (flat.width, flat.size) == (len(tree) + padding, len(tree))
    for column in (flat.tokens, flat.parents, flat.depths, flat.next_child, flat.next_sibling):
        assert column.shape == (flat.width,)
        assert column.dtype == np.int64
    assert (flat.parents[flat.size :] == -1).all()
    assert (flat.parents[1 : flat.size] < np.arange(1, flat.size)).all()
    assert (flat.next_child[flat.size :] == -1).all()
    assert (flat.next_sibling[flat.size :] == -1).all()


@settings(deadline=None)
@given(trees())
def test_pruned_trees_lie_in_descending_a(tree):
    pruned = tree.pruned(10, 0.0)
    assert list(pruned.a) == sorted(pruned.a, reverse=True)
    assert flatten(pruned, 11).tokens[: len(pruned)].tolist() == pruned.tokens


def test_too_narrow_is_refused():
    tree = DraftTree(1)
    tree.graft(Chain((1, 2), (0.5, 0.5), "lookup"))
    with pytest.raises(DraftError, match=r"width is 2.*3 nodes"):
        flatten(tree, 2)


def test_unflatten_refuses_repeated_siblings():
    tree = DraftTree(1)
    tree.graft(Chain((5,), (0.5,), "lookup"))
    tree.graft(Chain((6,), (0.4,), "lookup"))
    flat = flatten(tree, 3)
    flat.tokens[2] = 5
    with pytest.raises(DraftError, match="repeats"):
        unflatten(flat)
