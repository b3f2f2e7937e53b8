"""Parameters that bound what is drafted: no draft past max_new_tokens, none that ends its request."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from round_world import EOS, VOCABULARY, Asked, Prophet, published, request

from sgl_spec.drafting.budget import DraftBudget
from sgl_spec.drafting.cost_model import Load
from sgl_spec.drafting.planner import NO_ROOM, DraftPlan, DraftPlanner
from sgl_spec.server.request_states import RequestStates, endings

LONG = {"temperature": 0.0, "ignore_eos": True}


@pytest.fixture(scope="module", autouse=True)
def settings() -> Iterator[None]:
    with published():
        yield


def plan_of(asked: Asked, said: list[int], future: list[int]) -> DraftPlan:
    """What is drafted for a request that has said `said`, by one who knows that it goes on with `future`."""
    planner = DraftPlanner([Prophet({"r": [*said, *future]})], DraftBudget(30, 0.0), vocab_size=VOCABULARY)
    req = request("r", asked)
    req.output_ids.extend(said)
    (plan,) = RequestStates(planner).plan([req], Load(1, 0))
    return plan


@pytest.mark.parametrize("left", [1, 2, 3, 4])
def test_no_draft_goes_past_max_new_tokens(left: int) -> None:
    said, future = [5, 6, 7], [11, 12, 13, 14, 15, 16]
    plan = plan_of(Asked({**LONG, "max_new_tokens": len(said) + left}), said, future)
    assert max(plan.tree.depths) <= left - 1  # the last is the bonus
    assert (plan.abstain_reason == NO_ROOM) == (left == 1)
    assert (len(plan.tree) > 1) == (left > 1)


def test_what_ends_a_request_is_never_drafted() -> None:
    said, future = [5], [11, 12, EOS, 13]
    for asked, ending in ((Asked({}), EOS), (Asked({"stop_token_ids": [12]}), 12)):
        trees = [plan_of(asked, said, future).tree for _ in range(20)]
        assert any(11 in tree.tokens for tree in trees)
        assert all(ending not in tree.tokens for tree in trees)


def test_with_ignore_eos_it_is_a_token_as_any() -> None:
    asked = Asked({**LONG, "stop_token_ids": [12]})
    assert endings(request("r", asked)) == frozenset()
    trees = [plan_of(asked, [5], [EOS, 12, 13]).tree for _ in range(20)]
    assert any(EOS in tree.tokens for tree in trees)
