"""A drafter for `head_rounds.py`: knows the answers, and says some of the next tokens in about half of all rounds."""

from __future__ import annotations

import random
from collections.abc import Sequence

from sgl_spec.drafting.drafter import Drafter, DraftRequest
from sgl_spec.drafting.tree import Chain

ANSWERS: dict[tuple[int, ...], list[int]] = {}  # by prompt; empty: the drafter knows nothing


class Oracle(Drafter):
    origin = "oracle"

    def __init__(self) -> None:
        self._left: dict[str, list[int]] = {}
        self._rng = random.Random(5)

    def start(self, request: DraftRequest) -> None:
        self._left[request.rid] = list(ANSWERS.get(tuple(request.prompt), ()))

    def observe(self, rid: str, tokens: Sequence[int]) -> None:
        del self._left[rid][: len(tokens)]

    def propose(self, rid: str, max_tokens: int) -> Sequence[Chain]:
        said = self._left[rid][: self._rng.choice((0, 0, 0, 1, 3, 6))]
        return [Chain(tuple(said), (0.95,) * len(said), self.origin)] if said else []

    def stop(self, rid: str) -> None:
        self._left.pop(rid, None)
