"""A bad hint is counted once for its request, however many chunks its prompt is prefilled in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from sgl_spec.drafting.budget import DraftBudget
from sgl_spec.drafting.planner import DraftPlanner
from sgl_spec.server.report import FIELD
from sgl_spec.server.request_states import RequestStates


class Request(SimpleNamespace):
    """As much of SGLang's Req as a state looks at."""

    def finished(self) -> bool:
        return False


def _request(hint: Any) -> Request:
    params = SimpleNamespace(custom_params={FIELD: hint}, ignore_eos=True)
    return Request(
        rid="r", sampling_params=params, customized_info=None, origin_input_ids_unpadded=[1, 2], tokenizer=None,
        eos_token_ids=None,
    )  # fmt: skip


def test_a_bad_hint_counts_once() -> None:
    states, request = RequestStates(DraftPlanner([], DraftBudget())), _request({"version": 99})
    for _ in range(3):
        states.open_reports([request])
    states.state(request)
    assert states.ignored_hints == {"version": 1}
    states.forget("r")
    assert request.customized_info[FIELD][0:1][0]["ignored_hint"] == "version"


def test_a_good_hint_is_read() -> None:
    states = RequestStates(DraftPlanner([], DraftBudget()))
    assert states.state(_request({"version": 1, "off": True})).hint.off
    assert states.ignored_hints == {}
