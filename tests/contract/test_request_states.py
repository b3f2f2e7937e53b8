"""What a state makes of SGLang's request: a bad hint is counted once, however many chunks its prompt is prefilled in;
owners are told apart; drafters learn from what ended by itself, and only from what was kept of it; the last chunk of a
stream carries the account."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from sglang.srt.managers.schedule_batch import FINISH_ABORT, FINISH_LENGTH, FINISH_MATCHED_STR
from sglang.srt.managers.tokenizer_manager import _slice_streaming_output_meta_info

from sgl_spec.drafting.acceptance import Acceptance
from sgl_spec.drafting.budget import DraftBudget
from sgl_spec.drafting.cost_model import Load
from sgl_spec.drafting.drafter import Drafter, DraftRequest
from sgl_spec.drafting.planner import DraftPlan, DraftPlanner
from sgl_spec.drafting.tree import Chain, DraftTree
from sgl_spec.server.report import FIELD, Report
from sgl_spec.server.request_states import RequestStates, owner


class Request(SimpleNamespace):
    """As much of SGLang's Req as a state looks at."""

    def finished(self) -> bool:
        return False


def _request(hint: Any) -> Request:
    params = SimpleNamespace(custom_params={FIELD: hint}, ignore_eos=True, top_k=1, temperature=1.0)
    return Request(
        rid="r", sampling_params=params, customized_info=None, origin_input_ids_unpadded=[1, 2], tokenizer=None,
        eos_token_ids=None, grammar=None, extra_key=None, cache_salt=None, output_ids=[], finished_reason=None,
        stream=False,
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


class Listener(Drafter):
    """Keeps the requests it is told of and the outputs it is to learn from."""

    origin = "listener"

    def __init__(self) -> None:
        self.started: list[DraftRequest] = []
        self.observed: list[int] = []
        self.learned: list[list[int]] = []

    def start(self, request: DraftRequest) -> None:
        self.started.append(request)

    def observe(self, rid: str, tokens: Sequence[int]) -> None:
        self.observed += tokens

    def propose(self, rid: str, max_tokens: int) -> list[Chain]:
        return []

    def finish(self, rid: str, output: Sequence[int]) -> None:
        self.learned.append(list(output))

    def notes(self, rid: str) -> dict[str, Any]:
        return {"heard": len(self.started)}


def _ended(**changes: Any) -> Listener:
    listener = Listener()
    states = RequestStates(DraftPlanner([listener], DraftBudget()))
    request = _request({"version": 1})
    states.state(request)
    request.output_ids = [5, 6, 7, 8]
    vars(request).update(changes)
    states.finish("r")
    assert request.customized_info[FIELD][0:1][0]["heard"] == 1
    return listener


def test_drafters_learn_from_what_ended() -> None:
    assert _ended(finished_reason=FINISH_LENGTH(4)).learned == [[5, 6, 7, 8]]


@pytest.mark.parametrize("kept", [1, 2, 3])
def test_what_a_cut_leaves_is_all_that_is_observed_counted_and_learned(kept: int) -> None:
    listener, request = Listener(), _request({"version": 1, "off": True})
    states = RequestStates(DraftPlanner([listener], DraftBudget()))
    request.output_ids = [4]
    states.plan([request], Load(1, 0))
    tree = DraftTree(4)
    tree.graft(Chain((5, 6), (0.9, 0.9), "listener"))
    states.commit([request], [DraftPlan(tree, None)], [Acceptance((0, 1, 2), (5, 6, 7))], [kept])
    request.output_ids += [5, 6, 7][:kept]
    request.finished_reason = FINISH_MATCHED_STR("x")
    states.finish("r")
    account = request.customized_info[FIELD][0:1][0]
    assert listener.observed == request.output_ids
    assert listener.learned == [request.output_ids]
    assert (account["tokens"], account["accepted"]["all"]) == (kept, min(kept, 2))


@pytest.mark.parametrize("sent", [[4], [1, 2, 1], [2, 2]])
def test_the_last_chunk_of_an_incremental_stream_carries_the_account(sent: list[int]) -> None:
    """The slices are the scheduler's; what is made of them the tokenizer manager's."""
    request, account = _request(None), {"rounds": 3}
    report = Report(request, incremental=True)
    joined: list[Any] = []
    chunks, start = [], 0
    for tokens in sent:
        if start + tokens == sum(sent):
            report.close(account)
        joined += report[start : start + tokens]
        chunks.append({FIELD: joined})
        _slice_streaming_output_meta_info(chunks[-1], start, [FIELD])
        start += tokens
    assert [chunk[FIELD] for chunk in chunks] == [*([] for _ in sent[1:]), [account]]


def test_nothing_is_learned_from_an_aborted_request() -> None:
    assert _ended(finished_reason=FINISH_ABORT("gone")).learned == []


def test_a_request_that_vanishes_teaches_nothing() -> None:
    listener = Listener()
    states = RequestStates(DraftPlanner([listener], DraftBudget()))
    states.state(_request({"version": 1}))
    states.forget("r")
    assert listener.learned == []


def test_owners_are_told_apart() -> None:
    keys = [None, "", "a", "b", '["a", "b"]']
    owners = {(key, salt): owner(SimpleNamespace(extra_key=key, cache_salt=salt)) for key in keys for salt in keys}
    # For SGLang's cache an empty key is none.
    parts: dict[str, set[tuple[str, str]]] = {}
    for (key, salt), name in owners.items():
        parts.setdefault(name, set()).add((key or "", salt or ""))
    assert all(len(pairs) == 1 for pairs in parts.values())
    assert parts[""] == {("", "")}
    assert len(parts) == 16
