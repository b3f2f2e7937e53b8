"""The check's result in words: two tables, and every difference with the request that shows it again.

Stands outside a round.
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from sgl_spec.cli.bench.summary import ratio, reasons_text
from sgl_spec.cli.check.compare import FAILED, Difference
from sgl_spec.cli.check.matrix import FIELD, hint_of
from sgl_spec.cli.check.runner import Outcome
from sgl_spec.cli.check.verdict import Line, agreements, by_setting, by_source
from sgl_spec.cli.text_table import render

_COLUMNS = ("requests", "identical", "tok/step", "drafted", "accepted", "abstained rounds")
_LONGEST_VALUE = 200


def tables(outcomes: Sequence[Outcome]) -> str:
    """By program and row, by batch size and memory, and how often each part of an answer agrees."""
    by_name = _table("program or row", by_source(outcomes))
    by_place = _table("under way at once, memory", by_setting(outcomes))
    parts = ", ".join(f"{one.aspect} {one.agree} of {one.compared}" for one in agreements(outcomes))
    return f"{by_name}\n\n{by_place}\n\nagree: {parts}"


def _table(title: str, lines: Sequence[Line]) -> str:
    body = [
        [
            one.name, one.setting, str(one.requests), str(one.identical), ratio(one.tokens_per_step),
            str(one.drafted), str(one.accepted), reasons_text(one.abstained),
        ]
        for one in lines
    ]  # fmt: skip
    return render((title, "temperature", *_COLUMNS), body, align="<<>>>>><")


def difference_texts(outcomes: Sequence[Outcome], url: str) -> tuple[str, ...]:
    """A paragraph for each comparison that does not agree. The same failure of many is told once."""
    texts: list[str] = []
    failures = Counter(_failure(one) for one in outcomes)
    for one in outcomes:
        failure = _failure(one)
        if failure is None and not one.differences.none:
            texts.append(f"{_where(one)}\n{_what(one)}\n{_how(one, url)}")
        elif failure is not None and failures[failure]:
            more = f" (and {failures[failure] - 1} more like it)" if failures[failure] > 1 else ""
            texts.append(f"{_where(one)}\n  failed ({_failed_side(one)}): {failure}{more}\n{_how(one, url)}")
            failures[failure] = 0
    return tuple(texts)


def _failure(one: Outcome) -> str | None:
    if FAILED not in one.differences.aspects:
        return None
    return one.on.failure or one.off.failure or "one request has more answers than the other"


def _failed_side(one: Outcome) -> str:
    return "both" if one.on.failure and one.off.failure else "on" if one.on.failure else "off"


def _where(one: Outcome) -> str:
    cell = one.cell
    return (
        f"#{cell.number} {cell.kind} {cell.source} ({cell.call}), temperature {cell.temperature:g}, "
        f"seed {cell.sampling_seed}, batch {cell.batch}, {cell.memory} memory"
    )


def _what(one: Outcome) -> str:
    lines = [f"  {_difference(found)}" for found in one.differences.found]
    first = one.differences.first_token
    if first is not None:
        lines.insert(0, f"  first differing token: {first.at}{_answer(first)}")
    return "\n".join(lines)


def _difference(found: Difference) -> str:
    at = "" if found.at is None else f" from {found.at} on"
    return f"{found.field}{_answer(found)}{at}: on {_short(found.on)}, off {_short(found.off)}"


def _answer(found: Difference) -> str:
    return f" of answer {found.answer + 1}" if found.answer else ""


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 3] + "..."


def _how(one: Outcome, url: str) -> str:
    off = json.dumps(hint_of(one.cell.off), ensure_ascii=False)
    return f"  on:  {curl(one.cell.on, url)}\n  off: the same with custom_params.{FIELD} = {off}, not streamed"


def curl(body: Mapping[str, Any], url: str) -> str:
    """A shell command that sends the request (a server with a key wants its header too)."""
    return f"curl -s {url}/generate -H 'Content-Type: application/json' -d {shlex.quote(json.dumps(body))}"
