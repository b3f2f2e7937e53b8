"""The bundled programs on real servers: the same text off and on, and fewer steps."""

from __future__ import annotations

from pathlib import Path

import pytest
from client import Server

from sgl_spec.frontend.endpoint import Endpoint
from sgl_spec.frontend.program_file import load_program
from sgl_spec.frontend.program_main import run_inputs

PROGRAMS = Path(__file__).parents[2] / "programs"


@pytest.mark.parametrize("name", ["json_record", "quote_document", "react_agent"])
def test_same_text_and_fewer_steps(on: Server, off: Server, name: str) -> None:
    program = load_program(str(PROGRAMS / f"{name}.py"))
    ours, stock = Endpoint(on.url, keep_output_ids=True), Endpoint(off.url, keep_output_ids=True)
    texts = [[result.text for result in run_inputs(program, endpoint)] for endpoint in (ours, stock)]
    assert texts[0] == texts[1]
    assert [call.output_ids for call in ours.calls] == [call.output_ids for call in stock.calls]
    assert all(call.program and call.slot for call in ours.calls)
    counts = [call.spec for call in ours.calls if call.spec is not None]
    assert len(counts) == len(ours.calls)
    per_step = sum(c["tokens"] for c in counts) / sum(c["rounds"] for c in counts)
    assert per_step > (2.0 if name == "quote_document" else 1.2)
