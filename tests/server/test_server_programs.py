"""The bundled programs on real servers: the same text off and on, and fewer steps."""

from __future__ import annotations

from pathlib import Path

import pytest
from client import Server

from sgl_spec.frontend.call_log import CallRecord
from sgl_spec.frontend.endpoint import Endpoint
from sgl_spec.frontend.program_file import load_program
from sgl_spec.frontend.program_main import run_inputs

PROGRAMS = Path(__file__).parents[2] / "programs"


@pytest.mark.parametrize(
    ("name", "inputs", "least"),
    [
        ("json_record", None, 1.2), ("quote_document", None, 2.0), ("react_agent", None, 1.2),
        ("tool_calls", 2, 1.5), ("character_sheet", 2, 1.5), ("extract_batch", 2, 1.5), ("text_to_sql", 4, 1.2),
        ("llm_judge", 1, 1.5), ("code_edit", 2, 2.0), ("self_repair", 2, 1.5),
    ],
)  # fmt: skip
def test_same_text_and_fewer_steps(on: Server, off: Server, name: str, inputs: int | None, least: float) -> None:
    program = load_program(str(PROGRAMS / f"{name}.py"))
    ours, stock = Endpoint(on.url, keep_output_ids=True), Endpoint(off.url, keep_output_ids=True)
    calls: list[list[CallRecord]] = [[], []]
    texts: list[list[str]] = [[], []]
    for which, endpoint in enumerate((ours, stock)):
        for result in run_inputs(program, endpoint, limit=inputs):
            texts[which].append(result.text)
            # Forks finish in any order.
            calls[which] += sorted(result.calls, key=lambda call: (call.slot, call.output_ids))
    assert texts[0] == texts[1]
    assert [(call.slot, call.output_ids) for call in calls[0]] == [(call.slot, call.output_ids) for call in calls[1]]
    assert all(call.program and call.slot for call in calls[0])
    counts = [call.spec for call in calls[0] if call.spec is not None]
    assert len(counts) == len(calls[0])
    per_step = sum(count["tokens"] for count in counts) / max(1, sum(count["rounds"] for count in counts))
    assert per_step > least
