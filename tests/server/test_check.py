"""`sgl-spec check` on real servers: ours passes its own self-test, one without speculation does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from client import Server

from sgl_spec import cli


def test_our_server_passes(on: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "check.json"
    code = cli.main(["check", on.url, "--quick", "--out", str(out)])
    assert code == 0, capsys.readouterr().out
    found = json.loads(out.read_text())
    assert found["problems"] == []
    assert len(found["results"]) == 16
    assert {result["batch"] for result in found["results"]} == {1, 8}
    assert {result["kind"] for result in found["results"]} == {"program", "row"}
    assert found["summary"][-1]["tokens_per_step"] > 1
    assert found["server"]["speculative_algorithm"] == "SGL_SPEC"


def test_a_server_without_speculation_fails(off: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", off.url, "--quick"]) == 1
    assert "FAILED: the server does not speculate" in capsys.readouterr().out
