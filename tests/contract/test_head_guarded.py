"""A head that raises costs drafts, never a request; one that goes on raising is not asked any more."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from sgl_spec.drafting.cost_model import Load
from sgl_spec.drafting.planner import NO_MATCH, DraftPlan
from sgl_spec.drafting.tree import DraftTree
from sgl_spec.server.eagle.guarded import MOST_FAILURES, GuardedHead

LOAD = Load(1, 10)
PLANS = [DraftPlan(DraftTree(7), NO_MATCH)]
JOINED = [DraftPlan(DraftTree(7), None)]
BAD_ROUNDS = {
    "after_prefill": (None, None), "join": ([], PLANS, LOAD), "after_round": ([], [], [], None, 1), "finish": (None,),
}  # fmt: skip


class Flaky:
    """Stands for a Head: raises in every call while `broken`."""

    draft_worker, capture = SimpleNamespace(), "full"

    def __init__(self) -> None:
        self.broken, self.asks, self.asked, self.cleared = True, True, 0, 0

    def _call(self, *given: Any) -> list[DraftPlan]:
        self.asked += 1
        if self.broken:
            raise RuntimeError("no memory left for the head")
        return JOINED if self.asks else given[1]

    after_prefill = join = after_round = finish = _call

    def clear(self) -> None:
        self.cleared += 1


@pytest.fixture
def flaky() -> Flaky:
    return Flaky()


@pytest.fixture
def guarded(flaky: Flaky) -> GuardedHead:
    return GuardedHead(flaky)  # type: ignore[arg-type]


def test_the_worker_sees_the_heads_own_draft_worker_and_capture(guarded: GuardedHead, flaky: Flaky) -> None:
    assert (guarded.draft_worker, guarded.capture) == (flaky.draft_worker, "full")


@pytest.mark.parametrize("name", BAD_ROUNDS)
def test_whatever_it_raises_stays_with_it(
    guarded: GuardedHead, flaky: Flaky, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        result = getattr(guarded, name)(*BAD_ROUNDS[name])
    assert result == (PLANS if name == "join" else None), "the plans of the other drafters stand"
    assert flaky.cleared == 1, "half given rows are not given again"
    assert f"draft head failed in {name} (1 in a row)" in caplog.text
    assert "RuntimeError: no memory left for the head" in caplog.text


def test_one_that_recovers_drafts_again(guarded: GuardedHead, flaky: Flaky) -> None:
    for _ in range(3):
        flaky.broken = True
        for _ in range(MOST_FAILURES - 1):
            assert guarded.join([], PLANS, LOAD) is PLANS
        flaky.broken = False
        assert guarded.join([], PLANS, LOAD) == JOINED
    assert not guarded.given_up


def test_one_that_does_not_is_left_alone(guarded: GuardedHead, flaky: Flaky, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(MOST_FAILURES + 5):
            assert guarded.join([], PLANS, LOAD) is PLANS
    assert guarded.given_up
    assert flaky.asked == MOST_FAILURES
    assert len(caplog.records) == MOST_FAILURES
    assert "it is not asked any more" in caplog.records[-1].message


def test_rounds_that_ask_nobody_or_only_keep_states_prove_nothing(guarded: GuardedHead, flaky: Flaky) -> None:
    for _ in range(MOST_FAILURES):
        flaky.broken, flaky.asks = True, True
        guarded.join([], PLANS, LOAD)
        flaky.broken, flaky.asks = False, False
        guarded.join([], PLANS, LOAD)
        guarded.after_round([], [], [], None, 1)
        guarded.after_prefill(None, None)
    assert guarded.given_up
