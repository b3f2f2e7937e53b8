"""Whether a draft head is asked: what it adds to the others, learned; what that costs; and how a verdict is revised."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgl_spec.drafting.cost_model import CostModel, CostTable, Load
from sgl_spec.drafting.drafter import DraftRequest
from sgl_spec.drafting.head.head_drafter import ORIGIN, Asking, HeadDrafter
from sgl_spec.drafting.head.head_rule import HeadCosts, HeadRule, Hope
from sgl_spec.drafting.head.head_worth import HeadWorth
from sgl_spec.drafting.hint import Hint
from sgl_spec.drafting.memory.slot_key import SlotKey
from sgl_spec.drafting.tree import Chain, DraftTree
from sgl_spec.drafting.width_rule import WidthRule

VERIFY = CostTable((1, 8, 16, 32, 64, 128), (0.050, 0.057, 0.076, 0.082, 0.139, 0.270))
EXTEND, STEP = CostTable((1, 8), (0.004, 0.005)), CostTable((1, 8), (0.003, 0.005))
SLOT, OTHER = SlotKey("o", "p", "s"), SlotKey("o", "p", "t")
STEPS = 4


def tree_of(*chains: Chain) -> DraftTree:
    tree = DraftTree(0)
    for chain in chains:
        tree.graft(chain)
    return tree


NOTHING = tree_of()
HEAD = Chain((1, 2, 3, 4), (0.5,) * 4, ORIGIN)


def worth() -> HeadWorth:
    made = HeadWorth(ORIGIN, 0.5)
    for rid, slot in (("r", SLOT), ("same slot", SLOT), ("other slot", OTHER)):
        made.start(rid, slot)
    return made


def drafter(explore: float = 0.01, verify: CostTable = VERIFY) -> HeadDrafter:
    made = HeadDrafter()
    costs = HeadCosts(CostModel(EXTEND), CostModel(STEP))
    made.adapt(HeadRule(WidthRule(CostModel(verify), explore), costs, 16))
    return made


def rounds(made: HeadDrafter, count: int, hits: int, tree: DraftTree = NOTHING, requests: int = 1) -> list[int]:
    """Steps asked for in each of `count` rounds; where the head is asked, its first `hits` tokens are right."""
    rids = [f"r{n}" for n in range(requests)]
    for rid in rids:
        made.start(DraftRequest(rid, [1], "p", "s"))
    asked = []
    for _ in range(count):
        steps = made.steps([Asking(rid, tree, 1) for rid in rids], STEPS, Load(requests, 100 * requests))
        for rid, own in zip(rids, steps, strict=True):
            if own:
                made.joined(rid, tree_of(HEAD), own)
            made.observe(rid, [*HEAD.tokens[:hits], 99])
        made.widened(9)
        asked.append(max(steps))
    return asked


def test_before_anything_is_known_a_step_brings_the_prior_beyond_what_the_others_do() -> None:
    assert worth().gains("r", NOTHING, 3) == pytest.approx([0.5, 0.75, 0.875])
    half = tree_of(Chain((7,), (0.5,), "lookup"))
    # Only where the others are wrong, or have ended.
    assert worth().gains("r", half, 2) == pytest.approx([0.25, 0.25 + 0.5 * (0.5 + 0.25)])
    sure = tree_of(Chain((7, 8), (1.0, 1.0), "lookup"))
    assert worth().gains("r", sure, 2) == pytest.approx([0.0, 0.0])


def test_what_the_head_brought_is_learned_by_depth() -> None:
    made = worth()
    for _ in range(300):
        made.learn("r", tree_of(HEAD), STEPS, [1, 2, 99])
    first, second, third, fourth = np.diff(made.gains("r", NOTHING, STEPS), prepend=0.0)
    assert first > 0.9
    assert second > 0.85
    assert third < 0.1
    assert fourth < 0.06  # never reached: half of the third, by the prior


def test_a_token_that_the_others_have_too_says_nothing_about_the_head() -> None:
    made = worth()
    both = tree_of(HEAD, Chain((1, 2, 3, 4), (0.9,) * 4, "lookup"))
    for _ in range(100):
        made.learn("r", both, STEPS, [1, 2, 3, 4, 9])
    assert made.gains("r", NOTHING, 3) == pytest.approx([0.5, 0.75, 0.875])


def test_steps_that_were_not_taken_are_not_judged() -> None:
    made = worth()
    for _ in range(100):
        made.learn("r", tree_of(Chain((1,), (0.5,), ORIGIN)), 1, [1, 2, 3])
    first, second = np.diff(made.gains("r", NOTHING, 2), prepend=0.0)
    assert second / first == pytest.approx(0.5)


def test_a_slot_and_its_requests_learn_for_themselves_first() -> None:
    made = worth()
    for _ in range(60):
        made.learn("r", tree_of(HEAD), STEPS, [99])
    own, slot, other = (float(made.gains(rid, NOTHING, 1)[0]) for rid in ("r", "same slot", "other slot"))
    assert own < slot < other < 0.5


def test_a_request_that_skips_forgets() -> None:
    made = worth()
    for _ in range(30):
        made.learn("r", tree_of(HEAD), STEPS, [99])
    before = made.gains("r", NOTHING, 1)[0]
    for _ in range(500):
        made.skipped("r")
    assert before < made.gains("r", NOTHING, 1)[0] == pytest.approx(made.gains("same slot", NOTHING, 1)[0], abs=0.01)


def test_a_good_head_is_asked_and_for_as_many_steps_as_pay() -> None:
    assert rounds(drafter(), 200, hits=4)[-50:] == [STEPS] * 50
    assert set(rounds(drafter(explore=0.0), 300, hits=1)[-50:]) == {1}


def test_a_useless_head_is_soon_asked_no_more_than_its_share_of_the_time() -> None:
    asked = rounds(drafter(), 600, hits=0)
    assert asked[0] > 0
    late = asked[100:]
    probes = sum(steps > 0 for steps in late)
    assert probes >= 2
    # A probe takes 13 ms of the head, and 1 % of 500 rounds of 50 ms is 250 ms.
    assert probes * 0.013 <= 0.01 * len(late) * 0.050 + 2 * 0.013


def test_a_head_that_became_good_comes_back_and_a_good_one_that_became_useless_goes() -> None:
    made = drafter()
    rounds(made, 300, hits=0)
    back = rounds(made, 1_500, hits=4)
    assert back[-100:] == [STEPS] * 100
    gone = rounds(made, 600, hits=0)
    assert sum(steps > 0 for steps in gone[-100:]) <= 20


def test_it_is_not_asked_where_the_others_know_and_asked_where_they_do_not() -> None:
    made = drafter(explore=0.0)
    rounds(made, 100, hits=3)
    known = tree_of(Chain(tuple(range(10)), (0.97,) * 10, "lookup"))
    made.start(DraftRequest("one", [1], "p", "s"))
    made.start(DraftRequest("two", [1], "p", "s"))
    steps = made.steps([Asking("one", known, 1), Asking("two", NOTHING, 1)], STEPS, Load(2, 200))
    assert steps[0] == 0 < steps[1]


def test_under_load_it_is_not_asked_and_when_load_falls_it_is_again() -> None:
    dear = CostTable((1, 8, 16, 512), (0.050, 0.057, 0.1, 3.2))
    made = drafter(explore=0.0, verify=dear)
    assert rounds(made, 50, hits=3)[-1] > 0
    assert rounds(made, 50, hits=3, requests=32)[-1] == 0
    assert rounds(made, 5, hits=3)[-1] > 0


def test_who_is_not_allowed_is_never_asked_and_nobody_rules_without_a_rule() -> None:
    made = HeadDrafter()
    made.start(DraftRequest("r", [1]))
    made.start(DraftRequest("not", [1], hint=Hint(origins=frozenset({"lookup"}))))
    round_ = [Asking("r", NOTHING, 2), Asking("not", NOTHING, 1), Asking("unknown", NOTHING, 1)]
    assert made.steps(round_, 4, Load(3, 0)) == [4, 0, 0]
    assert made.notes("r") == {"head": {"asked": 1, "skipped": 0, "caught_up": 2}}
    assert made.notes("not") == {"head": {"asked": 0, "skipped": 0, "caught_up": 0}}
    assert made.notes("unknown") == {}
    made.stop("r")
    assert made.steps(round_[:1], 4, Load(1, 0)) == [0]


hopes = st.builds(
    lambda chances, gains, waited: Hope(np.array(sorted(chances, reverse=True)), np.cumsum(gains), waited),
    st.lists(st.floats(0.0, 1.0), max_size=15),
    st.lists(st.floats(0.0, 1.0), min_size=STEPS, max_size=STEPS),
    st.integers(0, 1000),
)


@settings(deadline=None, max_examples=200)
@given(st.lists(hopes, min_size=1, max_size=12), st.integers(0, 20), st.integers(0, 100_000))
def test_the_choice_is_the_best_by_its_own_sum(round_: list[Hope], beside: int, context: int) -> None:
    widths, load = WidthRule(CostModel(VERIFY), 0.0), Load(len(round_) + beside, context)
    costs = HeadCosts(CostModel(EXTEND), CostModel(STEP))
    steps = HeadRule(widths, costs, 16).choose(round_, load, STEPS)
    asking = {own for own in steps if own}
    assert len(asking) <= 1
    outlook = widths.outlook([one.chances for one in round_], load, 16)
    plain = int(np.argmax(outlook.tokens / outlook.seconds))

    def rate(taken: int, count: int) -> float:
        if not count:
            return float(outlook.tokens[plain] / outlook.seconds[plain])
        at = min(plain + 2 * taken, 15)
        gains = sorted((float(one.gains[taken - 1]) for one in round_), reverse=True)[:count]
        seconds = outlook.seconds[at] + costs.extend.seconds(Load(count, 0), 1)
        return float(
            (outlook.tokens[at] + sum(gains)) / (seconds + (taken - 1) * costs.step.seconds(Load(count, 0), 1))
        )

    best = max(rate(taken, count) for taken in range(1, STEPS + 1) for count in range(len(round_) + 1))
    chosen = rate(max(steps), sum(own > 0 for own in steps))
    assert chosen == pytest.approx(best)
