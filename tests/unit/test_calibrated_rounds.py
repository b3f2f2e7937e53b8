"""Rounds with a calibration: what is learned of them, whoever was asked, and what is told of it."""

from __future__ import annotations

import pytest

from sgl_spec.drafting.acceptance import Acceptance
from sgl_spec.drafting.budget import DraftBudget
from sgl_spec.drafting.calibration.reliability import told
from sgl_spec.drafting.calibration.tables import Calibration
from sgl_spec.drafting.drafter import Drafter, DraftRequest
from sgl_spec.drafting.hint import Hint
from sgl_spec.drafting.planner import DraftPlan, DraftPlanner
from sgl_spec.drafting.tree import Chain

LOOKED_UP = Chain((1, 2), (0.3, 0.3), "lookup")
GROWN = Chain((7,), (0.3,), "eagle")


class Says(Drafter):
    origin = "lookup"

    def propose(self, rid: str, max_tokens: int) -> list[Chain]:
        return [LOOKED_UP]


def started(calibration: Calibration | None, drafter: Drafter | None = None, hint: Hint | None = None) -> DraftPlanner:
    planner = DraftPlanner([drafter or Says()], DraftBudget(15, 0.001), calibration=calibration)
    planner.start(DraftRequest("r", [9], "p", "s", hint=hint or Hint()))
    return planner


def commit(planner: DraftPlanner, plan: DraftPlan, *tokens: int, kept: int | None = None) -> None:
    """The first tokens were drafted, in the order of LOOKED_UP."""
    planner.commit("r", plan.tree, Acceptance(tuple(range(len(tokens))), tokens), tokens[:kept])


def trials(calibration: Calibration) -> float:
    return float(calibration.coarse[:, 0].sum())


def q_of(plan: DraftPlan, token: int) -> float:
    return plan.tree.q[plan.tree.tokens.index(token)]


def test_a_round_teaches_the_next() -> None:
    planner = started(Calibration())
    assert q_of(planner.plan("r", 9, 50), 1) == pytest.approx(0.3)
    commit(planner, planner.plan("r", 9, 50), 1, 2, 8)
    assert q_of(planner.plan("r", 9, 50), 1) > 0.3


def test_tokens_that_were_cut_off_are_not_learned() -> None:
    calibration = Calibration()
    planner = started(calibration)
    commit(planner, planner.plan("r", 9, 50), 1, 2, 8, kept=1)
    assert trials(calibration) == pytest.approx(1.0)
    commit(planner, planner.plan("r", 9, 50), 1, 2, 8, kept=0)
    assert trials(calibration) == pytest.approx(1.0)


def test_a_round_that_was_not_planned_or_failed_teaches_nothing() -> None:
    calibration = Calibration()
    planner = started(calibration)
    planner.plan("r", 9, 50)
    planner.abstain("r", "logit_processor")
    nothing = planner.plan("r", 9, 1)
    commit(planner, nothing, 1)
    planner.plan("r", 9, 50)
    planner.start(DraftRequest("r", [9]))
    commit(planner, nothing, 1)
    failed = planner.join("r", planner.plan("r", 9, 50), [Chain((1,), (2.0,), "eagle")], 50)
    assert failed.abstain_reason == "drafter_error"
    commit(planner, failed, 1)
    assert calibration.changes == 0


def test_what_joined_later_is_calibrated_too() -> None:
    planner = started(Calibration())
    for _ in range(200):
        joined = planner.join("r", planner.plan("r", 9, 50), [GROWN], 50)
        assert joined.tree.origins[joined.tree.tokens.index(7)] == {"eagle"}
        planner.commit("r", joined.tree, Acceptance((0,), (7,)), (7,))
    joined = planner.join("r", planner.plan("r", 9, 50), [GROWN], 50)
    assert q_of(joined, 7) > 0.7
    assert 1 not in joined.tree.tokens


def test_the_silence_of_a_head_that_was_asked_is_not_its_absence() -> None:
    planner = started(Calibration())
    for _ in range(200):  # where the head is asked lookup is wrong, where it is not, right
        joined = planner.join("r", planner.plan("r", 9, 50), [GROWN], 50)
        planner.commit("r", joined.tree, Acceptance((0,), (7,)), (7,))
        commit(planner, planner.plan("r", 9, 50), 1, 8)
    plan = planner.plan("r", 9, 50)
    assert q_of(plan, 1) > 0.5
    assert 1 not in planner.join("r", plan, [GROWN], 50).tree.tokens


def test_errors_are_the_servers_and_no_requests() -> None:
    planner = started(Calibration())
    assert told(planner.calibration_errors()) == {}
    for _ in range(2):
        commit(planner, planner.plan("r", 9, 50), 1, 8)
    every, first, second = planner.calibration_errors()
    assert (every.depth, first.depth, second.depth) == ("all", "1", "2")
    said = told(planner.calibration_errors())["lookup"]
    assert said["nodes"] == 4
    assert said["depths"].keys() == {"1", "2"}
    assert 0.0 < said["error"] < 1.0
    assert "calibration" not in planner.account("r"), "what others did is not a client's to know"


def test_without_a_calibration_drafters_are_trusted() -> None:
    planner = started(None)
    for _ in range(100):
        commit(planner, planner.plan("r", 9, 50), 8)
    assert q_of(planner.plan("r", 9, 50), 1) == 0.3
    assert planner.calibration_errors() == ()
