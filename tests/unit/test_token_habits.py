"""The ways a model writes a text: what was seen becomes likeliest, what is kept is bounded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgl_spec.drafting.grammar.token_habits import (
    KEY_BYTES,
    MOST_SLOTS,
    MOST_STRETCHES,
    RequestHabits,
    Stretch,
    TokenHabits,
    Way,
    shares,
)
from sgl_spec.drafting.grammar.vocabulary import Spelled

HOUSE = Stretch(5, b'house": "')
OWN, SHORT, LETTER = 900, 300, 20
OTHERS = shares(OWN, [Spelled(LETTER, 1), Spelled(SHORT, 2), Spelled(OWN, 5)])


def _ways(habits: TokenHabits, request: RequestHabits, stretch: Stretch = HOUSE) -> dict[int, float]:
    return dict(habits.ways(request, stretch, OWN, OTHERS))


@given(st.lists(st.sampled_from([OWN, SHORT, LETTER]), max_size=30), st.booleans())
def test_ways_are_different_tokens_that_share_at_most_one(chosen: list[int], read: bool) -> None:
    habits, request = TokenHabits(), RequestHabits([OWN] if read else [], None)
    for token in chosen:
        habits.note(request, HOUSE, OWN, token)
    for stretch in (HOUSE, Stretch(6, b"other")):
        ways = habits.ways(request, stretch, OWN, OTHERS)
        assert len({way.token for way in ways}) == len(ways)
        assert all(0.0 < way.q <= 1.0 for way in ways)
        assert sum(way.q for way in ways) <= 1.0 + 1e-9


@given(st.sampled_from([OWN, SHORT, LETTER]), st.integers(1, 9))
def test_a_way_seen_in_this_place_becomes_likeliest_and_surer(token: int, times: int) -> None:
    habits, request = TokenHabits(), RequestHabits([], None)
    last = 0.0
    for _ in range(times):
        habits.note(request, HOUSE, OWN, token)
        ways = _ways(habits, request)
        assert max(ways, key=ways.__getitem__) == token
        assert ways[token] > max(last, 0.85)
        last = ways[token]


def test_a_token_that_was_read_is_trusted_and_one_that_was_not_less() -> None:
    habits = TokenHabits()
    assert _ways(habits, RequestHabits([OWN], None))[OWN] > 0.95
    assert _ways(habits, RequestHabits([], None))[OWN] < 0.7


def test_what_a_model_does_elsewhere_counts_everywhere_and_fades() -> None:
    habits, request = TokenHabits(), RequestHabits([], None)
    before = _ways(habits, RequestHabits([], None))[OWN]
    for number in range(40):
        habits.note(request, Stretch(number, b"elsewhere"), OWN, SHORT)
    low = _ways(habits, RequestHabits([], None))[OWN]
    assert low < before / 2
    for number in range(2000):
        habits.note(request, Stretch(number, b"elsewhere"), OWN, OWN)
    assert _ways(habits, RequestHabits([], None))[OWN] > 0.9


def test_a_slots_choices_are_found_by_its_next_request_and_no_other() -> None:
    habits = TokenHabits()
    habits.note(RequestHabits([], habits.slot("a")), HOUSE, OWN, LETTER)
    assert RequestHabits([], habits.slot("a")).choice(HOUSE) is not None
    assert RequestHabits([], habits.slot("b")).choice(HOUSE) is None
    assert RequestHabits([], None).choice(HOUSE) is None


def test_memory_is_bounded_and_the_oldest_go() -> None:
    habits, request = TokenHabits(), RequestHabits([], None)
    for number in range(MOST_STRETCHES + 5):
        habits.note(request, Stretch(number, b""), OWN, OWN)
        habits.note(request, HOUSE, OWN, OWN)  # used all the time
    assert len(request.own) == MOST_STRETCHES
    assert HOUSE in request.own
    assert Stretch(0, b"") not in request.own
    for number in range(MOST_SLOTS + 5):
        habits.slot(number)
        habits.slot("used")
    assert len(habits._slots) == MOST_SLOTS
    assert "used" in habits._slots
    assert 0 not in habits._slots


def test_frequent_short_tokens_come_before_rare_long_ones() -> None:
    found = shares(OWN, [Spelled(40_000, 4), Spelled(300, 2), Spelled(OWN, 5), Spelled(39_000, 3)])
    assert found[0].token == 300
    assert OWN not in {way.token for way in found}
    assert sum(way.q for way in found) <= 1.0
    assert shares(OWN, [Spelled(OWN, 5)]) == ()


@pytest.mark.parametrize(("tail", "before"), [((), -1), ((7, 8), 8)])
def test_a_place_is_told_by_the_token_before_it_and_some_bytes(tail: tuple[int, ...], before: int) -> None:
    assert Stretch.at(tail, b"x" * 40) == Stretch(before, b"x" * KEY_BYTES)
    assert isinstance(Way(1, 0.5), tuple)
