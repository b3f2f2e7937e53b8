"""What is known of each running request between rounds: its drafters' state, what of it was observed.

Where it stands in a round: first and last. `plan` turns SGLang's requests into trees, `commit` books what became of
them. All knowledge of how tokens are guessed is behind `DraftPlanner`.
"""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sglang.srt.managers.schedule_batch import FINISH_ABORT
from sglang.srt.runtime_context import get_serving

from sgl_spec.drafting.acceptance import Acceptance
from sgl_spec.drafting.cost_model import Load
from sgl_spec.drafting.drafter import DraftRequest
from sgl_spec.drafting.hint import Hint, HintRead, decode_hint
from sgl_spec.drafting.planner import NO_MATCH, DraftPlan, DraftPlanner, RoundPlan
from sgl_spec.drafting.tree import Chain, DraftTree
from sgl_spec.server import abstain
from sgl_spec.server.codec import ServerCodec
from sgl_spec.server.grammar_cursor import RequestGrammar
from sgl_spec.server.report import FIELD, Report

logger = logging.getLogger(__name__)

# A request that leaves without a word (aborted while it waits to be resumed) is forgotten when it is the oldest of this
# many, or of four times the running batch.
MOST_STATES = 256


@dataclass
class RequestState:
    """One request. observed: output tokens the drafters have seen."""

    req: Any
    hint: Hint
    report: Report
    observed: int = 0


def draft_request(req: Any, hint: Hint, codec: ServerCodec | None) -> DraftRequest:
    constrained = codec is not None and req.grammar is not None
    return DraftRequest(
        rid=req.rid,
        prompt=list(req.origin_input_ids_unpadded),
        program=hint.program,
        slot=hint.slot,
        endings=endings(req),
        owner=owner(req),
        hint=hint,
        constraint=RequestGrammar(req, codec) if codec is not None and constrained else None,
        constraint_key=_constraint_key(req.sampling_params) if constrained else None,
        temperature=_temperature(req.sampling_params),
    )


def owner(req: Any) -> str:
    """Whose request it is: what SGLang keeps radix caches apart by. Both parts matter, and neither may imitate the
    other."""
    key, salt = req.extra_key, req.cache_salt
    return "" if not key and not salt else json.dumps([key or "", salt or ""])


def _room(req: Any) -> int:
    """Tokens `req` may still emit."""
    return int(req.sampling_params.max_new_tokens) - len(req.output_ids)


def _temperature(params: Any) -> float:
    """0 for greedy decoding, which SGLang writes as top_k = 1."""
    return 0.0 if params.top_k == 1 else float(params.temperature)


def _constraint_key(params: Any) -> str | None:
    given = (params.json_schema, params.regex, params.ebnf, params.structural_tag)
    return next((f"{kind}:{value}" for kind, value in enumerate(given) if value is not None), None)


def endings(req: Any) -> frozenset[int]:
    """The tokens SGLang ends `req` at (`Req._check_token_based_finish`)."""
    params, tokenizer = req.sampling_params, req.tokenizer
    if params.ignore_eos:
        return frozenset()
    tokens = {*(params.stop_token_ids or ()), *(req.eos_token_ids or ())}
    if tokenizer is not None:
        tokens |= {tokenizer.eos_token_id, *(tokenizer.additional_stop_token_ids or ())}
    return frozenset(tokens)


def _read_hint(req: Any) -> HintRead:
    """What the client said in its `custom_params`; both parts None when it said nothing."""
    params = req.sampling_params.custom_params
    if not isinstance(params, dict) or FIELD not in params:
        return HintRead(None, None)
    return decode_hint(params[FIELD])


class RequestStates:
    """The states of all requests, by SGLang's request id. Without a codec drafting knows nothing of grammars."""

    def __init__(self, planner: DraftPlanner, codec: ServerCodec | None = None) -> None:
        self._planner = planner
        self._codec = codec
        self._states: OrderedDict[str, RequestState] = OrderedDict()
        self.ignored_hints: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._states)

    def state(self, req: Any) -> RequestState:
        """The state of `req`, made at first sight. An id used again by another request begins anew."""
        known = self._states.get(req.rid)
        if known is not None and known.req is req:
            self._states.move_to_end(req.rid)
            return known
        if known is not None:
            self.forget(req.rid)
        self._states[req.rid] = state = self._first_sight(req)
        return state

    def _forget_the_lost(self, running: int) -> None:
        while len(self._states) > max(MOST_STATES, 4 * running):
            self.forget(next(iter(self._states)))

    def _first_sight(self, req: Any) -> RequestState:
        hint = _read_hint(req).hint or Hint()
        report = self._report(req)
        self._planner.start(draft_request(req, hint, self._codec))
        return RequestState(req, hint, report)

    def open_reports(self, reqs: Sequence[Any]) -> None:
        """Before a prefill: a request that ends in it has an account too, though it never has a state."""
        for req in reqs:
            self._report(req)

    def _report(self, req: Any) -> Report:
        """The request's report, made once (a prompt may be prefilled in many chunks); so a bad hint counts once."""
        report = (req.customized_info or {}).get(FIELD)
        if report is None:  # not `if not report`: an open report is an empty list
            ignored = _read_hint(req).ignored
            if ignored is not None:
                self._note_ignored(ignored, req.rid)
            report = Report(req, ignored, incremental=req.stream and get_serving().incremental_streaming_output)
            req.customized_info = {**(req.customized_info or {}), FIELD: report}
        return report

    def _note_ignored(self, reason: str, rid: str) -> None:
        count = self.ignored_hints[reason] = self.ignored_hints.get(reason, 0) + 1
        if count == 1:
            logger.warning(
                "a hint was ignored (%s); request %s goes on without it. Later ones are counted.", reason, rid
            )

    def plan(self, reqs: Sequence[Any], load: Load) -> list[DraftPlan]:
        """A tree for each request of a batch, as large as it may be: only a root where it abstains."""
        self._forget_the_lost(len(reqs))
        self._planner.open_round(load)
        return [self._plan(req) for req in reqs]

    def narrow(self, reqs: Sequence[Any], plans: Sequence[DraftPlan]) -> RoundPlan:
        """The round's width, and the trees cut to it."""
        return self._planner.narrow([req.rid for req in reqs], plans)

    def interrupted(self) -> None:
        """A prefill is run instead of a round."""
        self._planner.interrupted()

    def _plan(self, req: Any) -> DraftPlan:
        state = self.state(req)
        self._observe_new(state)
        root = req.output_ids[-1]
        reason = abstain.SWITCHED_OFF if state.hint.off else abstain.reason(req)
        if reason is not None:
            self._planner.abstain(req.rid, reason)
            return DraftPlan(DraftTree(root), reason)
        return self._planner.plan(req.rid, root, _room(req))

    def may_join(self, req: Any, plan: DraftPlan) -> bool:
        """Whether chains that come later can still become part of `plan`."""
        return plan.abstain_reason in (None, NO_MATCH) and _room(req) > 1

    def join(self, req: Any, plan: DraftPlan, chains: Sequence[Chain]) -> DraftPlan:
        """`plan` of this round with `chains`, within the same budget."""
        return self._planner.join(req.rid, plan, chains, _room(req))

    def running(self, rid: str) -> Any:
        """SGLang's request of that id; None where it never had a round."""
        state = self._states.get(rid)
        return None if state is None else state.req

    def _observe_new(self, state: RequestState) -> None:
        output = state.req.output_ids
        if len(output) < state.observed:
            # Tokens were taken back: the drafters' indices only grow, so begin anew.
            self._planner.start(draft_request(state.req, state.hint, self._codec))
            state.observed = 0
        if len(output) > state.observed:
            self._planner.observe(state.req.rid, list(output[state.observed :]))
            state.observed = len(output)

    def commit(
        self,
        reqs: Sequence[Any],
        plans: Sequence[DraftPlan],
        accepted: Sequence[Acceptance],
        kept: Sequence[int],
    ) -> None:
        """The round is over; SGLang appends the first `kept` of each accepted run to `req.output_ids` right after."""
        for req, plan, acceptance, length in zip(reqs, plans, accepted, kept, strict=True):
            self._planner.commit(req.rid, plan.tree, acceptance, acceptance.tokens[:length])
            self.state(req).observed += length

    def finish(self, rid: str) -> None:
        """SGLang says the request is over: let drafters learn from what ended by itself, close the account, forget
        the rest. Whatever a stop cuts off was cut before the round was committed (`run_end`)."""
        state = self._states.get(rid)
        if state is None:
            return
        if not isinstance(state.req.finished_reason, FINISH_ABORT):
            self._planner.finish(rid, list(state.req.output_ids))
        self.forget(rid)

    def forget(self, rid: str) -> None:
        state = self._states.pop(rid, None)
        if state is not None:
            state.report.close(self._planner.account(rid))
            self._planner.stop(rid)

    def clear(self) -> None:
        for rid in list(self._states):
            self.forget(rid)
