"""OpenAI's `prediction` field: reads it, turns it into a hint, and counts what became of it.

Where it stands in a round: before the first, when a chat request comes in, and after the last, when its usage is
reported. No SGLang here; `openai_prediction` wires it into SGLang's chat endpoint.

Source: OpenAI API reference, chat completions, `prediction` (Static Content) and `completion_tokens_details`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sgl_spec.drafting.hint import MAX_PREDICT_CHARS, VERSION
from sgl_spec.server.report import FIELD

TYPE = "content"
PART_TYPE = "text"
ACCOUNT_FIELD = "prediction"  # of a request's account, where the scheduler side puts its counts

OVERSIZED = "oversized"  # as `decode_hint` calls it
HINT_FIRST = "explicit hint"


class PredictionRead(NamedTuple):
    """A `prediction` as the server understood it.

    Attributes:
        text: the output the client expects; "" where it is wrong.
        field: the name of the part that is wrong, "prediction.content" for one; None where nothing is.
        wrong: what that part is and what it should be.
    """

    text: str
    field: str | None = None
    wrong: str = ""


class HintedParams(NamedTuple):
    """`custom_params` with the prediction in its hint.

    Attributes:
        custom_params: for SGLang's sampling parameters; the client's own object is not changed.
        unused: why the prediction is not in there, OVERSIZED or HINT_FIRST; None where it is.
    """

    custom_params: dict[str, Any] | None
    unused: str | None = None


class PredictionCounts(NamedTuple):
    """Tokens of the prediction that appeared in the completion, and that did not."""

    accepted: int = 0
    rejected: int = 0


class _Wrong(Exception):
    """Reading ends here; the arguments are the field and what is wrong with it."""


def read_prediction(value: object) -> PredictionRead:
    """Read the field's value, `{"type": "content", "content": "..." or [{"type": "text", "text": "..."}, ...]}`.

    Never raises. Keys it does not know are passed over, as SGLang does with the rest of the body. The texts of several
    parts follow each other with nothing between.
    """
    try:
        return PredictionRead(_text(value))
    except _Wrong as wrong:
        return PredictionRead("", *wrong.args)


def _text(value: object) -> str:
    if not isinstance(value, dict):
        raise _Wrong("prediction", f"wanted an object with type and content, got {_kind(value)}")
    if value.get("type") != TYPE:
        raise _Wrong("prediction.type", f'wanted "{TYPE}", got {_shown(value, "type")}')
    content = value.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not content:
        raise _Wrong("prediction.content", f"wanted a string or a list of text parts, got {_shown(value, 'content')}")
    return "".join(_part(part, f"prediction.content[{index}]") for index, part in enumerate(content))


def _part(part: object, name: str) -> str:
    if not isinstance(part, dict):
        raise _Wrong(name, f"wanted an object with type and text, got {_kind(part)}")
    if part.get("type") != PART_TYPE:
        raise _Wrong(f"{name}.type", f'wanted "{PART_TYPE}", got {_shown(part, "type")}')
    text = part.get("text")
    if not isinstance(text, str):
        raise _Wrong(f"{name}.text", f"wanted a string, got {_shown(part, 'text')}")
    return text


# What JSON can hold.
_KINDS = {
    bool: "true or false", int: "a number", float: "a number", str: "a string", list: "a list", dict: "an object",
    type(None): "null",
}  # fmt: skip


def _shown(holder: Mapping[str, object], key: str) -> str:
    if key not in holder:
        return "nothing"
    value = holder[key]
    return ascii(value[:40]) if isinstance(value, str) else _kind(value)


def _kind(value: object) -> str:
    return "an empty list" if value == [] else _KINDS[type(value)]


def with_prediction(custom_params: Mapping[str, Any] | None, text: str) -> HintedParams:
    """Put `text` into the hint of `custom_params` as its `predict`.

    A hint the client gave explicitly is kept and completed: its own `predict` wins, and one that is not an object
    stays what it is. A text longer than a hint may carry is left out, for with it the whole hint would be ignored.
    """
    given = None if custom_params is None else dict(custom_params)
    if len(text) > MAX_PREDICT_CHARS:
        return HintedParams(given, OVERSIZED)
    hint = (given or {}).get(FIELD)
    if hint is None:
        hint = {"version": VERSION}
    if not isinstance(hint, dict) or hint.get("predict") is not None:
        return HintedParams(given, HINT_FIRST)
    return HintedParams({**(given or {}), FIELD: {**hint, "predict": text}})


def counts_in(meta_info: Mapping[str, Any]) -> PredictionCounts | None:
    """What the account in `meta_info["sgl_spec"]` says of the prediction; None while it says nothing."""
    entries = meta_info.get(FIELD)
    account = entries[-1] if isinstance(entries, list) and entries else None
    counts = account.get(ACCOUNT_FIELD) if isinstance(account, dict) else None
    if not isinstance(counts, dict):
        return None
    return PredictionCounts(int(counts["accepted"]), int(counts["rejected"]))


class PredictionTally:
    """What became of one request's prediction, over the completions (`n`) it asked for.

    Args:
        text: the prediction.
        completions: how many the request asked for; each had the prediction for itself.
    """

    def __init__(self, text: str, completions: int) -> None:
        self.text = text
        self._completions = completions
        self._counts: dict[int, PredictionCounts] = {}

    def note(self, index: int, meta_info: Mapping[str, Any]) -> None:
        """Look for counts in what SGLang told of completion `index`; the last ones stand."""
        counts = counts_in(meta_info)
        if counts is not None:
            self._counts[index] = counts

    @property
    def untold(self) -> int:
        """Completions of which nothing is known: their prediction never reached a drafter."""
        return max(self._completions - len(self._counts), 0)

    def total(self, tokens: int) -> PredictionCounts:
        """The sum over completions, as `completion_tokens` is one. `tokens`: of the text, for the untold ones."""
        counts = self._counts.values()
        return PredictionCounts(
            sum(one.accepted for one in counts), sum(one.rejected for one in counts) + self.untold * tokens
        )
