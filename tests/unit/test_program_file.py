"""`PROGRAM.py[:function]` loads, or says in a sentence what is wrong with it. A stand-in plays SGLang's function."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sgl_spec.errors import ConfigError
from sgl_spec.frontend.program_file import load_program

STAND_IN = """
class Function:
    def __init__(self, names, defaults=(), bound=None):
        self.func, self.arg_names, self.arg_defaults, self.bind_arguments = None, names, defaults, bound or {}
    def run(self): pass
    def run_batch(self): pass
"""
GOOD = STAND_IN + 'PROGRAM = Function(["a", "b"], (1,))\nother = Function([])\ndef inputs(): return [{"a": 1}]\n'


@pytest.fixture
def write(tmp_path: Path):
    def write(text: str, name: str = "prog.py") -> str:
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return write


def test_the_default_function_and_inputs(write) -> None:
    loaded = load_program(write(GOOD))
    assert (loaded.name, loaded.function.arg_names, loaded.inputs) == ("prog", ["a", "b"], [{"a": 1}])


def test_a_named_function(write) -> None:
    path = write(GOOD.replace('[{"a": 1}]', "[{}]"))
    assert load_program(path + ":other").name == "prog:other"


def test_no_inputs_needed(write) -> None:
    assert load_program(write(STAND_IN + 'PROGRAM = Function(["a"], (), {"a": 1})\n')).inputs == [{}]


def test_neighbours_can_be_imported_and_the_path_is_restored(write) -> None:
    write("VALUE = 5\n", "beside_prog.py")
    before = list(sys.path)
    assert load_program(write("from beside_prog import VALUE\n" + GOOD)).name == "prog"
    assert sys.path == before


@pytest.mark.parametrize(
    ("text", "suffix", "message"),
    [
        ("def f(:", "", r"importing '.*prog\.py' failed: SyntaxError"),
        ("import nothing_of_this_name", "", "ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("raise SystemExit(3)", "", "SystemExit: 3"),
        ("x = 1", "", r"has no 'PROGRAM' .*no @sgl\.function at all"),
        (GOOD, ":missing", "has no 'missing' .* it has PROGRAM, other"),
        (GOOD + "PROGRAM = 3", "", "something else under the name 'PROGRAM'.* it has other"),
        (STAND_IN + 'PROGRAM = Function(["a"])', "", "has no inputs.* needs a;"),
        (GOOD + "def inputs(): return []", "", "not a non-empty list of dicts"),
        (GOOD + "def inputs(): return [1]", "", "not a non-empty list of dicts"),
        (GOOD + "def inputs(): return [{'a': 1}, {'z': 1}]", "", r"inputs\(\)\[1\] .* unknown z; missing a"),
    ],
)
def test_what_is_wrong_is_said(write, text: str, suffix: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^program: .*{message}"):
        load_program(write(text) + suffix)


@pytest.mark.parametrize("path", ["nowhere.py", "README.md", "", "nowhere.py:f", "folder:f"])
def test_a_missing_file_is_said(path: str) -> None:
    with pytest.raises(ConfigError, match=r"is not a Python file; give a path such as programs/json_record\.py"):
        load_program(path)
