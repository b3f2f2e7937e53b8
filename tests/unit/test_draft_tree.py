"""DraftTree: merging, the order of grafting, pruning, printing."""

from __future__ import annotations

import itertools
import math

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgl_spec.drafting.budget import DraftBudget, combine
from sgl_spec.drafting.tree import Chain, DraftError, DraftTree
from sgl_spec.errors import ConfigError, SglSpecError

probabilities = st.floats(0.01, 1.0)
links = st.tuples(st.integers(0, 4), probabilities)
chains = st.builds(
    lambda pairs, origin: Chain(tuple(t for t, _ in pairs), tuple(q for _, q in pairs), origin),
    st.lists(links, min_size=1, max_size=6),
    st.sampled_from(["lookup", "template", "memory"]),
)
chain_lists = st.lists(chains, max_size=12)


def grown(chain_list: list[Chain]) -> DraftTree:
    tree = DraftTree(99)
    for chain in chain_list:
        tree.graft(chain)
    return tree


def paths(tree: DraftTree) -> dict[tuple[int, ...], int]:
    """Each node by the tokens on its path: a name that does not depend on numbering."""
    named: dict[tuple[int, ...], int] = {(): 0}
    by_node: list[tuple[int, ...]] = [()]
    for node in range(1, len(tree)):
        path = (*by_node[tree.parents[node]], tree.tokens[node])
        by_node.append(path)
        named[path] = node
    return named


@settings(deadline=None)
@given(chain_lists)
def test_nodes_are_the_prefixes_of_the_chains(chain_list):
    tree = grown(chain_list)
    prefixes = {chain.tokens[:n] for chain in chain_list for n in range(1, len(chain.tokens) + 1)}
    named = paths(tree)
    assert set(named) == prefixes | {()}
    assert tree.num_drafts == len(prefixes) == len(tree) - 1
    for path, node in named.items():
        assert tree.depths[node] == len(path)
        origins = {chain.origin for chain in chain_list if path and chain.tokens[: len(path)] == path}
        assert tree.origins[node] == origins


@settings(deadline=None)
@given(chain_lists)
def test_children_q_sum_to_at_most_one(chain_list):
    tree = grown(chain_list)
    for node in range(len(tree)):
        children = tree.children(node)
        assert sum(tree.q[child] for child in children) <= 1.0 + 1e-12
        assert [tree.a[child] for child in children] == sorted((tree.a[c] for c in children), reverse=True)
        assert len({tree.tokens[child] for child in children}) == len(children)


@settings(deadline=None)
@given(chain_lists)
def test_a_is_the_product_of_q_along_the_path(chain_list):
    tree = grown(chain_list)
    for node in range(len(tree)):
        path, at = [], node
        while at != 0:
            path.append(tree.q[at])
            at = tree.parents[at]
        assert tree.a[node] == pytest.approx(math.prod(path))
    assert tree.expected_tokens == pytest.approx(1 + sum(tree.a[1:]))


@settings(deadline=None)
@given(chain_lists, st.randoms(use_true_random=False))
def test_the_order_of_grafting_does_not_matter(chain_list, random):
    shuffled = list(chain_list)
    random.shuffle(shuffled)
    one, other = grown(chain_list), grown(shuffled)
    names, other_names = paths(one), paths(other)
    assert set(names) == set(other_names)
    for path, node in names.items():
        assert one.q[node] == pytest.approx(other.q[other_names[path]], rel=1e-12)
        assert one.origins[node] == other.origins[other_names[path]]


def test_agreeing_origins_raise_q_and_one_origin_repeating_itself_does_not():
    twice = grown([Chain((7,), (0.5,), "lookup")] * 2)
    both = grown([Chain((7,), (0.5,), "lookup"), Chain((7,), (0.4,), "template")])
    assert twice.q[1] == 0.5
    assert both.q[1] == pytest.approx(1 - 0.5 * 0.6)
    assert both.origins[1] == {"lookup", "template"}
    assert both.num_drafts == 1


@settings(deadline=None)
@given(chain_lists, st.integers(0, 10), st.floats(0.0, 0.5))
def test_pruned_is_the_best_connected_tree(chain_list, max_drafts, min_gain):
    tree = grown(chain_list)
    pruned = tree.pruned(max_drafts, min_gain)
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(pruned)))
    graph.add_edges_from((pruned.parents[node], node) for node in range(1, len(pruned)))
    assert nx.is_arborescence(graph)
    allowed = sorted((a for a in tree.a[1:] if a >= min_gain), reverse=True)
    assert sorted(pruned.a[1:], reverse=True) == allowed[:max_drafts]
    names = paths(tree)
    for path, node in paths(pruned).items():
        assert pruned.nodes[node][3:] == tree.nodes[names[path]][3:]
        assert pruned.depths[node] == len(path)


@settings(deadline=None)
@given(st.lists(chains, min_size=1, max_size=5), st.integers(1, 5))
def test_no_connected_set_of_nodes_beats_pruned(chain_list, max_drafts):
    """Against brute force over all subsets closed under parents."""
    tree = grown(chain_list)
    if len(tree) > 14:
        tree = tree.pruned(13, 0.0)
    best = 0.0
    for size in range(min(max_drafts, tree.num_drafts) + 1):
        for subset in itertools.combinations(range(1, len(tree)), size):
            if all(tree.parents[node] == 0 or tree.parents[node] in subset for node in subset):
                best = max(best, sum(tree.a[node] for node in subset))
    assert tree.pruned(max_drafts, 0.0).expected_tokens == pytest.approx(1 + best)


@settings(deadline=None)
@given(chain_lists, chain_lists)
def test_a_pruned_tree_can_be_grafted_on(first, second):
    tree = grown(first).pruned(8, 0.02)
    kept = set(paths(tree))
    for chain in second:
        tree.graft(chain)
    named = paths(tree)
    assert set(named) == kept | {c.tokens[:n] for c in second for n in range(1, len(c.tokens) + 1)}
    for node in range(len(tree)):
        assert sum(tree.q[child] for child in tree.children(node)) <= 1.0 + 1e-12


def test_graft_under_a_node():
    tree = grown([Chain((1, 2), (0.9, 0.8), "lookup")])
    tree.graft(Chain((5,), (0.1,), "template"), under=2)
    assert paths(tree)[1, 2, 5] == 3
    with pytest.raises(DraftError, match="under is 4"):
        tree.graft(Chain((5,), (0.1,), "template"), under=4)


@pytest.mark.parametrize(
    "chain",
    [
        Chain((), (), "x"),
        Chain((1,), (0.5, 0.5), "x"),
        Chain((-1,), (0.5,), "x"),
        Chain((0.5,), (0.5,), "x"),
        Chain(("a",), (0.5,), "x"),
        Chain((1,), ("a",), "x"),
        Chain((1,), (0.0,), "x"),
        Chain((1,), (1.5,), "x"),
        Chain((1, 2), (0.5, float("nan")), "x"),
        Chain((1, 2), (float("nan"), 0.5), "x"),
        Chain((1,), (0.5,), None),
    ],
)
def test_malformed_chains_are_refused_and_leave_the_tree_alone(chain):
    tree = grown([Chain((1,), (0.5,), "lookup")])
    before = tree.render()
    with pytest.raises(DraftError, match="chain") as caught:
        tree.graft(chain)
    assert isinstance(caught.value, SglSpecError)
    assert tree.render() == before


def test_render_shows_every_node_once():
    text = grown([Chain((1, 2), (0.5, 0.5), "lookup"), Chain((1, 3), (0.5, 0.4), "template")]).render()
    assert text.splitlines() == [
        "root 99  expected tokens 2.42",
        "└─ 1  q=0.750 a=0.750 lookup+template",
        "   ├─ 2  q=0.500 a=0.375 lookup",
        "   └─ 3  q=0.400 a=0.300 template",
    ]


def test_render_of_a_very_deep_tree():
    deep = grown([Chain((1,) * 3000, (1.0,) * 3000, "lookup")])
    assert len(deep.render().splitlines()) == 3001


@settings(deadline=None)
@given(chain_lists)
def test_combine_is_graft_and_prune(chain_list):
    budget = DraftBudget(max_drafts=5, min_gain=0.1)
    assert combine(chain_list, 99, budget).nodes == grown(chain_list).pruned(5, 0.1).nodes


@pytest.mark.parametrize("wrong", [{"max_drafts": -1}, {"min_gain": -0.1}, {"min_gain": 1.5}, {"min_gain": math.nan}])
def test_budget_refuses(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        DraftBudget(**wrong)


def test_the_first_nodes_of_a_pruned_tree_are_the_tree_pruned_to_fewer() -> None:
    chains = [
        Chain((1, 2, 3), (0.9, 0.8, 0.7), "lookup"),
        Chain((1, 4), (0.5, 0.6), "memory"),
        Chain((5,), (0.1,), "x"),
    ]
    slow = DraftTree(0)
    for chain in chains:
        slow.graft(chain)
    for wide in (combine(chains, 0, DraftBudget(15, 0.0)), slow.pruned(15, 0.0)):
        for count in range(1, len(wide) + 1):
            narrow = slow.pruned(count - 1, 0.0)
            first = wide.first(count)
            assert first.nodes == narrow.nodes
            assert first.chances.tolist() == list(narrow.a[1:])
            for tree in (first, narrow):  # which goes on as any tree
                tree.graft(Chain((1, 9), (0.4, 0.4), "late"))
            assert first.nodes == narrow.nodes
