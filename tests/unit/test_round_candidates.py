"""The candidates of a round where a refiner (a grammar) cuts and adds, against the slow way: every chain cut by itself,
grafted on a DraftTree, and the tree refined and pruned."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgl_spec.drafting.budget import DraftBudget
from sgl_spec.drafting.calibration.tables import Calibration
from sgl_spec.drafting.drafter import NO_HINT, Drafter, DraftRequest
from sgl_spec.drafting.hint import Hint
from sgl_spec.drafting.planner import DraftPlanner
from sgl_spec.drafting.tree import ROOT, Chain, DraftTree

ROOT_TOKEN = 9
ENDING = 3
chains = st.builds(
    lambda pairs, origin: Chain(tuple(t for t, _ in pairs), tuple(q for _, q in pairs), origin),
    st.lists(st.tuples(st.integers(0, 3), st.floats(0.05, 1.0)), min_size=1, max_size=5),
    st.sampled_from(["lookup", "memory"]),
)


class Fixed(Drafter):
    origin = "fixed"

    def __init__(self, chain_list: Sequence[Chain]) -> None:
        self.chain_list = list(chain_list)

    def propose(self, rid: str, max_tokens: int) -> list[Chain]:
        return self.chain_list


class Grammar:
    """Allows a path while its running sum is not divisible by `forbidden`; adds below the root and below a child."""

    origin = "grammar"

    def __init__(self, forbidden: int, active: bool = True) -> None:
        self.forbidden, self.active = forbidden, active
        self.asked: list[tuple[int, ...]] = []

    def start(self, request: DraftRequest) -> None: ...

    def observe(self, rid: str, tokens: Sequence[int]) -> None: ...

    def finish(self, rid: str, output: Sequence[int]) -> None: ...

    def stop(self, rid: str) -> None: ...

    def begin_round(self, rid: str) -> bool:
        return self.active

    def cut(self, rid: str, tokens: Sequence[int]) -> int:
        self.asked.append(tuple(tokens))
        total = 0
        for place, token in enumerate(tokens):
            total += token + 1
            if total % self.forbidden == 0:
                return place
        return len(tokens)

    def extend(self, rid: str, tree: DraftTree, max_tokens: int) -> None:
        children = sorted(tree.children(ROOT), key=tree.tokens.__getitem__)
        tree.graft(Chain((5, 6), (0.5, 1.0), "grammar.text"))
        if children:
            tree.graft(Chain((0, 7), (0.25, 1.0), "grammar.branch"), under=children[0])


def by_path(tree: DraftTree) -> dict[tuple[int, ...], tuple[float, frozenset[str]]]:
    paths: list[tuple[int, ...]] = [()]
    for node in range(1, len(tree)):
        paths.append((*paths[tree.parents[node]], tree.tokens[node]))
    return {path: (a, origins) for path, a, origins in zip(paths, tree.a, tree.origins, strict=True)}


def slowly(chain_list: Sequence[Chain], grammar: Grammar, max_drafts: int) -> DraftTree:
    tree = DraftTree(ROOT_TOKEN)
    for tokens, q, origin in chain_list:
        length = min([max_drafts, *(n for n, token in enumerate(tokens) if token == ENDING)])
        possible = grammar.cut("r", tokens[:length])
        if possible:
            tree.graft(Chain(tokens[:possible], q[:possible], origin))
    grammar.extend("r", tree, max_drafts)
    return tree.pruned(max_drafts, 0.0)


def planner(
    chain_list: Sequence[Chain], grammar: Grammar, hint: Hint = NO_HINT, calibration: Calibration | None = None
) -> DraftPlanner:
    made = DraftPlanner([Fixed(chain_list)], DraftBudget(60, 0.0), refiner=grammar, calibration=calibration)
    made.start(DraftRequest("r", [ROOT_TOKEN], endings=frozenset({ENDING}), hint=hint))
    return made


def same(one: DraftTree, other: DraftTree) -> None:
    mine, theirs = by_path(one), by_path(other)
    assert mine.keys() == theirs.keys()
    for path, (a, origins) in mine.items():
        assert origins == theirs[path][1]
        assert a == pytest.approx(theirs[path][0])


@settings(deadline=None, max_examples=300)
@given(st.lists(chains, max_size=10), st.integers(2, 9))
def test_the_refined_tree_is_the_slow_one(chain_list, forbidden):
    tree = planner(chain_list, Grammar(forbidden)).plan("r", ROOT_TOKEN, 1_000).tree
    same(tree, slowly(chain_list, Grammar(forbidden), 60))


@settings(deadline=None, max_examples=100)
@given(st.lists(chains, max_size=10), st.integers(2, 9))
def test_each_leaf_is_asked_about_once_and_neighbours_follow_each_other(chain_list, forbidden):
    grammar = Grammar(forbidden)
    planner(chain_list, grammar).plan("r", ROOT_TOKEN, 1_000)
    assert len(set(grammar.asked)) == len(grammar.asked)
    for path in grammar.asked:
        assert not any(other != path and other[: len(path)] == path for other in grammar.asked)


def test_a_refiner_with_nothing_to_say_changes_nothing():
    chain_list = [Chain((0, 1), (0.5, 0.5), "lookup")]
    grammar = Grammar(2, active=False)
    tree = planner(chain_list, grammar).plan("r", ROOT_TOKEN, 100).tree
    assert tree.tokens == [ROOT_TOKEN, 0, 1]
    assert grammar.asked == []


def test_a_request_that_wants_no_grammar_drafts_is_still_cut():
    hint = Hint(origins=frozenset({"lookup"}))
    chain_list = [Chain((0, 1, 0), (0.9, 0.9, 0.9), "lookup"), Chain((2,), (0.05,), "memory")]
    tree = planner(chain_list, Grammar(3), hint).plan("r", ROOT_TOKEN, 100).tree
    assert tree.tokens == [ROOT_TOKEN, 0]


def test_what_the_grammar_adds_to_a_draft_is_learned_as_what_both_say_together():
    calibration = Calibration()
    made = planner([Chain((5,), (0.4,), "lookup")], Grammar(7), calibration=calibration)
    tree = made.plan("r", ROOT_TOKEN, 100).tree
    assert by_path(tree)[5,][1] == {"lookup", "grammar.text"}
    # max + half of what noisy-or adds: 0.5 + 0.5 * (0.7 - 0.5)
    assert by_path(tree)[5,][0] == pytest.approx(0.6)


def test_a_refiner_that_fails_is_at_fault_itself():
    class Broken(Grammar):
        def cut(self, rid: str, tokens: Sequence[int]) -> int:
            raise RuntimeError("cut")

    made = planner([Chain((0,), (0.5,), "lookup")], Broken(3))
    assert made.plan("r", ROOT_TOKEN, 100).abstain_reason == "drafter_error"
    assert [failure.origin for failure in made.failures] == ["grammar"]
