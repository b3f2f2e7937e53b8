"""The calibration of running requests: weighs their candidates, and keeps these until it is known what came of them.
The planner asks at the start of a round and tells at its end.
"""

from __future__ import annotations

from collections.abc import Sequence

from sgl_spec.drafting.calibration.reliability import OriginError
from sgl_spec.drafting.calibration.tables import Calibration, Situation
from sgl_spec.drafting.drafter import DraftRequest
from sgl_spec.drafting.memory.slot_key import slot_key
from sgl_spec.drafting.tree_merge import Candidates, Weighed, weighed


class CalibratedRequests:
    """Args: calibration: None weighs everything by the drafters' own q and learns nothing."""

    def __init__(self, calibration: Calibration | None) -> None:
        self._calibration = calibration
        self._situations: dict[str, Situation] = {}
        self._planned: dict[str, Weighed] = {}

    def start(self, request: DraftRequest) -> None:
        """A request begins, or begins again: a round that never ended is forgotten."""
        self.stop(request.rid)
        if self._calibration is not None:
            self._situations[request.rid] = self._calibration.situation(slot_key(request), request.temperature)

    def weigh(self, rid: str, candidates: Candidates, max_drafts: int, min_gain: float) -> Weighed:
        """What the candidates of a started request are worth now, and the best `max_drafts` with a of at least
        `min_gain`."""
        if self._calibration is None:
            return weighed(candidates, max_drafts, min_gain)
        return self._calibration.weigh(candidates, self._situations[rid], max_drafts, min_gain)

    def planned(self, rid: str, weighed: Weighed) -> None:
        """These candidates belong to the round that begins, or that goes on."""
        self._planned[rid] = weighed

    def forget(self, rid: str) -> None:
        """A round begins: no candidates of an earlier one belong to it."""
        self._planned.pop(rid, None)

    def candidates(self, rid: str) -> Candidates | None:
        """Of the round that has begun; None without one."""
        weighed = self._planned.get(rid)
        return None if weighed is None else weighed.candidates

    def committed(self, rid: str, drafted: int, tokens: Sequence[int]) -> None:
        """The round is over: `drafted` nodes, the root included, were verified, and `tokens` committed."""
        weighed = self._planned.pop(rid, None)
        if weighed is not None and self._calibration is not None:
            self._calibration.learn(weighed, self._situations[rid], drafted, tokens)

    def errors(self) -> tuple[OriginError, ...]:
        """How far off the q of verified nodes were."""
        return () if self._calibration is None else self._calibration.errors()

    def stop(self, rid: str) -> None:
        """Forget the request."""
        self._situations.pop(rid, None)
        self._planned.pop(rid, None)
