"""Files and functions stay small enough to hold in one's head (the project's style)."""

from __future__ import annotations

import ast
import statistics
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
MOST_FILE_LINES = 340
MOST_FUNCTION_LINES = 60
USUAL_FUNCTION_LINES = 45
MEDIAN_FUNCTION_LINES = 12
SHARE_WITHIN_USUAL = 0.97


class Function(NamedTuple):
    where: str
    lines: int


def _files() -> list[Path]:
    return sorted([*(ROOT / "sgl_spec").rglob("*.py"), *(ROOT / "programs").rglob("*.py")])


def _functions() -> list[Function]:
    found = []
    for path in _files():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                found.append(Function(f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", lines))
    return found


def test_files_are_small() -> None:
    long = {str(p.relative_to(ROOT)): n for p in _files() if (n := p.read_text().count("\n")) > MOST_FILE_LINES}
    assert not long


def test_functions_are_small() -> None:
    # One numba kernel is a single function by nature: calls inside it would allocate per row.
    kernels = ("attention_kernel.py",)
    functions = _functions()
    assert not [f for f in functions if f.lines > MOST_FUNCTION_LINES and not any(k in f.where for k in kernels)]
    assert statistics.median(f.lines for f in functions) < MEDIAN_FUNCTION_LINES
    within = sum(f.lines <= USUAL_FUNCTION_LINES for f in functions) / len(functions)
    assert within >= SHARE_WITHIN_USUAL


def test_every_module_says_where_it_stands() -> None:
    silent = [str(p.relative_to(ROOT)) for p in _files() if not ast.get_docstring(ast.parse(p.read_text()))]
    assert not silent


def test_programs_are_short() -> None:
    long = {p.name: n for p in (ROOT / "programs").glob("*.py") if (n := p.read_text().count("\n")) >= 80}
    assert not long
