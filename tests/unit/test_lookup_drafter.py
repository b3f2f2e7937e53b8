"""The lookup drafter: where its guesses come from, how sure it is, and what it reaches on copied text."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgl_spec.drafting.acceptance import Acceptance, accept_greedy
from sgl_spec.drafting.budget import DraftBudget, combine
from sgl_spec.drafting.drafter import DraftRequest
from sgl_spec.drafting.flat_tree import FlatTree, flatten
from sgl_spec.drafting.lookup.lookup_drafter import LookupDrafter
from sgl_spec.drafting.lookup.suffix_search import LONG_MATCH, PRIORS
from sgl_spec.drafting.planner import DraftPlanner
from sgl_spec.drafting.stats import SpecStats
from sgl_spec.drafting.tree import Chain, DraftError, DraftTree


def proposed(text: list[int], max_tokens: int = 15, min_a: float = 0.04) -> list[Chain]:
    drafter = LookupDrafter(min_a=min_a)
    drafter.start(DraftRequest("r", text))
    return drafter.propose("r", max_tokens)


def tree_of(text: list[int], max_tokens: int = 15, min_a: float = 0.04) -> DraftTree:
    return combine(proposed(text, max_tokens, min_a), text[-1], DraftBudget(1000, 0.0))


def encoded(text: str, vocabulary: dict[str, int]) -> list[int]:
    """A stand-in tokenizer: words in pieces of at most 4 characters, single signs, digits by themselves."""
    pieces = re.findall(r" ?[A-Za-z]{1,4}|\d|\s|[^\w\s]", text)
    return [vocabulary.setdefault(piece, len(vocabulary)) for piece in pieces]


def target_tokens(flat: FlatTree, output: list[int], done: int) -> list[int]:
    """A target that writes `output` whatever it is given; 0 is never in these outputs after their end."""
    return [output[done + depth] if done + depth < len(output) else -1 for depth in flat.depths.tolist()]


def replay(prompt: list[int], output: list[int], width: int = 16) -> SpecStats:
    planner = DraftPlanner([LookupDrafter()], DraftBudget(width - 1))
    planner.start(DraftRequest("r", prompt))
    planner.observe("r", output[:1])
    done = 1
    while done < len(output):
        tree = planner.plan("r", output[done - 1], len(output) - done).tree
        flat = flatten(tree, width)
        accepted: Acceptance = accept_greedy(flat, target_tokens(flat, output, done))
        planner.commit("r", tree, accepted, accepted.tokens)
        assert list(accepted.tokens) == output[done : done + len(accepted.tokens)]
        done += len(accepted.tokens)
    return planner.stats("r")


def test_nothing_seen_before_nothing_drafted():
    assert proposed([1, 2, 3, 4]) == []
    assert proposed([]) == []


def test_continues_where_the_text_ended_like_this_before():
    (chain,) = proposed([1, 2, 3, 4, 5, 6, 1, 2, 3], max_tokens=4)
    assert chain.tokens == (4, 5, 6, 1)
    assert chain.origin == "lookup"


def test_q_rises_along_a_chain():
    (chain,) = proposed([*range(40), 0, 1, 2], max_tokens=12, min_a=0.001)
    assert chain.tokens == tuple(range(3, 15))
    assert list(chain.q) == sorted(chain.q)
    assert chain.q[0] == next(row.once for row in PRIORS if row.longest >= 3)


def test_the_longest_match_comes_first_and_shorter_ones_are_siblings():
    # "8 3" was followed by 4, "3" alone also by 5 and 6.
    tree = tree_of([3, 5, 9, 3, 6, 9, 8, 3, 4, 9, 8, 3])
    first = [tree.tokens[child] for child in tree.children(0)]
    assert first[0] == 4
    assert set(first[1:]) == {5, 6}


def test_of_equal_continuations_the_newest_is_likelier():
    tree = tree_of([3, 5, 9, 3, 6, 8, 3])
    assert [tree.tokens[child] for child in tree.children(0)] == [6, 5]


def test_of_several_continuations_the_commoner_is_likelier():
    tree = tree_of([3, 5, 0, 3, 5, 1, 3, 5, 2, 3, 6, 8, 3])
    assert [tree.tokens[child] for child in tree.children(0)] == [5, 6]


@settings(deadline=None)
@given(st.lists(st.integers(0, 3), max_size=60), st.integers(1, 20))
def test_any_text_gives_a_proper_tree(text, max_tokens):
    tree = tree_of([7, *text], max_tokens)
    assert tree.num_drafts <= max_tokens
    raw = [sum(tree.q[child] for child in tree.children(node)) for node in range(len(tree))]
    assert all(total <= 1.0 + 1e-12 for total in raw)
    assert all(a >= 0.04 - 1e-12 for a in tree.a)
    seen = [7, *text]
    pairs = set(itertools.pairwise(seen))
    for node in range(1, len(tree)):
        assert (tree.tokens[tree.parents[node]], tree.tokens[node]) in pairs, "drafts only what was seen"


@settings(deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=60))
def test_fewer_nodes_are_the_best_of_more(text):
    many = tree_of(text, 30)
    few = tree_of(text, 8)
    assert few.expected_tokens == pytest.approx(many.pruned(8, 0.0).expected_tokens)


@settings(deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.lists(st.integers(0, 3), max_size=30))
def test_output_counts_like_prompt(prompt, output):
    drafter = LookupDrafter()
    drafter.start(DraftRequest("r", prompt))
    drafter.observe("r", output)
    assert drafter.propose("r", 15) == proposed(prompt + output)


def test_requests_do_not_see_each_other():
    drafter = LookupDrafter()
    drafter.start(DraftRequest("one", [1, 2, 3, 1, 2]))
    drafter.start(DraftRequest("other", [1, 2]))
    assert drafter.propose("other", 15) == []
    assert drafter.propose("one", 15)[0].tokens[0] == 3


def test_stopped_and_unknown_requests_are_named():
    drafter = LookupDrafter()
    drafter.start(DraftRequest("r", [1, 1]))
    drafter.stop("r")
    drafter.stop("r")
    with pytest.raises(DraftError, match="rid 'r'"):
        drafter.propose("r", 15)
    with pytest.raises(DraftError, match="rid 'other'"):
        drafter.observe("other", [1])


@pytest.mark.parametrize("min_a", [-1.0, 1.5, float("nan")])
def test_a_wrong_floor_is_refused(min_a):
    with pytest.raises(DraftError, match="min_a"):
        LookupDrafter(min_a=min_a)


def test_priors_rise_with_the_match_and_are_probabilities():
    rows = [*PRIORS, LONG_MATCH]
    for lower, higher in itertools.pairwise(rows):
        assert lower.longest < higher.longest
        assert lower.once <= higher.once
        assert lower.agreed <= higher.agreed
    assert all(0.0 < row.split < row.agreed < 1.0 and row.once < row.agreed for row in rows)


def listed_items() -> str:
    colours, things = ("red", "green", "blue", "amber"), ("box", "lamp", "chair")
    return "".join(
        f"item {n * 7919 % 10007}: {colours[n % 4]} {things[n * n % 3]}, weighs {n * 31 % 97} kg\n" for n in range(300)
    )


def test_a_copied_list_of_300_lines_takes_over_6_tokens_a_step():
    vocabulary: dict[str, int] = {}
    prompt = encoded(f"Copy this list exactly.\n{listed_items()}\nCopy:\n", vocabulary)
    output = encoded(listed_items(), vocabulary)
    stats = replay(prompt, output)
    assert stats.tokens == len(output) - 1
    assert stats.tokens / stats.rounds > 6.0


def test_an_edited_list_still_pays_and_novel_text_is_not_drafted():
    vocabulary: dict[str, int] = {}
    prompt = encoded(f"Double every weight.\n{listed_items()}\n", vocabulary)
    edited = re.sub(r"(\d+) kg", lambda match: f"{2 * int(match[1])} kg", listed_items())
    stats = replay(prompt, encoded(edited, vocabulary))
    assert stats.tokens / stats.rounds > 2.5
    fresh = list(range(10_000, 10_200))
    novel = replay(prompt, fresh)
    assert (novel.rounds, novel.tokens) == (199, 199)
    assert [(count.drafted, count.accepted) for count in novel.origins] == [(0, 0)]
    assert {count.reason: count.rounds for count in novel.abstained} == {"no_match": 198, "no_room": 1}
