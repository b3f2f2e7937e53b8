"""How wide a round is: the width with the most tokens a second, from one request to a full batch, and back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgl_spec.drafting.cost_model import CostModel, CostTable, Load
from sgl_spec.drafting.width_rule import (
    EXPLORE,
    MOST_RESTED_ROUNDS,
    STALE_ROUNDS,
    WidthRule,
)

# Rows are free up to 8 and then cost in proportion: a step as CPUs have it.
STEP = CostTable((1, 8, 16, 512), (0.050, 0.050, 0.100, 3.2))
falling = st.lists(st.floats(0.0, 1.0), max_size=30).map(lambda a: np.array(sorted(a, reverse=True)))


def chances(*a: float) -> np.ndarray:
    return np.array(a)


def rate(model: CostModel, every: list[np.ndarray], load: Load, width: int, drafting: float) -> float:
    tokens = load.requests + sum(float(one[: width - 1].sum()) for one in every)
    return tokens / (drafting + model.seconds(load, width))


@settings(deadline=None, max_examples=300)
@given(st.lists(falling, min_size=1, max_size=12), st.integers(0, 4), st.integers(0, 5_000), st.floats(0.0, 0.1))
def test_no_other_width_has_more_tokens_a_second(every, silent, context, drafting):
    model = CostModel(STEP._replace(per_key=1e-8))
    load = Load(len(every) + silent, context)
    width = WidthRule(model).choose(every, load, drafting)
    most = max(len(one) for one in every) + 1
    best = max(rate(model, every, load, other, drafting) for other in range(1, most + 1))
    assert 1 <= width <= most
    assert rate(model, every, load, width, drafting) == pytest.approx(best, rel=1e-9)


def test_nodes_that_do_not_pay_are_left_out_and_a_round_with_nothing_is_plain():
    rule = WidthRule(CostModel(STEP))
    assert rule.choose([chances(0.9, 0.8, *[0.5] * 5, *[0.01] * 20)], Load(1, 0), 0.0) == 8
    assert rule.choose([], Load(3, 0), 0.0) == 1
    assert rule.choose([chances()], Load(1, 0), 0.0) == 1
    assert WidthRule(CostModel(CostTable((1, 2), (0.05, 0.10)))).choose([chances(0.5)], Load(1, 0), 0.0) == 1


def test_as_load_grows_width_shrinks_to_a_plain_step_and_comes_back():
    rule = WidthRule(CostModel(STEP))
    one = chances(0.6, 0.4, 0.3, 0.2, 0.1, 0.1, 0.1)

    def widths(loads: list[int]) -> list[int]:
        return [rule.choose([one] * requests, Load(requests, 0), 0.0) for requests in loads]

    growing = widths([1, 2, 4, 8, 16, 32])
    assert growing == sorted(growing, reverse=True)
    assert (growing[0], growing[-1]) == (8, 1)
    assert widths([32, 16, 8, 4, 2, 1]) == growing[::-1]


def test_a_request_that_knows_much_is_drafted_beside_many_that_know_nothing():
    rule = WidthRule(CostModel(STEP))
    assert rule.choose([chances(*[0.99] * 30), chances(0.01), chances()], Load(3, 0), 0.0) > 2


def test_a_width_not_seen_for_long_is_tried_now_and_then_at_a_bounded_price():
    model = CostModel(CostTable((1, 2, 4, 8), (0.050, 0.070, 0.090, 0.130)))
    rule, load, spent, tried = WidthRule(model), Load(1, 0), 0.0, 0
    poor = [chances(0.1, 0.05, 0.02)]
    for _ in range(6 * STALE_ROUNDS):
        width = rule.choose(poor, load, 0.0)
        seconds = model.seconds(load, width)
        model.observe(load, width, seconds)
        tried += width > 1
        spent += seconds
    assert 2 <= tried <= 8
    rounds = 6 * STALE_ROUNDS
    assert spent / rounds < 0.050 * (1 + EXPLORE)


def test_a_width_that_became_cheap_is_found_out():
    before, now = (CostModel(CostTable((1, 2, 4, 8), (0.05, s, s, s))) for s in (0.12, 0.05))
    rule, widths = WidthRule(before), []
    for _ in range(40 * STALE_ROUNDS):
        width = rule.choose([chances(0.3, 0.3, 0.3)], Load(1, 0), 0.0)
        before.observe(Load(1, 0), width, now.seconds(Load(1, 0), width))
        widths.append(width)
        if width == 4 and len(set(widths[-20:])) == 1:
            break
    assert widths[0] == 1
    assert widths[-1] == 4


def test_where_asking_costs_time_and_nothing_pays_drafters_are_asked_less():
    rule, load = WidthRule(CostModel(CostTable((1, 512), (0.010, 5.12)))), Load(64, 0)
    asked = 0
    for _ in range(1_000):
        if not rule.rests(load):
            asked += 1
            assert rule.choose([chances(0.2)] * 64, load, 0.003) == 1
    costs = rule.costs.seconds(load, 1)
    assert asked * 0.003 <= 1.1 * EXPLORE * 1_000 * costs + 0.003
    assert asked >= 1_000 // (MOST_RESTED_ROUNDS + 1)


def test_it_never_rests_while_drafts_pay_or_asking_is_cheap_and_wakes_when_load_falls():
    rule = WidthRule(CostModel(STEP))
    rule.choose([chances(0.9)], Load(1, 0), 1.0)
    assert not rule.rests(Load(1, 0))
    rule.choose([], Load(1, 0), 0.0004)
    assert not rule.rests(Load(1, 0))
    rule.choose([], Load(64, 0), 1.0)
    assert rule.rests(Load(64, 0))
    assert not rule.rests(Load(63, 0))
    assert not rule.rests(Load(64, 0))
