"""Rounds of a batch: one width for all by tokens and time, and what is learned of their cost."""

from __future__ import annotations

from sgl_spec.drafting.acceptance import Acceptance
from sgl_spec.drafting.budget import DraftBudget
from sgl_spec.drafting.calibration.tables import Calibration
from sgl_spec.drafting.cost_model import IGNORED_ROUNDS, CostModel, CostTable, Load
from sgl_spec.drafting.drafter import Drafter, DraftRequest
from sgl_spec.drafting.hint import Hint
from sgl_spec.drafting.planner import DraftPlan, DraftPlanner, RoundPlan
from sgl_spec.drafting.tree import Chain, DraftTree
from sgl_spec.drafting.width_rule import WidthRule

FREE = CostTable((1, 512), (0.05, 0.0500001))
DEAR = CostTable((1, 512), (0.05, 25.6))


class Says(Drafter):
    """Proposes for each request what it was given for it."""

    origin = "says"

    def __init__(self, **chains: Chain) -> None:
        self.chains = chains
        self.asked = 0

    def propose(self, rid: str, max_tokens: int) -> list[Chain]:
        self.asked += 1
        if rid == "broken":
            raise RuntimeError(rid)
        return [self.chains[rid]] if rid in self.chains else []


def chain(*q: float) -> Chain:
    return Chain(tuple(range(1, len(q) + 1)), q, "says")


class Ticking:
    """Later by a step at every look."""

    def __init__(self, step: float) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def planner(
    drafter: Drafter,
    table: CostTable | None = None,
    calibration: Calibration | None = None,
    step: float = 0.0,
) -> DraftPlanner:
    made = DraftPlanner([drafter], DraftBudget(15, 0.01), calibration=calibration, clock=Ticking(step))
    made.adapt(None if table is None else WidthRule(CostModel(table)))
    for rid in ("sure", "unsure", "silent", "broken"):
        made.start(DraftRequest(rid, [9], "p", "s"))
    return made


def plan(made: DraftPlanner, *rids: str, room: int = 100, beside: int = 0) -> RoundPlan:
    made.open_round(Load(len(rids) + beside, 100))
    return made.narrow(rids, [made.plan(rid, 9, room) for rid in rids])


def sizes(planned: RoundPlan) -> list[int]:
    return [len(one.tree) for one in planned.plans]


DRAFTER = {"sure": chain(*[0.99] * 12), "unsure": chain(0.3, 0.3)}


def test_every_request_fills_the_common_width_with_its_best():
    planned = plan(planner(Says(**DRAFTER), FREE), "sure", "silent", "unsure")
    assert planned.width == 13
    assert sizes(planned) == [13, 1, 3]
    assert [one.abstain_reason for one in planned.plans] == [None, "no_match", None]


def test_when_nothing_pays_all_decode_plainly_and_say_why():
    made = planner(Says(**DRAFTER), DEAR)
    planned = plan(made, "unsure", "silent", beside=30)
    assert (planned.width, sizes(planned)) == (1, [1, 1])
    assert [one.abstain_reason for one in planned.plans] == ["no_gain", "no_match"]
    assert made.stats("unsure").to_dict()["abstained"] == {"no_gain": 1}


def test_without_a_rule_the_width_is_what_the_budget_has_candidates_for():
    assert plan(planner(Says(**DRAFTER)), "sure", "unsure").width == 13
    assert plan(planner(Says()), "sure").width == 1
    assert plan(planner(Says(**DRAFTER), FREE)).width == 1


def test_a_broken_drafter_costs_its_request_alone():
    planned = plan(planner(Says(**DRAFTER), FREE), "broken", "sure")
    assert [one.abstain_reason for one in planned.plans] == ["drafter_error", None]
    assert sizes(planned) == [1, 13]


def test_room_bounds_depth_and_a_hint_its_own_tree():
    made = planner(Says(**DRAFTER), FREE)
    assert sizes(plan(made, "sure", room=4)) == [4]
    assert plan(made, "sure", room=1).plans[0].abstain_reason == "no_room"
    made.start(DraftRequest("sure", [9], hint=Hint(width=3)))
    assert sizes(plan(made, "sure", "unsure")) == [3, 3]


def test_requests_that_the_server_keeps_out_are_part_of_the_round():
    made = planner(Says(**DRAFTER), FREE)
    made.open_round(Load(2, 100))
    made.abstain("silent", "logit_processor")
    left_out = DraftPlan(DraftTree(9), "logit_processor")
    planned = made.narrow(["silent", "sure"], [left_out, made.plan("sure", 9, 100)])
    assert planned.plans[0] is left_out
    assert planned.width == len(planned.plans[1].tree) == 13


def test_what_a_head_adds_counts_for_the_width():
    made = planner(Says(**DRAFTER), FREE)
    made.open_round(Load(1, 100))
    joined = made.join("silent", made.plan("silent", 9, 100), [Chain((4, 5, 6), (0.9,) * 3, "eagle")], 100)
    planned = made.narrow(["silent"], [joined])
    assert planned.width == 4
    assert planned.plans[0].tree.tokens == [9, 4, 5, 6]
    dear = planner(Says(**DRAFTER), DEAR)
    dear.open_round(Load(8, 100))
    joined = dear.join("silent", dear.plan("silent", 9, 100), [Chain((4,), (0.5,), "eagle")], 100)
    planned = dear.narrow(["silent"], [joined])
    assert (planned.width, planned.plans[0].abstain_reason) == (1, "no_gain")
    assert dear.stats("silent").to_dict()["abstained"] == {"no_gain": 1}


def test_resting_rounds_ask_nobody():
    drafter = Says(unsure=chain(0.01))
    made = planner(drafter, DEAR, step=0.02)  # asking takes nearly as long as a round
    for _ in range(20):
        assert plan(made, "unsure").width == 1
    assert drafter.asked == 1


def test_rounds_teach_what_they_cost_unless_something_came_between():
    made = planner(Says(**DRAFTER), FREE, step=0.05)
    costs = made._rule.costs
    for _ in range(IGNORED_ROUNDS + 3):
        plan(made, "sure")
    assert costs.rounds == 2  # the last round is still open
    made.interrupted()
    plan(made, "sure")
    assert costs.rounds == 2
    plan(made, "sure")
    assert costs.rounds == 3
    made.adapt(None)
    plan(made, "sure")
    plan(made, "sure")
    assert costs.rounds == 3


def test_rounds_that_verified_nothing_teach_too():
    calibration = Calibration()
    made = planner(Says(**DRAFTER), DEAR, calibration)
    for _ in range(50):
        tree = plan(made, "unsure", beside=30).plans[0].tree
        assert tree.num_drafts == 0
        made.commit("unsure", tree, Acceptance((0,), (1,)), (1,))
    assert calibration.changes == 50
    assert made.calibration_errors() == ()
    made.adapt(None)
    assert plan(made, "unsure").plans[0].tree.q[1] > 0.6
