"""Compares two replies to the same request: everything a client can see of an answer, field by field.

Stands outside a round. Pure. What may differ is left out: times, the request's id, how much of the prompt was cached,
and the account of the speculation itself. So is one thing that SGLang leaves to chance: of tokens with equal
log-probabilities, which comes first among the top ones and which is the last of them to be told depends on how many the
*other* requests of the batch ask for (it calls torch.topk once, for the largest number).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sgl_spec.cli.check.answer import LOGPROBS, USAGE, Answer, Reply

# What an answer has, as a user thinks of it; each groups fields of SGLang's.
IDS, TEXT, FINISH, LOGPROB, USED, STREAM, FAILED = (
    "ids", "text", "finish reason", "logprobs", "usage", "stream", "failed",
)  # fmt: skip
ASPECTS = (IDS, TEXT, FINISH, LOGPROB, USED, STREAM, FAILED)
_SHOWN_ELEMENTS, _SHOWN_CHARACTERS = 8, 60


class Difference(NamedTuple):
    """One field in which two replies differ.

    Attributes:
        aspect: one of ASPECTS.
        field: SGLang's name of it.
        answer: which of the request's answers, from 0.
        at: the first element that differs: a token, or a character of a text; None where there is nothing to count.
        on, off: the two values from there on, as many as tell them apart; the whole values where `at` is None.
    """

    aspect: str
    field: str
    answer: int
    at: int | None
    on: Any
    off: Any


@dataclass(frozen=True)
class Differences:
    """All differences of two replies, the failures first, then by answer."""

    found: tuple[Difference, ...] = ()

    @property
    def none(self) -> bool:
        return not self.found

    @property
    def aspects(self) -> frozenset[str]:
        """What does not agree."""
        return frozenset(one.aspect for one in self.found)

    @property
    def first_token(self) -> Difference | None:
        """Where the ids part first, or None where they agree."""
        return next((one for one in self.found if one.aspect == IDS and one.at is not None), None)


def compare(on: Reply, off: Reply) -> Differences:
    """Everything in which `on` (speculated) is not `off` (the same request, decoded without drafts)."""
    if on.failure is not None or off.failure is not None:
        return Differences((Difference(FAILED, "failure", 0, None, on.failure, off.failure),))
    if len(on.answers) != len(off.answers):
        return Differences((Difference(FAILED, "answers", 0, None, len(on.answers), len(off.answers)),))
    pairs = enumerate(zip(on.answers, off.answers, strict=True))
    return Differences(tuple(one for number, (left, right) in pairs for one in _compared(number, left, right)))


def _compared(number: int, on: Answer, off: Answer) -> list[Difference]:
    found = [
        _sequence(IDS, "output_ids", number, on.output_ids, off.output_ids),
        _sequence(TEXT, "text", number, on.text, off.text),
        _value(FINISH, "finish_reason", number, on, off),
        *(_logprobs(name, number, on.meta_info.get(name), off.meta_info.get(name)) for name in LOGPROBS),
        *(_value(USED, name, number, on, off) for name in USAGE),
    ]
    if on.taken_back or off.taken_back:
        found.append(Difference(STREAM, "taken back", number, None, on.taken_back, off.taken_back))
    return [one for one in found if one is not None]


def _value(aspect: str, name: str, number: int, on: Answer, off: Answer) -> Difference | None:
    left, right = on.meta_info.get(name), off.meta_info.get(name)
    return None if left == right else Difference(aspect, name, number, None, left, right)


def _sequence(
    aspect: str, name: str, number: int, on: Sequence[Any] | None, off: Sequence[Any] | None
) -> Difference | None:
    if on == off:
        return None
    if on is None or off is None:
        return Difference(aspect, name, number, None, on, off)
    at = first_difference(on, off)
    shown = at + (_SHOWN_CHARACTERS if isinstance(on, str) else _SHOWN_ELEMENTS)
    return Difference(aspect, name, number, at, on[at:shown], off[at:shown])


def _logprobs(name: str, number: int, on: list[Any] | None, off: list[Any] | None) -> Difference | None:
    if on == off or "top" not in name or on is None or off is None:
        return _sequence(LOGPROB, name, number, on, off)
    left, right = ([_without_chance(row) for row in rows] for rows in (on, off))
    if left == right:
        return None
    at = first_difference(left, right)
    return Difference(LOGPROB, name, number, at, on[at : at + 1], off[at : at + 1])


def _without_chance(row: Any) -> Any:
    """One position's top tokens, [[logprob, id, text], ...], with equal ones by id and none named of the smallest.
    Anything else a server may send stays as it is."""
    if not isinstance(row, list) or not all(map(_is_entry, row)):
        return row
    last = min((entry[0] for entry in row), default=None)
    named = [list(entry) if entry[0] != last else [last] for entry in row]
    return sorted(named, key=lambda entry: (-entry[0], entry[1:2]))


def _is_entry(entry: Any) -> bool:
    """Whether it is [logprob, id, ...]."""
    return (
        isinstance(entry, list | tuple)
        and len(entry) > 1
        and isinstance(entry[0], int | float)
        and isinstance(entry[1], int)
    )


def first_difference(left: Sequence[Any], right: Sequence[Any]) -> int:
    """The first place where two unequal sequences part: the shorter one's end, where it is all that the other has."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(left), len(right)))
