"""Merging all chains in one compiled step, against its slow twin: grafting one after the other, then pruning."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgl_spec.drafting.budget import DraftBudget, combine
from sgl_spec.drafting.chain_block import ChainBlock
from sgl_spec.drafting.flat_tree import flatten
from sgl_spec.drafting.lookup.suffix_index import SuffixIndex
from sgl_spec.drafting.lookup.suffix_search import search_block, search_chains
from sgl_spec.drafting.tree import Chain, DraftTree
from sgl_spec.drafting.tree_merge import NO_LIMITS, Limits, ProposalError, merged

probabilities = st.one_of(st.floats(0.01, 1.0), st.sampled_from([0.1, 0.25, 0.5, 1.0]))
links = st.tuples(st.integers(0, 4), probabilities)
origins = st.sampled_from(["lookup", "template", "memory", "grammar"])
chains = st.builds(
    lambda pairs, origin: Chain(tuple(t for t, _ in pairs), tuple(q for _, q in pairs), origin),
    st.lists(links, min_size=1, max_size=6),
    origins,
)
chain_lists = st.lists(chains, max_size=14)
endings = st.frozensets(st.integers(0, 5), max_size=2)


def admitted(chain: Chain, max_depth: int, ends: frozenset[int]) -> Chain:
    length = next((i for i, token in enumerate(chain.tokens) if token in ends), len(chain.tokens))
    length = min(length, max_depth)
    return Chain(chain.tokens[:length], chain.q[:length], chain.origin)


def slowly(chain_list: list[Chain], max_drafts: int, min_gain: float, ends: frozenset[int]) -> DraftTree:
    tree = DraftTree(99)
    for chain in chain_list:
        chain = admitted(chain, max_drafts, ends)
        if chain.tokens:
            tree.graft(chain)
    return tree.pruned(max_drafts, min_gain)


@settings(deadline=None, max_examples=400)
@given(chain_lists, st.integers(0, 14), st.integers(0, 20), st.sampled_from([0.0, 0.04, 0.1, 0.5]), endings)
def test_the_same_tree_bit_for_bit(chain_list, cut, max_drafts, min_gain, ends):
    cut = min(cut, len(chain_list))
    fast = merged([chain_list[:cut], chain_list[cut:]], 99, max_drafts, min_gain, Limits.of(ends))
    slow = slowly(chain_list, max_drafts, min_gain, ends)
    assert fast.nodes == slow.nodes
    assert fast.render() == slow.render()
    assert [fast.children(node) for node in range(len(fast))] == [slow.children(node) for node in range(len(slow))]
    for one, other in zip(flatten(fast, 24), flatten(slow, 24), strict=True):
        assert np.array_equal(one, other)


@settings(deadline=None, max_examples=200)
@given(chain_lists, chain_lists, st.integers(1, 10))
def test_a_merged_tree_grows_and_is_pruned_like_any_other(first, second, max_drafts):
    fast, slow = merged([first], 99, max_drafts, 0.04), slowly(first, max_drafts, 0.04, frozenset())
    for chain in second:
        fast.graft(chain)
        slow.graft(chain)
    assert fast.nodes == slow.nodes
    assert fast.pruned(6, 0.1).nodes == slow.pruned(6, 0.1).nodes
    for one, other in zip(flatten(fast, len(fast)), flatten(slow, len(slow)), strict=True):
        assert np.array_equal(one, other)


def test_grafting_leaves_what_was_read_before_alone():
    tree = merged([[Chain((1,), (0.5,), "lookup")]], 9, 5, 0.0)
    flat, q = flatten(tree, 4), tree.q
    tree.graft(Chain((1, 2), (0.9, 0.5), "memory"))
    assert (flat.size, list(q)) == (2, [1.0, 0.5])
    assert tree.q[1] == pytest.approx(1 - 0.5 * 0.1)


def test_limits_cut_before_an_ending_and_refuse_what_is_beyond_the_vocabulary():
    limits = Limits.of({7, 3}, vocab_size=10)
    kept = merged([[Chain((1, 7, 50), (0.9, 0.9, 0.9), "x"), Chain((3,), (0.9,), "x")]], 0, 15, 0.0, limits)
    assert kept.tokens == [0, 1]
    with pytest.raises(ProposalError, match="proposed token 10; the vocabulary has 10") as caught:
        merged([[Chain((1,), (0.9,), "x")], [Chain((1, 10), (0.9, 0.9), "x")]], 0, 15, 0.0, limits)
    assert caught.value.number == 1
    with pytest.raises(ProposalError, match="the vocabulary has"):
        merged([[Chain((1 << 31,), (0.9,), "x")]], 0, 15, 0.0, NO_LIMITS)


GOOD = Chain((1, 2), (0.5, 0.5), "good")


@pytest.mark.parametrize(
    "wrong",
    [
        Chain((), (), "x"),
        Chain((1,), (0.5, 0.5), "x"),
        Chain((1, 2), (0.5,), "x"),
        Chain((-1,), (0.5,), "x"),
        Chain((0.5,), (0.5,), "x"),
        Chain(("a",), (0.5,), "x"),
        Chain("ab", (0.5, 0.5), "x"),
        Chain(((1,),), (0.5,), "x"),
        Chain((None,), (0.5,), "x"),
        Chain((1 << 70,), (0.5,), "x"),
        Chain((1 << 63,), (0.5,), "x"),
        Chain(None, (0.5,), "x"),
        Chain((1,), ("a",), "x"),
        Chain((1,), ((0.5, 0.5),), "x"),
        Chain((1,), (0.0,), "x"),
        Chain((1,), (1.5,), "x"),
        Chain((1, 2), (0.5, float("nan")), "x"),
        Chain((1,), (0.5,), None),
        Chain((1,), (0.5,), ["x"]),
        Chain(([1],), (0.5,), "x"),
        ((1,), (0.5,), "x"),
        None,
    ],
)
@pytest.mark.parametrize("before", [0, 1, 3])
@pytest.mark.parametrize("limits", [NO_LIMITS, Limits.of({9})])
def test_what_is_no_chain_is_told_with_its_proposal(wrong, before, limits):
    with pytest.raises(ProposalError, match=r"chain|Chain|token") as caught:
        merged([*[[GOOD]] * before, [GOOD, wrong, GOOD], [GOOD]], 0, 15, 0.0, limits)
    assert caught.value.number == before


def test_an_empty_chain_is_refused_where_it_is_all_there_is():
    with pytest.raises(ProposalError, match="0 tokens"):
        merged([[Chain((), (), "x")]], 0, 15, 0.0)
    assert merged([[], []], 4, 15, 0.0).tokens == [4]


def test_more_origins_than_a_tree_can_tell_apart_are_refused():
    many = [Chain((n,), (0.01,), f"origin {n}") for n in range(63)]
    assert len(merged([many[:62]], 0, 100, 0.0)) == 63
    with pytest.raises(ProposalError, match="63 different origins") as caught:
        merged([many[:40], many[40:]], 0, 100, 0.0)
    assert caught.value.number == 1


def test_combine_keeps_to_the_limits_too():
    limits = Limits.of({2})
    for given_as in (list, iter):
        tree = combine(given_as([GOOD, Chain((3,), (0.4,), "x")]), 5, DraftBudget(4, 0.0), limits)
        assert tree.tokens == [5, 1, 3]


@settings(deadline=None)
@given(st.lists(st.integers(0, 3), max_size=30), chain_lists, st.integers(0, 12))
def test_a_block_of_chains_is_merged_like_the_same_chains_one_by_one(text, others, max_drafts):
    index = SuffixIndex()
    index.extend(text)
    state = index.longest_match
    block = search_block(index.automaton, state, index.length_of(state), 12, 0.04, "lookup")
    assert block == list(block) == search_chains(index.automaton, state, index.length_of(state), 12, 0.04, "lookup")
    assert len(block) == len(list(block))
    fast = merged([others, block], 9, max_drafts, 0.04)
    assert fast.nodes == merged([[*others, *block]], 9, max_drafts, 0.04).nodes
    assert fast.nodes == merged([others, list(block)], 9, max_drafts, 0.04).nodes


def test_a_block_reads_like_a_list():
    block = ChainBlock(np.array([1, 2, 1, 3, 2, 4]), np.array([0.5, 0.4, 0.5, 0.3]), "x")
    assert block[0] == Chain((1, 2), (0.5, 0.4), "x")
    assert block[1:] == [Chain((1, 3), (0.5, 0.3), "x")]
    assert block != [block[0]]
    assert block != 7
    assert repr(block) == f"ChainBlock({list(block)!r})"
    assert not ChainBlock(np.empty(0, np.int64), np.empty(0), "x")
