"""The JSON a measurement leaves: everything needed to judge it later, and every raw sample.

Schema 1: {"schema", "kind", "started", "command", "machine", "versions", "model", "settings", "modes", "summary",
"merged", "samples"}. Times in seconds; a sample's calls carry token ids, so that any comparison can be made again.
"modes" says on which server each ran and with which hint; "merged" holds `full` against single origins and is empty
when none was run alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sgl_spec.cli.bench.fleet import Server
from sgl_spec.cli.bench.measure import Sample
from sgl_spec.cli.bench.merged import MergedResult, merged_results
from sgl_spec.cli.bench.summary import Row
from sgl_spec.cli.json_file import write_json
from sgl_spec.cli.machine import Machine
from sgl_spec.drafting.hint import encode_hint

SCHEMA = 1
KIND = "sgl_spec.bench"


class Measurement(NamedTuple):
    """One whole run of the bench. `started` is ISO 8601, UTC; `settings` are the options that shaped it."""

    started: str
    command: tuple[str, ...]
    machine: Machine
    versions: dict[str, str]
    model: str
    settings: dict[str, Any]
    servers: tuple[Server, ...]
    rows: tuple[Row, ...]
    samples: tuple[Sample, ...]


def write(path: Path, measurement: Measurement) -> None:
    """Writes the file whole or not at all."""
    write_json(path, as_json(measurement))


def as_json(measurement: Measurement) -> dict[str, Any]:
    """The file's content (schema above)."""
    return {
        "schema": SCHEMA,
        "kind": KIND,
        "started": measurement.started,
        "command": list(measurement.command),
        "machine": measurement.machine._asdict(),
        "versions": measurement.versions,
        "model": measurement.model,
        "settings": measurement.settings,
        "modes": [_server(server) for server in measurement.servers],
        "summary": [_row(row) for row in measurement.rows],
        "merged": [_merged(result) for result in merged_results(measurement.rows)],
        "samples": [_sample(sample) for sample in measurement.samples],
    }


def _server(server: Server) -> dict[str, Any]:
    mode = {**server.mode._asdict(), "hint": encode_hint(server.mode.hint)}
    return {**mode, "argv": list(server.command.argv), "env": server.command.env}


def _row(row: Row) -> dict[str, Any]:
    drafts = [total._asdict() for total in row.drafts]
    return {**row._asdict(), "seconds": row.seconds._asdict(), "drafts": drafts}


def _merged(result: MergedResult) -> dict[str, Any]:
    singles = {single.origin: single.tokens_per_step for single in result.singles}
    best = {"best": result.best.origin, "margin": result.margin, "holds": result.holds}
    return {"workload": result.workload, "full": result.merged, "singles": singles, **best}


def _sample(sample: Sample) -> dict[str, Any]:
    calls: Sequence[dict[str, Any]] = [dataclasses.asdict(call) for call in sample.calls]
    return {**sample._asdict(), "calls": calls}
