"""DraftPlanner: room, abstaining and its reasons, the guard against drafters, counts across rounds."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest

from sgl_spec.drafting.acceptance import Acceptance
from sgl_spec.drafting.budget import DraftBudget
from sgl_spec.drafting.drafter import DraftRequest
from sgl_spec.drafting.lookup.lookup_drafter import LookupDrafter
from sgl_spec.drafting.planner import DraftPlanner
from sgl_spec.drafting.tree import Chain, DraftError
from sgl_spec.testing.hostile_drafters import (
    OutOfVocabularyDrafter,
    RaisingDrafter,
    ShapelessDrafter,
    WrongQDrafter,
)

PROMPT = [1, 2, 3, 4, 5, 6, 7, 1, 2, 3]
VOCABULARY = 16


class FixedDrafter:
    """Always proposes the same; notes what it is told."""

    def __init__(self, *chains: Chain, origin: str = "fixed") -> None:
        self.origin = origin
        self.chains = list(chains)
        self.told: list[object] = []

    def start(self, request):
        self.told.append(("start", request.rid, list(request.prompt)))

    def propose(self, rid, max_tokens):
        self.told.append(("propose", rid, max_tokens))
        return self.chains

    def observe(self, rid, tokens):
        self.told.append(("observe", rid, list(tokens)))

    def stop(self, rid):
        self.told.append(("stop", rid))


def started(*drafters, budget=None) -> DraftPlanner:
    planner = DraftPlanner(drafters, budget or DraftBudget(15), vocab_size=VOCABULARY)
    planner.start(DraftRequest("r", PROMPT))
    return planner


def test_a_plan_holds_what_the_drafters_propose():
    planner = started(LookupDrafter(), FixedDrafter(Chain((4, 9), (0.5, 0.5), "fixed")))
    plan = planner.plan("r", 3, 100)
    assert plan.abstain_reason is None
    assert plan.tree.root_token == 3
    children = plan.tree.children(0)
    assert plan.tree.tokens[children[0]] == 4
    assert plan.tree.origins[children[0]] == {"lookup", "fixed"}


@pytest.mark.parametrize("room", [0, 1, -3])
def test_without_room_for_a_draft_and_the_bonus_nothing_is_drafted_nor_asked(room):
    drafter = FixedDrafter(Chain((4,), (1.0,), "fixed"))
    plan = started(drafter).plan("r", 3, room)
    assert (plan.tree.num_drafts, plan.abstain_reason) == (0, "no_room")
    assert all(call[0] != "propose" for call in drafter.told)


@pytest.mark.parametrize("room", [2, 3, 4, 9, 16, 17, 500])
def test_drafts_leave_room_for_the_bonus(room):
    long = Chain((4,) * 40, (1.0,) * 40, "fixed")
    wide = [Chain((token,), (0.06,), "fixed") for token in range(VOCABULARY)]
    plan = started(FixedDrafter(long, *wide), budget=DraftBudget(15, 0.0)).plan("r", 3, room)
    # The long chain as deep as can be used, and siblings for the rest of the budget: they cost no room.
    assert max(plan.tree.depths) == min(room - 1, 15)
    assert plan.tree.num_drafts == 15


@pytest.mark.parametrize("room", [2, 3, 5, 40])
def test_what_a_grammar_adds_leaves_room_for_the_bonus_too(room):
    class Adds:
        """Grafts below its own chain, so that the tree is deeper than what it was asked for below one node."""

        origin = "grammar"

        def begin_round(self, rid):
            return True

        def start(self, request): ...

        def cut(self, rid, tokens):
            return len(tokens)

        def extend(self, rid, tree, max_tokens):
            end = tree.graft(Chain((7,) * min(max_tokens, 4), (0.9,) * min(max_tokens, 4), "grammar"))
            tree.graft(Chain((8, 9), (0.9, 0.9), "grammar"), under=end)

    planner = DraftPlanner([FixedDrafter(Chain((4,), (0.9,), "fixed"))], DraftBudget(15), refiner=Adds())
    planner.start(DraftRequest("r", PROMPT))
    depths = planner.plan("r", 3, room).tree.depths
    assert max(depths) == min(room - 1, 6)
    assert depths.count(1) == 2


def test_drafts_that_do_not_pay_are_not_planned():
    planner = started(FixedDrafter(Chain((4, 5), (0.5, 0.05), "fixed"), Chain((6,), (0.03,), "fixed")))
    assert planner.plan("r", 3, 100).tree.tokens == [3, 4]


def test_no_match_is_counted():
    planner = started(FixedDrafter(), LookupDrafter())
    planner.observe("r", [15])
    assert planner.plan("r", 15, 100).abstain_reason == "no_match"
    assert planner.stats("r").to_dict()["abstained"] == {"no_match": 1}


@pytest.mark.parametrize("hostile", [WrongQDrafter, OutOfVocabularyDrafter, ShapelessDrafter, RaisingDrafter])
def test_a_failing_drafter_costs_its_round_and_nothing_else(hostile, caplog):
    drafter = hostile(VOCABULARY)
    planner = started(LookupDrafter(), drafter)
    planner.observe("r", [4])
    for _ in range(40):
        plan = planner.plan("r", 4, 100)
        assert (plan.tree.num_drafts, plan.abstain_reason) == (0, "drafter_error")
        planner.commit("r", plan.tree, Acceptance((0,), (4,)), (4,))
    assert planner.stats("r").to_dict()["abstained"] == {"drafter_error": 40}
    planner.stop("r")
    (failures,) = planner.failures
    assert failures.origin == drafter.origin
    assert failures.times >= 40
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert repr(drafter.origin) in record.getMessage()


def test_the_guard_names_the_drafter_at_fault():
    bad = FixedDrafter(Chain((4,), (2.0,), "innocent"), origin="bad")
    planner = started(LookupDrafter(), bad, FixedDrafter(origin="good"))
    planner.plan("r", 3, 100)
    assert [failures.origin for failures in planner.failures] == ["bad"]


def test_an_honest_request_beside_a_failing_one_is_drafted():
    class FailsForOne(FixedDrafter):
        def propose(self, rid, max_tokens):
            if rid == "r":
                raise RuntimeError(rid)
            return super().propose(rid, max_tokens)

    planner = started(FailsForOne(Chain((4,), (0.9,), "fixed")))
    planner.start(DraftRequest("other", PROMPT))
    assert planner.plan("r", 3, 100).abstain_reason == "drafter_error"
    assert planner.plan("other", 3, 100).tree.tokens == [3, 4]


def test_token_ids_are_bounded_even_without_a_vocabulary():
    planner = DraftPlanner([FixedDrafter(Chain((1 << 31,), (0.9,), "fixed"))], DraftBudget(15))
    planner.start(DraftRequest("r", PROMPT))
    assert planner.plan("r", 3, 100).abstain_reason == "drafter_error"


def test_interrupts_are_not_swallowed():
    class Interrupted(FixedDrafter):
        def propose(self, rid, max_tokens):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        started(Interrupted()).plan("r", 3, 100)


def test_commit_tells_the_drafters_what_was_really_committed():
    drafter = FixedDrafter(Chain((4, 5, 6), (0.9, 0.9, 0.9), "fixed"))
    planner = started(drafter)
    tree = planner.plan("r", 3, 100).tree
    planner.commit("r", tree, Acceptance((0, 1, 2), (4, 5, 9)), (4, 5))
    assert drafter.told[-1] == ("observe", "r", [4, 5])
    assert planner.stats("r").to_dict() == {
        "rounds": 1,
        "drafted": {"all": 3, "fixed": 3},
        "reached": {"all": 2, "fixed": 2},
        "accepted": {"all": 2, "fixed": 2},
        "abstained": {},
        "tokens": 2,
    }


def test_notes_join_the_account_and_replace_no_count():
    drafter = FixedDrafter()
    drafter.notes = lambda rid: {"said": rid, "rounds": 99}
    planner = started(drafter)
    assert planner.account("r") == {"said": "r", **planner.stats("r").to_dict()}
    assert planner.account("r")["rounds"] == 0


def test_more_tokens_than_accepted_are_refused():
    planner = started(FixedDrafter())
    tree = planner.plan("r", 3, 100).tree
    with pytest.raises(DraftError, match="kept is 2; the round accepted 1"):
        planner.commit("r", tree, Acceptance((0,), (4,)), (4, 5))


def test_the_server_can_count_its_own_reasons():
    planner = started()
    planner.abstain("r", "logit_processor")
    assert planner.stats("r").to_dict()["abstained"] == {"logit_processor": 1}


def test_starting_again_keeps_the_counts():
    drafter = FixedDrafter()
    planner = started(drafter)
    planner.commit("r", planner.plan("r", 3, 9).tree, Acceptance((0,), (4,)), (4,))
    planner.start(DraftRequest("r", [*PROMPT, 4]))
    assert planner.stats("r").rounds == 1
    assert drafter.told[-1] == ("start", "r", [*PROMPT, 4])


def test_unknown_requests_are_named_and_stop_is_idempotent():
    planner = started(LookupDrafter())
    planner.stop("r")
    planner.stop("r")
    assert planner.failures == ()
    for call in (
        lambda: planner.plan("r", 3, 9),
        lambda: planner.stats("r"),
    ):
        with pytest.raises(DraftError, match="rid 'r'"):
            call()


def test_a_token_that_ends_the_request_is_never_drafted() -> None:
    class Fixed:
        origin = "fixed"

        def start(self, request: DraftRequest) -> None: ...
        def observe(self, rid: str, tokens: Sequence[int]) -> None: ...
        def stop(self, rid: str) -> None: ...

        def propose(self, rid: str, max_tokens: int) -> list[Chain]:
            return [Chain((5, 6, 2, 7), (0.9,) * 4, "fixed"), Chain((2, 8), (0.05, 0.9), "fixed")]

    planner = DraftPlanner([Fixed()], DraftBudget(max_drafts=8, min_gain=0.0))
    planner.start(DraftRequest("r", (1,), endings=frozenset({2})))
    plan = planner.plan("r", 1, room=100)
    assert sorted(plan.tree.tokens[1:]) == [5, 6]
    assert plan.abstain_reason is None
