"""Sums samples up per (workload, mode), compares each mode with the baseline, and prints the result as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sgl_spec.cli.bench.measure import Sample
from sgl_spec.cli.bench.modes import BASELINE, Mode
from sgl_spec.cli.bench.stats import (
    OriginTotal,
    Spread,
    abstained,
    decode_steps,
    forced_share,
    origin_totals,
    spread,
    tokens_per_step,
)
from sgl_spec.cli.text_table import render
from sgl_spec.frontend.call_log import CallRecord

FILLED_AFTER = 6  # requests of a pass after which memory, and a rival's trie, count as filled

MAIN_HEADER = (
    "workload", "mode", "tasks", "s/task", "(quartiles)",
    "speedup", "tokens", "steps", "tok/step", f"after {FILLED_AFTER}", "forced", "identical",
)  # fmt: skip


class Row(NamedTuple):
    """One workload on one mode.

    Attributes:
        tasks: tasks run; `samples` counts them once per round.
        calls: calls of all samples.
        seconds: per task, median over rounds; the spread is over tasks.
        total_seconds: sum over tasks of those medians.
        speedup: the baseline's total_seconds by this mode's.
        tokens, steps: summed over all samples (steps: see `stats`).
        identical: samples whose output equals the baseline's of the same task and round.
        drafts: by origin, when the server says.
        abstained: rounds that drafted nothing, by reason, when the server says.
        filled_tokens_per_step: tokens per step of the tasks from the seventh on of each pass (`FILLED_AFTER`); None
            when no pass has that many.
        forced_share: see `stats.forced_share`.
        batch: requests or programs side by side in one task.
    """

    workload: str
    mode: str
    tasks: int
    samples: int
    calls: int
    seconds: Spread
    total_seconds: float
    speedup: float
    tokens: int
    steps: int
    tokens_per_step: float | None
    identical: int
    drafts: tuple[OriginTotal, ...]
    abstained: dict[str, int]
    filled_tokens_per_step: float | None
    forced_share: float | None
    batch: int = 1


class Difference(NamedTuple):
    """A sample whose output is not the baseline's, and the place where they part (an index of calls)."""

    sample: Sample
    baseline: Sample
    call: int


def summarise(samples: Sequence[Sample]) -> tuple[Row, ...]:
    """A row per (workload, mode), in the order of appearance of workloads, the baseline's row first."""
    rows = []
    for workload in dict.fromkeys(sample.workload for sample in samples):
        mine = [sample for sample in samples if sample.workload == workload]
        modes = dict.fromkeys(sample.mode for sample in mine)
        for mode in sorted(modes, key=lambda name: name != BASELINE):
            rows.append(_row(workload, mode, mine))
    return tuple(rows)


def differences(samples: Sequence[Sample]) -> tuple[Difference, ...]:
    """Every sample whose output is not that of the baseline for the same task and round."""
    base = {_key(sample): sample for sample in samples if sample.mode == BASELINE}
    return tuple(
        Difference(sample, base[_key(sample)], _first_difference(sample.output, base[_key(sample)].output))
        for sample in samples
        if sample.output != base[_key(sample)].output
    )


def failures(found: Sequence[Difference], modes: Sequence[Mode]) -> tuple[Difference, ...]:
    """The differences of modes that promise none."""
    strict = {mode.name for mode in modes if mode.must_match}
    return tuple(difference for difference in found if difference.sample.mode in strict)


def main_table(rows: Sequence[Row]) -> str:
    """Times, tokens per step (of all tasks, and of those after the first six), speed, forced share and identity."""
    body = [
        [
            row.workload, row.mode, str(row.tasks), f"{row.seconds.median:.2f}",
            f"({row.seconds.low:.2f}-{row.seconds.high:.2f})", f"{row.speedup:.2f}x", str(row.tokens), str(row.steps),
            ratio(row.tokens_per_step), ratio(row.filled_tokens_per_step), percent(row.forced_share),
            f"{row.identical}/{row.samples}",
        ]
        for row in rows
    ]  # fmt: skip
    return render(MAIN_HEADER, body, align="<<>>>>>>>>>>")


def origin_table(rows: Sequence[Row]) -> str:
    """What became of each origin's nodes, for modes that report them; "" when none does."""
    body = [
        [
            row.workload, row.mode, total.origin, str(total.drafted),
            "-" if total.reached is None else str(total.reached), str(total.accepted),
            percent(total.accepted_of_reached),
        ]
        for row in rows
        for total in row.drafts
    ]  # fmt: skip
    header = ["workload", "mode", "origin", "drafted", "reached", "accepted", "accepted/reached"]
    return render(header, body, "<<<>>>>") if body else ""


def abstained_table(rows: Sequence[Row]) -> str:
    """Rounds that drafted nothing, by reason, for modes that report any; "" when none does."""
    body = [[row.workload, row.mode, reasons_text(row.abstained)] for row in rows if row.abstained]
    return render(["workload", "mode", "abstained rounds"], body, "<<<") if body else ""


def drafts_text(drafts: Sequence[OriginTotal], most: int | None = None) -> str:
    """`lookup 40/96, template 3/3`, or a dash; of more than `most` origins the first, and how many there are more."""
    told = [f"{total.origin} {total.accepted}/{total.drafted}" for total in drafts[:most]]
    more = len(drafts) - len(told)
    return ", ".join([*told, f"{more} more"] if more else told) or "-"


def reasons_text(reasons: dict[str, int]) -> str:
    """`no_match 12`, or a dash."""
    return ", ".join(f"{reason} {count}" for reason, count in sorted(reasons.items())) or "-"


def ratio(value: float | None) -> str:
    """Two decimals, or a dash for what does not exist."""
    return "-" if value is None else f"{value:.2f}"


def percent(share: float | None) -> str:
    """`97.3 %`, or a dash for what does not exist."""
    return "-" if share is None else f"{100 * share:.1f} %"


def difference_text(found: Difference) -> str:
    """One sentence: which task differs, on which mode, and how the two outputs go on from where they part."""
    sample, base = found.sample, found.baseline
    if found.call >= min(len(sample.calls), len(base.calls)):
        return (
            f"{sample.task} (round {sample.round + 1}): '{sample.mode}' made {len(sample.calls)} calls, "
            f"'{BASELINE}' {len(base.calls)}."
        )
    ours, theirs = sample.calls[found.call], base.calls[found.call]
    at = _first_difference(ours.text, theirs.text)
    return (
        f"{sample.task} (round {sample.round + 1}), call {found.call + 1} ({ours.slot}): '{sample.mode}' differs from "
        f"'{BASELINE}' at character {at}: {ours.text[at : at + 40]!r} against {theirs.text[at : at + 40]!r}."
    )


def _row(workload: str, mode: str, samples: Sequence[Sample]) -> Row:
    mine = [sample for sample in samples if sample.mode == mode]
    base = {_key(sample): sample for sample in samples if sample.mode == BASELINE}
    calls = [call for sample in mine for call in sample.calls]
    times = task_seconds(mine)
    total = sum(times)
    return Row(
        workload=workload,
        mode=mode,
        tasks=len(times),
        samples=len(mine),
        calls=len(calls),
        seconds=spread(times),
        total_seconds=total,
        speedup=sum(task_seconds(list(base.values()))) / total,
        tokens=sum(call.completion_tokens for call in calls),
        steps=sum(decode_steps(call) for call in calls),
        tokens_per_step=tokens_per_step(calls),
        identical=sum(sample.output == base[_key(sample)].output for sample in mine),
        drafts=origin_totals(calls),
        abstained=abstained(calls),
        filled_tokens_per_step=tokens_per_step(_calls_when_filled(mine)),
        forced_share=forced_share(calls),
        batch=mine[0].batch,
    )


def _calls_when_filled(samples: Sequence[Sample]) -> list[CallRecord]:
    """The calls of each pass's tasks after its first `FILLED_AFTER`; one mode's samples, in the order they were run."""
    calls = []
    for number in dict.fromkeys(sample.round for sample in samples):
        tasks = [sample for sample in samples if sample.round == number]
        calls += [call for sample in tasks[FILLED_AFTER:] for call in sample.calls]
    return calls


def task_seconds(samples: Sequence[Sample]) -> list[float]:
    """Seconds of each task: the median over its rounds."""
    tasks = dict.fromkeys(sample.task for sample in samples)
    return [spread([sample.seconds for sample in samples if sample.task == task]).median for task in tasks]


class _Key(NamedTuple):
    task: str
    round: int
    workload: str


def _key(sample: Sample) -> _Key:
    return _Key(sample.task, sample.round, sample.workload)


def _first_difference(left: Sequence[object], right: Sequence[object]) -> int:
    for index, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return index
    return min(len(left), len(right))
