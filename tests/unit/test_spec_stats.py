"""Counts of rounds: by origin, once in "all", taken back after a stop, never of padding."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgl_spec.drafting.acceptance import Acceptance, accept_greedy
from sgl_spec.drafting.flat_tree import flatten
from sgl_spec.drafting.stats import SpecCounter
from sgl_spec.drafting.tree import Chain, DraftError, DraftTree


def shared_tree() -> DraftTree:
    """root -> 5 (both origins) -> 6 (lookup), root -> 7 (template)."""
    tree = DraftTree(1)
    tree.graft(Chain((5, 6), (0.5, 0.5), "lookup"))
    tree.graft(Chain((5,), (0.5,), "template"))
    tree.graft(Chain((7,), (0.1,), "template"))
    return tree


def test_a_node_counts_once_for_each_origin_and_once_in_all():
    counter = SpecCounter()
    counter.round_done(shared_tree(), Acceptance((0, 1, 2), (5, 6, 8)))
    assert counter.snapshot().to_dict() == {
        "rounds": 1,
        "drafted": {"all": 3, "lookup": 2, "template": 2},
        "reached": {"all": 3, "lookup": 2, "template": 2},
        "accepted": {"all": 2, "lookup": 2, "template": 1},
        "abstained": {},
        "tokens": 3,
    }


def test_abstained_rounds_are_rounds():
    counter = SpecCounter()
    for _ in range(2):
        counter.abstained("no_match")
        counter.round_done(DraftTree(1), Acceptance((0,), (4,)))
    counter.round_done(shared_tree(), Acceptance((0,), (4,)))
    stats = counter.snapshot().to_dict()
    assert (stats["rounds"], stats["tokens"], stats["abstained"]) == (3, 3, {"no_match": 2})
    assert stats["accepted"]["all"] == 0


@pytest.mark.parametrize(
    ("cut", "accepted", "tokens"),
    [
        (0, {"all": 2, "lookup": 2, "template": 1}, 3),
        (1, {"all": 2, "lookup": 2, "template": 1}, 2),
        (2, {"all": 1, "lookup": 1, "template": 1}, 1),
        (3, {"all": 0, "lookup": 0, "template": 0}, 0),
    ],
)
def test_a_cut_takes_the_bonus_first_and_then_drafts_from_the_end(cut, accepted, tokens):
    counter = SpecCounter()
    counter.round_done(shared_tree(), Acceptance((0, 1, 2), (5, 6, 8)), 3 - cut)
    stats = counter.snapshot().to_dict()
    assert (stats["accepted"], stats["tokens"], stats["rounds"]) == (accepted, tokens, 1)
    assert stats["drafted"]["all"] == 3


def test_no_more_can_be_kept_than_was_accepted():
    for kept in (3, -1):
        with pytest.raises(DraftError, match=f"kept is {kept}; the round accepted 2 tokens"):
            SpecCounter().round_done(shared_tree(), Acceptance((0, 1), (5, 8)), kept)


def test_foreign_acceptances_are_refused():
    with pytest.raises(DraftError, match="does not belong"):
        SpecCounter().round_done(shared_tree(), Acceptance((0, 4), (5, 6)))


def test_a_snapshot_does_not_change_later():
    counter = SpecCounter()
    before = counter.snapshot()
    counter.round_done(shared_tree(), Acceptance((0,), (5,)))
    assert before == SpecCounter().snapshot()


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=4), max_size=6),
    st.lists(st.integers(0, 2), min_size=30, max_size=30),
    st.integers(0, 9),
)
def test_counts_do_not_depend_on_padding(paths, target_tokens, padding):
    tree = DraftTree(0)
    for number, tokens in enumerate(paths):
        tree.graft(Chain(tuple(tokens), (0.3,) * len(tokens), "ab"[number % 2]))
    snapshots = []
    for width in (len(tree), len(tree) + padding):
        counter = SpecCounter()
        counter.round_done(tree, accept_greedy(flatten(tree, width), target_tokens))
        snapshots.append(counter.snapshot())
    assert snapshots[0] == snapshots[1]
    drafted = snapshots[0].to_dict()["drafted"]
    assert drafted["all"] == tree.num_drafts
    assert sum(drafted.values()) == tree.num_drafts + sum(map(len, tree.origins))
