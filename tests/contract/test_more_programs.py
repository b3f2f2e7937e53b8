"""The programs whose tools, queries and tests are real: what they do with what a scripted model says."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from fake_sglang_server import FakeServer, answer, serving

from sgl_spec.frontend.endpoint import Endpoint
from sgl_spec.frontend.program_file import load_program
from sgl_spec.frontend.program_main import RunResult, run_inputs

PROGRAMS = Path(__file__).parents[2] / "programs"
CALL = '{"tool": "split_bill", "arguments": {"total": 84, "people": 6}}'


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with serving(FakeServer(special_tokens=("<|im_start|>",))) as one:
        yield one


def module(name: str) -> ModuleType:
    return sys.modules[load_program(str(PROGRAMS / f"{name}.py")).function.func.__module__]


def run_one(server: FakeServer, name: str, *says: str) -> RunResult:
    """The first run of a program on a server that says `says`, one after another, and then the last for ever."""
    lines = iter(says)
    server.generate = lambda body: answer(next(lines, says[-1]))
    return run_inputs(load_program(str(PROGRAMS / f"{name}.py")), Endpoint(server.url), limit=1)[0]


def example_lines(module: ModuleType, start: str) -> list[str]:
    return re.findall(rf"^{start}: (.*)", module.EXAMPLES, re.MULTILINE)


# tool_calls


def test_a_tool_is_called_and_its_result_goes_back(server: FakeServer) -> None:
    result = run_one(server, "tool_calls", CALL, " Each pays 14.00 euros.")
    assert f"Call: {CALL}\nResult: 14.00 each\nAnswer: Each pays 14.00 euros." in result.text
    assert result.returned == "Each pays 14.00 euros."
    schema = json.loads(server.requests[0]["sampling_params"]["json_schema"])
    assert [one["properties"]["tool"]["enum"] for one in schema["anyOf"]] == [
        ["convert_length"], ["split_bill"], ["count_letter"],
    ]  # fmt: skip
    assert schema["anyOf"][0]["properties"]["arguments"]["required"] == ["value", "from_unit", "to_unit"]


@pytest.mark.parametrize(
    "call",
    [
        CALL[:30], "", "null", "[]", '"x"', "{}", '{"tool": "fly", "arguments": {}}',
        '{"tool": "split_bill", "arguments": {"total": 84}}',
        '{"tool": "split_bill", "arguments": {"total": 84, "people": 0}}',
        '{"tool": "split_bill", "arguments": {"total": 1' + "0" * 400 + ', "people": 7}}',
        '{"tool": "convert_length", "arguments": {"value": 1, "from_unit": "inches", "to_unit": "feet"}}',
        '{"tool": "count_letter", "arguments": {"word": 5, "letter": "e"}}',
    ],
)  # fmt: skip
def test_a_call_that_cannot_be_made_is_told_so(server: FakeServer, call: str) -> None:
    assert "\nResult: error: " in run_one(server, "tool_calls", call, " Never mind.").text


def test_the_examples_of_tool_calls_are_what_the_tools_say() -> None:
    tools = module("tool_calls")
    calls, results = example_lines(tools, "Call"), example_lines(tools, "Result")
    assert len(calls) == len(results) == 5
    assert [tools.run_tool(call) for call in calls] == results


# character_sheet, extract_batch


def test_the_example_sheets_have_the_form_that_is_asked_for(server: FakeServer) -> None:
    sheets = module("character_sheet")
    assert len(sheets.EXAMPLES) == 2
    assert all(re.fullmatch(sheets.SHEET, sheet) and json.loads(sheet) for sheet in sheets.EXAMPLES.values())
    run_one(server, "character_sheet", "{}")
    assert server.requests[0]["sampling_params"]["regex"] == sheets.SHEET


def test_the_example_records_have_the_keys_of_the_schema() -> None:
    extract = module("extract_batch")
    records = [json.loads(example.split("\n")[1]) for example in extract.EXAMPLES.split("\n\n")]
    assert [list(record) for record in records] == [extract.RECORD["required"]] * 3
    assert {tuple(item) for record in records for item in record["items"]} == {("quantity", "article")}
    assert None in {record["signed_by"] for record in records}


def test_documents_are_extracted_side_by_side(server: FakeServer) -> None:
    meeting = threading.Barrier(3, timeout=30)

    def generate(body):
        meeting.wait()
        return answer("{}")

    server.generate = generate
    loaded = load_program(str(PROGRAMS / "extract_batch.py"))
    states = loaded.function.run_batch(
        loaded.inputs[:3], backend=Endpoint(server.url), num_threads=3, progress_bar=False
    )
    assert [state["record"] for state in states] == ["{}"] * 3


# text_to_sql


def test_the_result_of_a_query_goes_back(server: FakeServer) -> None:
    result = run_one(server, "text_to_sql", " SELECT title FROM books WHERE author = 'Austen'", " Emma and Persuasion.")
    assert "SQL: SELECT title FROM books WHERE author = 'Austen';\nResult: Emma; Persuasion\nAnswer:" in result.text
    assert result.returned == "Emma and Persuasion."


def test_a_query_that_fails_goes_back_and_is_tried_once_more(server: FakeServer) -> None:
    result = run_one(server, "text_to_sql", " SELECT x FROM books", " SELECT y FROM books", " I do not know.")
    assert [call.slot for call in result.calls] == ["query", "query", "answer"]
    assert result.text.endswith(
        "SQL: SELECT x FROM books;\nError: no such column: x\nSQL: SELECT y FROM books;\nError: no such column: y\n"
        "Answer: I do not know."
    )


def test_the_examples_of_queries_are_what_the_database_says() -> None:
    program = module("text_to_sql")
    queries = example_lines(program, "SQL")
    outcomes = re.findall(r"^((?:Result|Error): .*)", program.EXAMPLES, re.MULTILINE)
    assert len(queries) == len(outcomes) >= 6
    assert [program.run_query(query) for query in queries] == outcomes


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM books", "DROP TABLE loans", "INSERT INTO loans VALUES (1, 1, 1)", "PRAGMA writable_schema = 1",
        "ATTACH DATABASE 'other.sqlite' AS other", "SELECT 1; DROP TABLE loans", "CREATE TEMP TABLE t (x)",
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n",
        "SELECT count(*) FROM books, books b, books c, books d, books e, books f, books g, books h", "", "\0",
    ],
)  # fmt: skip
def test_a_query_may_only_read_and_not_for_long(sql: str) -> None:
    program = module("text_to_sql")
    outcome = program.run_query(sql)
    assert outcome.startswith("Error: ") if sql else outcome == "Result: nothing"
    assert program.run_query("SELECT count(*) FROM loans") == "Result: 7"
    assert [path.name for path in program.database().parent.iterdir()] == ["library.sqlite"]


# llm_judge, code_edit


def test_six_verdicts_are_joined(server: FakeServer) -> None:
    def generate(body):
        asked = body["text"].rpartition("\n")[2]
        return answer(" Fine." if asked == "In short:" else f" ({asked})")

    server.generate = generate
    (result,) = run_inputs(load_program(str(PROGRAMS / "llm_judge.py")), Endpoint(server.url), limit=1)
    assert Counter(call.slot for call in result.calls) == {"verdict": 6, "overall": 1}
    questions = [f"Does it say {question}?" for question in module("llm_judge").QUESTIONS]
    assert "".join(f"{question} ({question})\n" for question in questions) + "In short: Fine." in result.text
    assert result.returned == "Fine."


def test_the_examples_of_verdicts_have_the_declared_shape() -> None:
    judge = module("llm_judge")
    examples = judge.EXAMPLES.strip().split("\n\n")
    assert len(examples) == 2
    for example in examples:
        notice, *lines, overall = example.split("\n")
        verdicts = [
            re.fullmatch(r'Does it say (.*)\? (?:Yes, it says "(.*)"|No, it does not)\.', line) for line in lines
        ]
        assert [verdict and verdict[1] for verdict in verdicts] == judge.QUESTIONS
        assert all((verdict[2] or "") in notice for verdict in verdicts if verdict)
        assert overall.startswith("In short: ")


def test_an_edit_shows_the_code_and_asks_for_all_of_it(server: FakeServer) -> None:
    result = run_one(server, "code_edit", "def welcome(): ...\n")
    assert f"```python\n{module('code_edit').GREET}```" in server.requests[0]["text"]
    assert server.requests[0]["text"].endswith("<|im_start|>assistant\n```python\n")
    assert "```python\ndef welcome(): ...\n```" in result.text


# self_repair

WRONG = "def is_even(number):\n    return number % 2 == 1"
RIGHT = "def is_even(number):\n    return number % 2 == 0"


def test_a_failure_goes_back_and_is_repaired(server: FakeServer) -> None:
    result = run_one(server, "self_repair", WRONG, RIGHT)
    assert result.text.endswith(
        f"Code:\n{WRONG}\nResult: is_even(4) gave False, not True\nCode:\n{RIGHT}\nResult: passed\n"
    )
    assert (result.returned, len(result.calls)) == (RIGHT, 2)


def test_repair_ends_after_three_rounds(server: FakeServer) -> None:
    result = run_one(server, "self_repair", WRONG)
    assert (result.returned, len(result.calls)) == (None, 3)


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("def f(x): return 2 * x", "passed"),
        ("def f(x):\n    print('noise')\n    return 4", "passed"),
        ("import math\ndef f(x): return int(math.pow(x, 2))", "passed"),
        ("def f(x): return [", "SyntaxError: '[' was never closed (<string>, line 1)"),
        ("def f(x): return f", "f(2) gave <function f>, not 4"),
        ("def f(x): return 'a\\nb'", r"f(2) gave 'a\nb', not 4"),
        ("raise ValueError('one\\ntwo')", "ValueError: one"),
        ("raise SystemExit(0)", "SystemExit: 0"),
        ("import os\nos._exit(0)", "the code did not come to an end"),
        ("while True: pass", "the code did not come to an end"),
        ("text = 'x' * (1 << 40)", "MemoryError:"),
        ("import os\nos.remove(TARGET)", "PermissionError: os.remove is not allowed here"),
        ("import os\nos.fork()", "PermissionError: os.fork is not allowed here"),
        ("open('/etc/passwd')", "PermissionError: open is not allowed here"),
        ("import socket", "PermissionError: open is not allowed here"),
        ("import subprocess", "PermissionError: open is not allowed here"),
        ("import sys\nsys.modules['json'].loads = None\nsys.path.clear()\ndef f(x): return 4", "passed"),
    ],
)  # fmt: skip
def test_generated_code_runs_apart_and_within_limits(tmp_path: Path, code: str, outcome: str) -> None:
    target = tmp_path / "target"
    target.touch()
    run_tests = module("self_repair").run_tests
    assert run_tests(code.replace("TARGET", repr(str(target))), [("f(2)", 4)]) == outcome
    assert target.exists()
    assert json.loads("1") == 1


def test_a_set_is_printed_in_the_same_order_in_every_run() -> None:
    run_tests = module("self_repair").run_tests
    outcomes = {run_tests("def f(x): return {'a', 'b', 'c', 'd', 'e'}", [("f(2)", 4)]) for _ in range(4)}
    assert len(outcomes) == 1


def test_the_examples_of_repairs_are_what_the_tests_say() -> None:
    program = module("self_repair")
    codes = re.findall(r"^Code:\n((?:.+\n)+?)Result: (.*)", program.EXAMPLES, re.MULTILINE)
    assert len(codes) == 5
    for code, result in codes:
        told = re.fullmatch(r"(.*) gave .*, not (.*)", result)
        assert program.run_tests(code, [(told[1], json.loads(told[2]))] if told else []) == result
