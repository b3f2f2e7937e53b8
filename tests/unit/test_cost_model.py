"""What a round costs: the table's shape, what is learned online and what is not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgl_spec.drafting.cost_model import (
    IGNORED_ROUNDS,
    MOST_CORRECTION,
    PRIOR,
    PRIOR_ROWS,
    PRIOR_SECONDS,
    CostModel,
    CostTable,
    Load,
)
from sgl_spec.errors import CostTableError

ONE = Load(1, 0)
times = st.floats(1e-5, 10.0)
tables = st.lists(st.tuples(st.integers(1, 512), times), min_size=1, max_size=8, unique_by=lambda pair: pair[0]).map(
    lambda pairs: CostTable(tuple(n for n, _ in sorted(pairs)), tuple(t for _, t in sorted(pairs)), 1e-7)
)
observations = st.lists(
    st.tuples(st.integers(1, 64), st.integers(1, 64), st.integers(0, 10_000), st.floats(allow_nan=True)), max_size=30
)


def test_between_rows_it_interpolates_and_beyond_them_it_goes_on_in_proportion():
    model = CostModel(CostTable((1, 4, 16), (0.010, 0.020, 0.040)))
    assert model.seconds(ONE, 1) == pytest.approx(0.010)
    assert model.seconds(ONE, 4) == pytest.approx(0.020)
    assert 0.010 < model.seconds(ONE, 2) < 0.020
    assert model.seconds(ONE, 64) == pytest.approx(0.160)
    assert model.seconds(Load(4, 0), 4) == pytest.approx(model.seconds(ONE, 16))


def test_the_context_costs_by_the_keys_that_rows_attend():
    model = CostModel(CostTable((1, 64), (0.010, 0.010), per_key=1e-6))
    assert model.seconds(Load(2, 5_000), 8) == pytest.approx(0.010 + 8 * 5_000e-6)


@settings(deadline=None)
@given(tables, observations, st.integers(1, 64), st.integers(0, 100_000))
def test_whatever_was_observed_times_are_finite_and_rise_with_the_width(table, seen, requests, context):
    model = CostModel(table)
    for width, batch, keys, seconds in seen:
        model.observe(Load(batch, keys), width, seconds)
    expected = model.expect(Load(requests, context), np.arange(1, 65))
    assert np.isfinite(expected).all()
    assert (expected > 0).all()
    assert (np.diff(expected) >= 0).all()
    again = CostModel(model.table())
    assert np.isfinite(again.expect(Load(requests, context), np.arange(1, 65))).all()


def test_noise_in_the_table_does_not_make_more_rows_cheaper():
    model = CostModel(CostTable((1, 2, 4, 8), (0.05, 0.09, 0.05, 0.07)))
    assert model.seconds(ONE, 2) == pytest.approx(0.07)
    assert model.seconds(ONE, 4) == pytest.approx(0.07)


def observe(model: CostModel, load: Load, width: int, seconds: float, times: int) -> None:
    for _ in range(times):
        model.observe(load, width, seconds)


def test_the_first_rounds_of_a_row_count_are_ignored():
    model = CostModel()
    before = model.seconds(ONE, 8)
    observe(model, ONE, 8, 30.0, IGNORED_ROUNDS)
    assert model.seconds(ONE, 8) == before
    assert model.rounds == 0


def test_one_slow_round_moves_little_and_a_slower_machine_moves_all_widths_alike():
    model = CostModel()
    ratio = model.seconds(ONE, 32) / model.seconds(ONE, 1)
    observe(model, ONE, 8, PRIOR_SECONDS[1], 10)
    model.observe(ONE, 8, 60.0)
    assert model.seconds(ONE, 8) < 1.04 * PRIOR_SECONDS[1]
    for _ in range(100):
        for width in (1, 8, 32):
            model.observe(ONE, width, 2 * CostModel().seconds(ONE, width))
    assert model.drift == pytest.approx(2.0, rel=0.1)
    assert model.seconds(ONE, 32) / model.seconds(ONE, 1) == pytest.approx(ratio, rel=0.05)


def test_it_follows_the_median_of_noisy_times():
    model, random = CostModel(), np.random.default_rng(0)
    for _ in range(600):
        late = 5.0 if random.random() < 0.2 else 1.0  # a fifth of the rounds is disturbed
        model.observe(ONE, 8, 0.080 * late * math.exp(random.normal(0, 0.05)))
    assert model.seconds(ONE, 8) == pytest.approx(0.080, rel=0.1)


def test_a_shape_that_was_wrong_is_learned_where_rounds_are():
    true = CostModel(CostTable(PRIOR_ROWS, (0.050, 0.150, 0.300, 0.600, 1.2, 2.4)))
    model = CostModel()
    for _ in range(600):
        for width in (1, 8, 16):
            model.observe(ONE, width, true.seconds(ONE, width))
    for width in (8, 16):
        learned = model.seconds(ONE, width) / model.seconds(ONE, 1)
        assert learned == pytest.approx(true.seconds(ONE, width) / true.seconds(ONE, 1), rel=0.1)


def test_corrections_are_bounded():
    model = CostModel()
    for _ in range(2_000):
        model.observe(ONE, 1, 1e-6)
        model.observe(ONE, 64, 1e3)
    assert model.table().seconds[-1] <= PRIOR_SECONDS[-1] * math.exp(MOST_CORRECTION) * 1.001
    assert model.table().seconds[0] >= PRIOR_SECONDS[0] * math.exp(-MOST_CORRECTION) * 0.999


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan, math.inf])
def test_what_is_no_time_is_not_counted(seconds):
    model = CostModel()
    observe(model, ONE, 1, seconds, 10)
    assert model.rounds == 0


def test_rounds_since_a_row_count_was_seen():
    model = CostModel()
    observe(model, ONE, 8, 0.05, IGNORED_ROUNDS + 3)
    assert model.rounds_since(8) == 0
    assert model.rounds_since(1) == 3


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (CostTable((), ()), "rows has 0 entries"),
        (CostTable((1, 2), (0.1,)), "rows has 2 entries and seconds 1"),
        (CostTable((0, 2), (0.1, 0.1)), "ascending whole numbers from 1"),
        (CostTable((2, 2), (0.1, 0.1)), "ascending"),
        (CostTable((2, 1), (0.1, 0.1)), "ascending"),
        (CostTable((1.5,), (0.1,)), "whole numbers"),
        (CostTable((1,), (0.0,)), "seconds has 0.0"),
        (CostTable((1,), (math.nan,)), "seconds has nan"),
        (CostTable((1,), (math.inf,)), "seconds has inf"),
        (CostTable((1,), ("slow",)), "seconds has 'slow'"),
        (CostTable((1,), (0.1,), -1.0), "per_key has -1.0"),
    ],
)
def test_what_is_no_table_is_refused(table, message):
    with pytest.raises(CostTableError, match=message):
        CostModel(table)


def test_the_prior_is_a_table():
    assert CostModel().table().seconds == pytest.approx(PRIOR.seconds)
