"""What all comparisons come to: a table's rows, and the reasons why a check failed.

Stands outside a round; pure. A check passes only if everything agrees *and* the agreement means something: requests
with speculation were drafted for, and their twins were not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from sgl_spec.cli.bench.stats import abstained, tokens_per_step
from sgl_spec.cli.check.answer import Reply
from sgl_spec.cli.check.compare import ASPECTS, FAILED, IDS, LOGPROB, STREAM
from sgl_spec.cli.check.runner import Outcome
from sgl_spec.cli.check.source import PROGRAM, Source
from sgl_spec.frontend.call_log import CallRecord


class Line(NamedTuple):
    """Some comparisons, summed up.

    Attributes:
        name: of the program or row, or the value they have in common.
        setting: their temperatures.
        requests: comparisons, each of one request with speculation and one without.
        identical: those that agree in everything.
        tokens_per_step: of the requests with speculation; None when none was decoded.
        drafted, accepted: nodes, of these requests.
        abstained: their rounds without drafts, by reason.
    """

    name: str
    setting: str
    requests: int
    identical: int
    tokens_per_step: float | None
    drafted: int
    accepted: int
    abstained: dict[str, int]


class Agreement(NamedTuple):
    """In how many comparisons one aspect was there to compare, and in how many of these it agrees."""

    aspect: str
    agree: int
    compared: int


def line(name: str, setting: str, outcomes: Sequence[Outcome]) -> Line:
    """The outcomes as one row of a table."""
    calls = list(_records(one.on for one in outcomes))
    return Line(
        name, setting, len(outcomes), sum(one.differences.none for one in outcomes), tokens_per_step(calls),
        _nodes(calls, "drafted"), _nodes(calls, "accepted"), abstained(calls),
    )  # fmt: skip


def by_source(outcomes: Sequence[Outcome]) -> tuple[Line, ...]:
    """A line for each program at each temperature, then one for each row of parameters."""
    programs = [one for one in outcomes if one.cell.kind == PROGRAM]
    rows = [one for one in outcomes if one.cell.kind != PROGRAM]
    return (
        *_lines(programs, lambda one: _Group(one.cell.source, one.cell.temperature)),
        *_lines(rows, lambda one: _Group(one.cell.source, None)),
    )


def by_setting(outcomes: Sequence[Outcome]) -> tuple[Line, ...]:
    """A line for each batch size with each memory, at each temperature, and one for everything."""
    groups = _lines(outcomes, lambda one: _Group(f"batch {one.cell.batch}, {one.cell.memory}", one.cell.temperature))
    return (*groups, line("all", _temperatures(outcomes), outcomes))


class _Group(NamedTuple):
    name: str
    temperature: float | None


def _lines(outcomes: Sequence[Outcome], group: Callable[[Outcome], _Group]) -> list[Line]:
    groups: dict[_Group, list[Outcome]] = {}
    for one in outcomes:
        groups.setdefault(group(one), []).append(one)
    ordered = sorted(groups.items(), key=lambda item: item[0])
    return [line(key.name, _temperatures(some), some) for key, some in ordered]


def _temperatures(outcomes: Iterable[Outcome]) -> str:
    return ", ".join(f"{value:g}" for value in sorted({one.cell.temperature for one in outcomes}))


def agreements(outcomes: Sequence[Outcome]) -> tuple[Agreement, ...]:
    """For every aspect but failures: where it was asked for, and where it agrees."""
    found = []
    for aspect in (one for one in ASPECTS if one != FAILED):
        asked = [one for one in outcomes if _has(one, aspect)]
        found.append(Agreement(aspect, sum(aspect not in one.differences.aspects for one in asked), len(asked)))
    return tuple(found)


def _has(outcome: Outcome, aspect: str) -> bool:
    if FAILED in outcome.differences.aspects:
        return False
    if aspect == LOGPROB:
        return bool(outcome.cell.on.get("return_logprob"))
    return aspect != STREAM or bool(outcome.cell.on.get("stream"))


def problems(outcomes: Sequence[Outcome], sources: Sequence[Source]) -> tuple[str, ...]:
    """Why the check failed, a sentence each; none when it passed."""
    found = [f"{one.kind} {one.name} could not be run: {one.failure}" for one in sources if one.failure is not None]
    if not outcomes:
        return (*found, "nothing was compared")
    failed = sum(FAILED in one.differences.aspects for one in outcomes)
    differ = sum(not one.differences.none for one in outcomes) - failed
    if differ:
        found.append(f"{differ} of {len(outcomes)} comparisons differ")
    if failed:
        found.append(f"{failed} of {len(outcomes)} comparisons failed")
    return (*found, *_nothing_shown(outcomes))


def _nothing_shown(outcomes: Sequence[Outcome]) -> list[str]:
    """What makes an agreement worthless."""
    on, off = (list(_records(getattr(one, side) for one in outcomes)) for side in ("on", "off"))
    if not on or not off:
        return []  # all failed, which is said already
    if all(call.spec is None for call in on):
        return ['no answer has an account in meta_info["sgl_spec"]: this server does not speculate with sgl_spec']
    found = []
    if not _nodes(on, "drafted"):
        found.append("the server drafted nothing for any request, so the agreement shows nothing")
    drafted_off = sum(_nodes([call], "drafted") > 0 for call in off)
    if drafted_off:
        found.append(f"{drafted_off} requests with speculation off were drafted for, so the agreement shows nothing")
    if any(call.output_ids is None for call in (*on, *off)):
        found.append(f"the server sends no output_ids, so {IDS} cannot be compared")
    return found


def _records(replies: Iterable[Reply]) -> Iterable[CallRecord]:
    return (answer.record for reply in replies for answer in reply.answers)


def _nodes(calls: Sequence[CallRecord], count: str) -> int:
    return sum(int((call.spec or {}).get(count, {}).get("all", 0)) for call in calls)
