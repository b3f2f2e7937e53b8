"""The JSON a check leaves: what was asked of which server, and what came back, so that it can be judged again later.

Stands outside a round. docs/check.md describes the schema; `SCHEMA` grows by one when it changes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sgl_spec.cli.check.answer import LOGPROBS, USAGE, Answer, Reply
from sgl_spec.cli.check.matrix import FIELD, Plan
from sgl_spec.cli.check.runner import Outcome
from sgl_spec.cli.check.source import Source
from sgl_spec.cli.check.verdict import agreements, by_setting, by_source
from sgl_spec.cli.json_file import write_json
from sgl_spec.cli.machine import Machine

SCHEMA = 1
KIND = "sgl_spec.check"
_META = ("finish_reason", *USAGE, *LOGPROBS, "cached_tokens", "spec_verify_ct")


class Checked(NamedTuple):
    """A whole check.

    Attributes:
        started: ISO 8601, UTC; seconds: of the matrix alone.
        command: as it was typed.
        machine, versions: of the client.
        url, server: the server's address and its own description.
        plan: what was to be covered.
        sources, outcomes: what was run.
        problems: why it failed; none when it passed.
    """

    started: str
    seconds: float
    command: tuple[str, ...]
    machine: Machine
    versions: Mapping[str, str]
    url: str
    server: Mapping[str, Any]
    plan: Plan
    sources: tuple[Source, ...]
    outcomes: tuple[Outcome, ...]
    problems: tuple[str, ...]


def write(path: Path, checked: Checked) -> None:
    """Writes the file whole or not at all."""
    write_json(path, _finite(as_json(checked)))


def as_json(checked: Checked) -> dict[str, Any]:
    """The file's content."""
    head = {name: getattr(checked, name) for name in ("started", "seconds", "url", "server", "versions")}
    return {
        "schema": SCHEMA,
        "kind": KIND,
        **head,
        "command": list(checked.command),
        "machine": checked.machine._asdict(),
        "passed": not checked.problems,
        "problems": list(checked.problems),
        "matrix": checked.plan._asdict(),
        "sources": [_source(source) for source in checked.sources],
        "agreement": {one.aspect: [one.agree, one.compared] for one in agreements(checked.outcomes)},
        "summary": [line._asdict() for line in (*by_source(checked.outcomes), *_settings(checked.outcomes))],
        "results": [_result(outcome) for outcome in checked.outcomes],
    }


def _settings(outcomes: Sequence[Outcome]) -> Sequence[Any]:
    return by_setting(outcomes) if outcomes else ()


def _source(source: Source) -> dict[str, Any]:
    return {"name": source.name, "kind": source.kind, "calls": len(source.calls), "failure": source.failure}


def _result(outcome: Outcome) -> dict[str, Any]:
    cell = {name: value for name, value in outcome.cell._asdict().items() if name not in ("on", "off")}
    return {
        **cell,
        "identical": outcome.differences.none,
        "differences": [one._asdict() for one in outcome.differences.found],
        "on": {"body": dict(outcome.cell.on), **_reply(outcome.on)},
        "off": {"body": dict(outcome.cell.off), **_reply(outcome.off)},
    }


def _reply(reply: Reply) -> dict[str, Any]:
    answers = [_answer(answer) for answer in reply.answers]
    return {"seconds": reply.seconds, "failure": reply.failure, "answers": answers}


def _answer(answer: Answer) -> dict[str, Any]:
    meta = {name: answer.meta_info[name] for name in _META if name in answer.meta_info}
    ids = None if answer.output_ids is None else list(answer.output_ids)
    found = {"output_ids": ids, "text": answer.text, **meta, FIELD: answer.record.spec}
    return {**found, "taken_back": answer.taken_back} if answer.taken_back else found


def _finite(value: Any) -> Any:
    """JSON has no infinite numbers, which a forbidden token's log-probability is: they become text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {name: _finite(one) for name, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list | tuple) else value
