"""The calibration tables: the compiled loops against their slow twin, and what must hold whatever comes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from calibration_twin import Twin, guesses
from hypothesis import given, settings
from hypothesis import strategies as st

from sgl_spec.drafting.calibration.buckets import MOST_ORIGINS, MOST_SETS, Numbers, temperature_bucket
from sgl_spec.drafting.calibration.tables import Calibration, Situation
from sgl_spec.drafting.memory.slot_key import SlotKey
from sgl_spec.drafting.tree import Chain
from sgl_spec.drafting.tree_merge import Candidates, Weighed, gather

SLOTS = (SlotKey("owner", "p", "s"), SlotKey("owner", "p", "t"), SlotKey("another", "p", "s"))
TEMPERATURES = (0.0, 0.3, 1.0, 2.0)
ROOT_TOKEN = 99

probabilities = st.one_of(st.floats(0.001, 1.0), st.sampled_from([0.1, 0.5, 0.96, 1.0]))
chains = st.builds(
    lambda pairs, origin: Chain(tuple(t for t, _ in pairs), tuple(q for _, q in pairs), origin),
    st.lists(st.tuples(st.integers(0, 3), probabilities), min_size=1, max_size=6),
    st.sampled_from(["lookup", "memory", "template.shape", "grammar.forced"]),
)
rounds = st.tuples(
    st.lists(chains, max_size=8),
    st.lists(st.integers(0, 3), max_size=6),
    st.sampled_from(TEMPERATURES),
    st.sampled_from(SLOTS),
)


def candidates(chain_list: list[Chain]) -> Candidates:
    return gather([chain_list], ROOT_TOKEN, 100)


def single(q: float, origin: str = "lookup", token: int = 1) -> Candidates:
    return candidates([Chain((token,), (q,), origin)])


def q_of(calibration: Calibration, found: Candidates, situation: Situation, node: int = 1) -> float:
    return float(calibration.weigh(found, situation, 10, 0.0).weights[0, node])


def teach(calibration: Calibration, found: Candidates, situation: Situation, tokens: list[int], times: int = 1) -> None:
    for _ in range(times):
        calibration.learn(calibration.weigh(found, situation, 10, 0.0), situation, 0, tokens)


@settings(deadline=None, max_examples=200)
@given(st.lists(rounds, max_size=12))
def test_weights_and_learning_are_those_of_the_twin(history):
    fast, slow = Calibration(), Twin()
    for chain_list, tokens, temperature, slot in history:
        found = candidates(chain_list)
        situation = fast.situation(slot, temperature)
        weighed = fast.weigh(found, situation, 100, 0.0)
        tree, bucket = guesses(found), temperature_bucket(temperature)
        expected = list(slow.weights(tree, bucket, slot))
        assert weighed.weights[:2].T.tolist() == pytest.approx(np.array(expected), rel=1e-9)
        fast.learn(weighed, situation, len(weighed.best), tokens)
        slow.learn(tree, bucket, slot, tokens)


@settings(deadline=None, max_examples=200)
@given(st.lists(rounds, max_size=12))
def test_whatever_was_learned_q_is_a_probability_and_siblings_share_at_most_1(history):
    calibration = Calibration(Numbers(coarse_memory=3.0, fine_memory=2.0, slot_memory=1.5, coarse_trust=0.01))
    for chain_list, tokens, temperature, slot in history:
        found = candidates(chain_list)
        situation = calibration.situation(slot, temperature)
        weighed = calibration.weigh(found, situation, 100, 0.0)
        q, a = weighed.weights[0], weighed.weights[1]
        assert np.isfinite(weighed.weights).all()
        assert (q > 0.0).all()
        assert (a[1:] <= a[found.nodes[1 : found.size, 1]]).all()
        sums = np.zeros(found.size)
        np.add.at(sums, found.nodes[1 : found.size, 1], q[1:])
        assert sums.max() <= 1.0 + 1e-9
        calibration.learn(weighed, situation, len(weighed.best), tokens)
        for cells in (calibration.coarse, calibration.fine, situation.cells):
            assert (cells[:, 1] <= cells[:, 0]).all()
            assert (cells >= 0.0).all()


@settings(deadline=None)
@given(st.lists(chains, max_size=8), st.permutations(range(8)), st.lists(rounds, max_size=4))
def test_the_order_of_chains_does_not_matter(chain_list, order, history):
    calibration = Calibration()
    for earlier, tokens, temperature, slot in history:
        teach(calibration, candidates(earlier), calibration.situation(slot, temperature), tokens)
    situation = calibration.situation(SLOTS[0], 0.0)

    def by_path(some: list[Chain]) -> dict[tuple[int, ...], float]:
        found = candidates(some)
        paths: list[tuple[int, ...]] = [()]
        for token, parent in found.nodes[1 : found.size, :2].tolist():
            paths.append((*paths[parent], token))
        return dict(zip(paths, calibration.weigh(found, situation, 100, 0.0).weights[1].tolist(), strict=True))

    shuffled = [chain_list[n] for n in order if n < len(chain_list)]
    assert by_path(shuffled) == pytest.approx(by_path(chain_list), rel=1e-9)


@settings(deadline=None)
@given(st.lists(st.booleans(), max_size=40), probabilities, st.sampled_from(TEMPERATURES))
def test_one_more_hit_never_lowers_q_and_one_more_miss_never_raises_it(hits, q, temperature):
    def after(outcomes: list[bool]) -> float:
        calibration = Calibration()
        situation = calibration.situation(SLOTS[0], temperature)
        for hit in outcomes:
            teach(calibration, single(q), situation, [1 if hit else 2])
        return q_of(calibration, single(q), situation)

    now = after(hits)
    assert after([*hits, True]) >= now - 1e-12
    assert after([*hits, False]) <= now + 1e-12
    assert 0.0 < now < 1.0


@settings(deadline=None)
@given(st.lists(rounds, max_size=8), probabilities, probabilities)
def test_within_a_bucket_order_is_kept(history, one, other):
    calibration = Calibration()
    for chain_list, tokens, temperature, slot in history:
        teach(calibration, candidates(chain_list), calibration.situation(slot, temperature), tokens)
    situation = calibration.situation(SLOTS[0], 0.0)
    low, high = sorted((one, other))
    keys = [calibration.weigh(single(q), situation, 1, 0.0).keys for q in (low, high)]
    if keys[0][1, 1] == keys[1][1, 1]:
        assert q_of(calibration, single(low), situation) <= q_of(calibration, single(high), situation) + 1e-12


def test_an_untaught_calibration_says_what_the_drafter_says():
    calibration = Calibration()
    situation = calibration.situation(SLOTS[0], 0.0)
    for q in (0.01, 0.3, 0.97):
        assert q_of(calibration, single(q), situation) == pytest.approx(q)


def test_one_of_one_is_no_certainty_and_many_of_many_nearly_is():
    calibration = Calibration()
    situation = calibration.situation(SLOTS[0], 0.0)
    teach(calibration, single(0.5), situation, [1])
    assert 0.5 < q_of(calibration, single(0.5), situation) < 0.6
    teach(calibration, single(0.5), situation, [1], 2_000)
    assert 0.95 < q_of(calibration, single(0.5), situation) < 1.0


def test_old_trials_fade():
    calibration = Calibration(Numbers(coarse_memory=50.0, fine_memory=50.0, slot_memory=50.0))
    situation = calibration.situation(SLOTS[0], 0.0)
    teach(calibration, single(0.5), situation, [1], 10_000)
    teach(calibration, single(0.5), situation, [2], 300)
    assert q_of(calibration, single(0.5), situation) < 0.1
    assert calibration.coarse[:, 0].max() <= 50.0 + 1e-6


def test_what_the_grammar_forces_stays_certain_and_nothing_else_does():
    calibration = Calibration()
    situation = calibration.situation(SLOTS[0], 0.0)
    forced, sure = single(1.0, "grammar.forced"), single(1.0, "lookup")
    teach(calibration, forced, situation, [2], 500)
    assert q_of(calibration, forced, situation) == 1.0
    assert q_of(calibration, sure, situation) < 1.0
    assert q_of(calibration, single(0.9, "grammar.forced"), situation) < 1.0


def test_only_nodes_whose_parent_was_committed_are_trials():
    calibration = Calibration()
    situation = calibration.situation(SLOTS[0], 0.0)
    found = candidates([Chain((1, 2, 3), (0.9, 0.9, 0.9), "lookup"), Chain((5, 6), (0.1, 0.9), "lookup")])
    teach(calibration, found, situation, [1, 7, 3])
    # 1 was right, 5 was not, 2 was reached and wrong; 3 and 6 were never reached.
    assert calibration.coarse[:, 0].sum() == pytest.approx(3.0, abs=0.01)
    assert calibration.coarse[:, 1].sum() == pytest.approx(1.0, abs=0.01)


def test_candidates_teach_though_they_were_not_verified_but_only_verified_ones_are_judged():
    calibration = Calibration()
    situation = calibration.situation(SLOTS[0], 0.0)
    weighed = calibration.weigh(single(0.5), situation, 1, 0.0)
    calibration.learn(weighed, situation, 1, [1])  # the root alone was verified
    assert q_of(calibration, single(0.5), situation) > 0.5
    assert calibration.errors() == ()
    calibration.learn(weighed, situation, 2, [1])
    every, first = calibration.errors()
    assert (every.origin, every.depth, first.depth) == ("lookup", "all", "1")
    assert (every.nodes, every.predicted, every.accepted, every.error) == (1, 0.5, 1.0, 0.5)


def test_a_slot_learns_for_itself_and_never_for_another_owner():
    calibration = Calibration()
    mine, same, other = (calibration.situation(slot, 0.0) for slot in SLOTS)
    found = single(0.5)
    # What the slot says beside what all say: half of all outcomes are hits, all of them in one slot.
    for _ in range(400):
        teach(calibration, found, mine, [1])
        teach(calibration, found, other, [2])
    assert q_of(calibration, found, mine) > 0.8
    assert q_of(calibration, found, other) < 0.2
    assert q_of(calibration, found, same) == pytest.approx(0.5, abs=0.02)
    assert q_of(calibration, found, calibration.situation(SLOTS[0]._replace(owner="third"), 0.0)) == pytest.approx(
        q_of(calibration, found, same)
    )


def test_what_agrees_is_one_node_and_its_set_of_origins_is_measured():
    calibration = Calibration()
    situation = calibration.situation(SLOTS[0], 0.0)
    both = candidates([Chain((1,), (0.6,), "lookup"), Chain((1,), (0.6,), "memory")])
    assert both.size == 2
    assert 0.6 < q_of(calibration, both, situation) < 1 - 0.4 * 0.4
    teach(calibration, both, situation, [2], 300)  # together they are mostly wrong here
    assert q_of(calibration, both, situation) < 0.2
    assert q_of(calibration, single(0.6), situation) == pytest.approx(0.6)  # alone they were never tried


def test_temperatures_are_told_apart():
    assert [temperature_bucket(t) for t in (0.0, 0.2, 0.5, 0.7, 1.0, 1.2, math.inf, math.nan)] == [
        0,
        1,
        1,
        2,
        2,
        3,
        3,
        3,
    ]
    calibration = Calibration()
    greedy, hot = (calibration.situation(SLOTS[0], t) for t in (0.0, 1.5))
    for _ in range(300):
        teach(calibration, single(0.5), greedy, [1])
        teach(calibration, single(0.5), hot, [2])
    assert q_of(calibration, single(0.5), calibration.situation(SLOTS[1], 0.0)) > 0.7
    assert q_of(calibration, single(0.5), calibration.situation(SLOTS[1], 1.5)) < 0.3


def test_tables_are_bounded():
    calibration = Calibration(max_slots=4)
    for number in range(60):
        origin = f"origin {number}"
        situation = calibration.situation(SlotKey("o", "p", origin), 0.0)
        teach(calibration, single(0.5, origin), situation, [1])
    assert len(calibration.slots) == 4
    assert [key.slot for key in calibration.slots] == [f"origin {n}" for n in range(56, 60)]
    assert len(calibration.origins) == MOST_ORIGINS
    assert calibration.sets_known == MOST_ORIGINS + 1  # those that came later share one
    pairs = [f"origin {n}" for n in range(20)]
    for one in pairs:
        for other in pairs:
            both = candidates([Chain((1,), (0.5,), one), Chain((1,), (0.5,), other)])
            teach(calibration, both, calibration.situation(SLOTS[0], 0.0), [1])
    assert calibration.sets_known == MOST_SETS
    beyond = candidates([Chain((1,), (0.5,), one) for one in pairs])
    assert q_of(calibration, beyond, calibration.situation(SLOTS[0], 0.0)) == pytest.approx(1.0, abs=0.3)


def test_a_slot_used_again_is_kept_longer():
    calibration = Calibration(max_slots=2)
    for slot in SLOTS[:2]:
        teach(calibration, single(0.5), calibration.situation(slot, 0.0), [1])
    teach(calibration, single(0.5), calibration.situation(SLOTS[0], 0.0), [1])
    teach(calibration, single(0.5), calibration.situation(SLOTS[2], 0.0), [1])
    assert list(calibration.slots) == [SLOTS[0], SLOTS[2]]


def test_errors_fade_with_what_is_learned():
    calibration = Calibration()
    situation = calibration.situation(SLOTS[0], 0.0)
    for _ in range(45_000):
        weighed = calibration.weigh(single(0.5), situation, 1, 0.0)
        calibration.learn(weighed, situation, 2, [1])
    every = calibration.errors()[0]
    assert 10_000 <= every.nodes <= 22_000
    assert every.error < 0.01


def test_rounds_without_candidates_or_tokens_teach_nothing():
    calibration = Calibration()
    situation = calibration.situation(SLOTS[0], 0.0)
    empty = calibration.weigh(candidates([]), situation, 10, 0.0)
    assert empty.best.tolist() == [0]
    calibration.learn(empty, situation, 1, [1])
    calibration.learn(calibration.weigh(single(0.5), situation, 10, 0.0), situation, 2, [])
    assert not calibration.coarse.any()
    uncalibrated = Weighed(single(0.5), np.ones((2, 2)), np.array([0, 1]))
    calibration.learn(uncalibrated, situation, 2, [1])
    assert not calibration.coarse.any()
