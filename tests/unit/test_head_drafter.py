"""How what a head brings joins a plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from sgl_spec.drafting.acceptance import Acceptance
from sgl_spec.drafting.budget import DraftBudget
from sgl_spec.drafting.drafter import Drafter, DraftRequest
from sgl_spec.drafting.head.head_drafter import ORIGIN
from sgl_spec.drafting.hint import Hint
from sgl_spec.drafting.planner import DRAFTER_ERROR, NO_MATCH, DraftPlanner
from sgl_spec.drafting.tree import Chain, DraftTree


class Fixed(Drafter):
    """Proposes the same chains in every round."""

    origin = "fixed"

    def __init__(self, *chains: Chain) -> None:
        self._chains = list(chains)

    def propose(self, rid: str, max_tokens: int) -> Sequence[Chain]:
        return self._chains


class Odd:
    """A refiner that allows odd tokens only."""

    origin = "grammar"

    def start(self, request: Any) -> None: ...
    def observe(self, rid: str, tokens: Any) -> None: ...
    def finish(self, rid: str, output: Any) -> None: ...
    def stop(self, rid: str) -> None: ...
    def extend(self, rid: str, tree: DraftTree, max_tokens: int) -> None: ...

    def begin_round(self, rid: str) -> bool:
        return True

    def cut(self, rid: str, tokens: Sequence[int]) -> int:
        return next((i for i, token in enumerate(tokens) if token % 2 == 0), len(tokens))


HEAD_CHAINS = [Chain((3, 4), (0.6, 0.5), ORIGIN), Chain((3, 5), (0.6, 0.3), ORIGIN), Chain((6,), (0.2,), ORIGIN)]


def _planner(*drafters: Drafter, most: int = 15, refiner: Any = None, hint: Hint | None = None) -> DraftPlanner:
    planner = DraftPlanner(drafters, DraftBudget(most, 0.01), vocab_size=100, refiner=refiner)
    planner.start(DraftRequest("r", [1, 2], endings=frozenset({9}), hint=hint or Hint()))
    return planner


def test_candidates_join_the_plan_within_its_budget() -> None:
    planner = _planner(Fixed(Chain((3, 5, 7), (0.9, 0.9, 0.9), "fixed")), most=4)
    plan = planner.plan("r", 2, 20)
    joined = planner.join("r", plan, HEAD_CHAINS, 20)
    assert joined.tree.num_drafts == 4
    first = joined.tree.nodes[1]
    assert first.token == 3
    assert first.origins == {"fixed", ORIGIN}
    assert joined.abstain_reason is None


def test_a_round_that_only_the_head_fills_did_not_abstain() -> None:
    planner = _planner()
    plan = planner.plan("r", 2, 20)
    assert plan.abstain_reason == NO_MATCH
    joined = planner.join("r", plan, HEAD_CHAINS, 20)
    assert joined.abstain_reason is None
    planner.commit("r", joined.tree, Acceptance((0,), (8,)), (8,))
    account = planner.account("r")
    assert account["abstained"] == {}
    assert account["drafted"] == {"all": 4, ORIGIN: 4}


def test_nothing_to_join_leaves_the_reason() -> None:
    planner = _planner()
    assert planner.join("r", planner.plan("r", 2, 20), [], 20).abstain_reason == NO_MATCH
    assert planner.account("r")["abstained"] == {NO_MATCH: 1}


def test_room_endings_hints_and_grammars_hold_for_it_too() -> None:
    planner = _planner()
    assert planner.join("r", planner.plan("r", 2, 1), HEAD_CHAINS, 1).tree.num_drafts == 0
    ending = planner.join("r", planner.plan("r", 2, 20), [Chain((3, 9, 4), (0.9, 0.9, 0.9), ORIGIN)], 20)
    assert ending.tree.tokens == [2, 3]
    refused = _planner(hint=Hint(origins=frozenset({"lookup"})))
    assert refused.join("r", refused.plan("r", 2, 20), HEAD_CHAINS, 20).tree.num_drafts == 0
    held = _planner(refiner=Odd())
    assert sorted(held.join("r", held.plan("r", 2, 20), HEAD_CHAINS, 20).tree.tokens) == [2, 3, 5]


@pytest.mark.parametrize("wrong", [Chain((500,), (0.5,), ORIGIN), Chain((3,), (float("nan"),), ORIGIN), "nonsense"])
def test_a_wrong_candidate_costs_a_round_without_drafts(wrong: Any) -> None:
    planner = _planner(Fixed(Chain((3,), (0.9,), "fixed")))
    joined = planner.join("r", planner.plan("r", 2, 20), [HEAD_CHAINS[0], wrong], 20)
    assert joined.abstain_reason == DRAFTER_ERROR
    assert joined.tree.num_drafts == 0
    assert planner.failures[0].times == 1
