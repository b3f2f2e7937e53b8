"""The programs in `programs/` load, run against a scripted server, and use their tools on what the model says."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_sglang_server import Fail, FakeServer, answer, serving

from sgl_spec.frontend.endpoint import Endpoint
from sgl_spec.frontend.process_tree import free_port
from sgl_spec.frontend.program_file import load_program
from sgl_spec.frontend.program_main import RunResult, run_inputs, run_program_file, summary

PROGRAMS = Path(__file__).parents[2] / "programs"
FILES = sorted(PROGRAMS.glob("*.py"))
REACT = str(PROGRAMS / "react_agent.py")


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with serving(FakeServer(special_tokens=("<|im_start|>",))) as one:
        yield one


def react_tools():
    return sys.modules[load_program(REACT).function.func.__module__]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_program_runs_over_its_inputs_greedily_and_tagged(server: FakeServer, file: Path) -> None:
    server.generate = lambda body: answer(" I know.\nAction: Finish[x]")
    loaded = load_program(str(file))
    results = run_inputs(loaded, Endpoint(server.url))
    assert len(results) == len(loaded.inputs) >= 3
    generating = [body["sampling_params"] for body in server.requests if body["sampling_params"]["max_new_tokens"]]
    assert {params["temperature"] for params in generating} == {0}
    assert {hint["program"] for hint in server.hints()} == {f"{file.stem}.{loaded.function.func.__name__}"}
    assert all(call.slot and not call.slot.startswith("#") for result in results for call in result.calls)


def test_each_program_is_short() -> None:
    assert FILES
    assert {file.stem: lines for file in FILES if (lines := len(file.read_text().splitlines())) >= 80} == {}


def test_the_agent_acts_on_its_tools_and_finishes(server: FakeServer) -> None:
    steps = iter(
        [" Look.\nAction: Lookup[nile]", " Sum.\nAction: Calculate[2 * (3 + 4)]", " Done.\nAction: Finish[14]"]
    )
    server.generate = lambda body: answer(next(steps))
    (result,) = run_inputs(load_program(REACT), Endpoint(server.url), limit=1)
    assert result.returned == "14"
    assert "Observation: The Nile is a river in Africa." in result.text
    assert "Action: Calculate[2 * (3 + 4)]\nObservation: 14\nThought: Done." in result.text
    assert [call.slot for call in result.calls] == ["step"] * 3


@pytest.mark.parametrize("step", ["", " gibberish", "Action: Fly[home]", "Action: Lookup[Atlantis]"])
def test_the_agent_stops_after_its_last_step(server: FakeServer, step: str) -> None:
    server.generate = lambda body: answer(step)
    (result,) = run_inputs(load_program(REACT), Endpoint(server.url), limit=1)
    assert (result.returned, len(result.calls)) == (None, 5)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("12 * 6", "72"), ("-3 + 1.5", "-1.5"), ("7 / 2", "3.5"), ("384000 * 27", "10368000"),
        ("1 / 0", None), ("2 ** 99", None), ("__import__('os')", None), ("a + 1", None), ("1 +", None),
        ("'a' * 3", None),
    ],
)  # fmt: skip
def test_the_calculator_does_sums_and_nothing_else(expression: str, value: str | None) -> None:
    assert react_tools().call_tool("Calculate", expression) == (value or f"{expression} is not a sum I can do.")


def test_the_corpus_is_of_some_size() -> None:
    assert len(react_tools().CORPUS) >= 20


def test_the_worked_examples_are_true_to_schema_and_tools() -> None:
    records = sys.modules[load_program(str(PROGRAMS / "json_record.py")).function.func.__module__]
    keys = json.loads(records.SCHEMA)["required"]
    assert [list(json.loads(record)) for _, record in records.EXAMPLES] == [keys] * len(records.EXAMPLES)
    tools = react_tools()
    calls = tools.EXAMPLES.split("Action: ")[1:]
    for call in calls:
        action, _, rest = call.partition("]\nObservation: ")
        tool, _, argument = action.partition("[")
        assert tool.startswith("Finish") or tools.call_tool(tool, argument) == rest.partition("\n")[0]


def test_a_program_file_is_a_command(server: FakeServer) -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAMS / "quote_document.py"), "--url", server.url, "--limit", "1", "--off"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "[quote] ok" in done.stdout
    assert "quote_document: 1 runs, 1 calls, 2 tokens" in done.stdout
    assert server.hints()[0]["off"] is True
    assert server.hints()[0]["program"] == "quote_document.quote_document"


def test_a_users_mistake_is_one_sentence(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(PROGRAMS / "quote_document.py")
    assert run_program_file(file, ["--url", f"http://127.0.0.1:{free_port()}"]) == 1
    assert "refused the connection" in capsys.readouterr().err
    server.generate = fail_with(Fail(400, "no room"))
    assert run_program_file(file, ["--url", server.url]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.endswith("400: no room\n")
    assert error.count("\n") == 1
    with pytest.raises(SystemExit, match="2"):
        run_program_file(file, ["--limit", "0"])


def fail_with(failure: Fail):
    def generate(body):
        raise failure

    return generate


def test_the_summary_counts_tokens_per_round(server: FakeServer) -> None:
    server.generate = lambda body: answer("x" * 13, sgl_spec=[{"rounds": 4}])
    results: list[RunResult] = []
    loaded = load_program(str(PROGRAMS / "quote_document.py"))
    run_inputs(loaded, Endpoint(server.url), on_result=results.append)
    assert summary("name", results).startswith("name: 3 runs, 3 calls, 39 tokens, ")
    assert summary("name", results).endswith(", 3.00 tokens per round")
