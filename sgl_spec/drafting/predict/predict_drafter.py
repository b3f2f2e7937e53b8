"""Drafts the output that a client predicts (origin "predict"): the hint's `predict`, which OpenAI's `prediction` field
becomes too. Asked by the planner at the start of a round.

The tokens are the prediction's own, in the place after the prompt. How the output is followed along them, and back to
them after an edit, is in prediction_cursor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sgl_spec.drafting.drafter import Drafter, DraftRequest
from sgl_spec.drafting.predict.prediction import Prediction
from sgl_spec.drafting.predict.prediction_cursor import PredictionCursor
from sgl_spec.drafting.text_codec import TAIL_TOKENS, TextCodec, continuation
from sgl_spec.drafting.tree import Chain, DraftError

ORIGIN = "predict"
# The tokens of a text's beginning, so many characters, show whether what stands before it changes them.
HEAD_CHARS = 64
_NOTHING = 2.0  # no node is that likely


class PredictionCounts(NamedTuple):
    """Tokens of a prediction that are in the output, in order, drafted or not; and those that are not."""

    accepted: int
    rejected: int


class _Prediction:
    """One request's prediction and how far the output has followed it."""

    def __init__(self, cursor: PredictionCursor, tokens: int) -> None:
        self.cursor = cursor
        self.tokens = tokens
        self.output_tokens = 0

    @property
    def counts(self) -> PredictionCounts:
        accepted = self.cursor.matched(self.output_tokens)
        return PredictionCounts(accepted, self.tokens - accepted)


class PredictDrafter(Drafter):
    """Drafts from each request's prediction.

    Args:
        codec: of the target's tokenizer.
        min_a: nodes less likely to be accepted are not drafted.

    Raises:
        DraftError: min_a is no probability.
    """

    origin = ORIGIN

    def __init__(self, codec: TextCodec, min_a: float = 0.04) -> None:
        if not 0.0 <= min_a <= 1.0:
            raise DraftError(f"min_a is {min_a}; it is a probability, from 0 to 1")
        self._codec = codec
        self._min_a = min_a
        self._predictions: dict[str, _Prediction | None] = {}

    def start(self, request: DraftRequest) -> None:
        """Tokenise the prediction, if there is one; that takes nearly all of the time."""
        self._predictions[request.rid] = None
        if request.hint.predict is not None:
            tokens = tokens_after(self._codec, request.prompt, request.hint.predict)
            min_a = self._min_a if request.hint.allows(ORIGIN) else _NOTHING  # counted even so
            cursor = PredictionCursor(Prediction(tokens), ORIGIN, min_a)
            self._predictions[request.rid] = _Prediction(cursor, len(tokens))

    def propose(self, rid: str, max_tokens: int) -> list[Chain]:
        """The rest of the prediction; after a departure from it the ways it may go on.

        Raises:
            DraftError: the request never started.
        """
        followed = self._of(rid)
        return [] if followed is None else followed.cursor.propose(max_tokens)

    def observe(self, rid: str, tokens: Sequence[int]) -> None:
        """Follow committed tokens.

        Raises:
            DraftError: the request never started.
        """
        followed = self._of(rid)
        if followed is not None:
            followed.cursor.extend(tokens)
            followed.output_tokens += len(tokens)

    def finish(self, rid: str, output: Sequence[int]) -> None:
        """The output's final length: tokens that a stop cut off do not count."""
        followed = self._predictions.get(rid)
        if followed is not None:
            followed.output_tokens = len(output)

    def prediction_counts(self, rid: str) -> PredictionCounts | None:
        """What the output has of the prediction, as OpenAI's usage reports it; None without a prediction, and for a
        request that never started or was stopped."""
        followed = self._predictions.get(rid)
        return None if followed is None else followed.counts

    def notes(self, rid: str) -> Mapping[str, Any]:
        """`prediction_counts` for the request's account."""
        counts = self.prediction_counts(rid)
        return {} if counts is None else {"prediction": counts._asdict()}

    def stop(self, rid: str) -> None:
        """Forget the request."""
        self._predictions.pop(rid, None)

    def _of(self, rid: str) -> _Prediction | None:
        try:
            return self._predictions[rid]
        except KeyError:
            known = len(self._predictions)
            raise DraftError(f"rid {rid!r} is not among the {known} started requests") from None


def tokens_after(codec: TextCodec, prompt: Sequence[int], text: str) -> list[int]:
    """The tokens of a text that follows `prompt`. Looks at the whole of a long text once, unless the prompt's end
    changes how it begins."""
    before = list(prompt[-TAIL_TOKENS:])
    head = text[:HEAD_CHARS]
    if len(head) < len(text) and continuation(codec, before, head) == codec.encode(head):
        return codec.encode(text)
    return continuation(codec, before, text)
