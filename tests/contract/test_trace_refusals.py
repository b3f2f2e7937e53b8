"""Programs that cannot be read without running them: each is refused, with the line and what it does there."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sglang as sgl

from sgl_spec.errors import GraphError, TraceError
from sgl_spec.frontend.program_file import load_program
from sgl_spec.frontend.read_function import read_function
from sgl_spec.program.nodes import Gen, RoleBegin, RoleEnd, Text

LIMIT = 3


class Tool:
    def choose(self, word):
        return "a" if word else "b"


TOOL = Tool()


@contextmanager
def block(s: Any) -> Iterator[None]:
    s += "begin"
    yield


def ask(s: Any, question: str) -> None:
    s += question + sgl.gen("reply")


def each_refusal() -> list[Any]:
    """One program for each way to go beyond text. The comment on the guilty line is what the message says of it."""

    @sgl.function
    def branch(s, x):
        s += "a"
        if x:  # branches on the value of `x`
            s += "b"

    @sgl.function
    def generated(s):
        s += sgl.gen("step")
        while s["step"] != "done":  # compares the value of `step`
            s += sgl.gen("step")

    @sgl.function
    def identity(s, x=None):
        if x is None:  # compares the value of `x` (with `is`)
            s += "a"
        s += "b"

    @sgl.function
    def matching(s, x):
        match x:  # matches the value of `x` (with `match`)
            case str():
                s += "a"

    @sgl.function
    def type_question(s, x):
        s += "a" if isinstance(x, str) else "b"  # asks isinstance() about the value of `x`

    @sgl.function
    def formatted_then_compared(s, x):
        label = f"<{x}>"
        s += "a" if label == "<a>" else "b"  # compares text that holds the value of `x`

    @sgl.function
    def formatted_then_measured(s, x):
        s += "a" * len(f"{x}")  # takes the length of the value of `x`

    @sgl.function
    def spec(s, x):
        s += f"{x:>10}"  # formats the value of `x` (with `!r` or a format spec)

    @sgl.function
    def in_a_list(s, x):
        s += f"{[x]}"  # formats the value of `x` with repr()

    @sgl.function
    def to_json(s, x):
        s += json.dumps({"x": x})  # passes the value of `x` to json.dumps()

    @sgl.function
    def regular(s):
        s += sgl.gen("out")
        s += "a" if re.match("a", s["out"]) else "b"  # passes the value of `out` to re.match()

    @sgl.function
    def lookup(s, x):
        s += {"a": "b"}[x]  # uses the value of `x` as a key or set member

    @sgl.function
    def member(s, x):
        s += "a" if x in ("a", "b") else "b"  # compares the value of `x`

    @sgl.function
    def inside(s, x):
        s += "a" if "a" in x else "b"  # looks inside the value of `x`

    @sgl.function
    def index(s, x):
        s += x["title"]  # indexes the value of `x`

    @sgl.function
    def method(s):
        s += sgl.gen("out")
        s += s["out"].strip()  # uses `.strip` of the value of `out`

    @sgl.function
    def arithmetic(s, x):
        s += str(x + 1)  # computes with the value of `x`

    @sgl.function
    def fork_size(s, x):
        s.fork(x)  # turns the value of `x` into a number

    @sgl.function
    def choices(s, x):
        s += sgl.gen("a", choices=x)  # branches on the value of `x`

    @sgl.function
    def choice_name(s, x):
        s += sgl.gen(x)  # names a gen or select after the value of `x`

    @sgl.function
    def hidden(s, x):
        try:
            n = int(x)  # turns the value of `x` into a number
        except Exception:
            n = 0
        s += "a" * n

    @sgl.function
    def swallowed(s, x):
        s += "a"
        try:
            len(x)  # takes the length of the value of `x`
        except:  # noqa: E722
            s += "b"

    @sgl.function
    def through_a_helper(s, x):
        s += TOOL.choose(x)

    @sgl.function
    def through_map(s, x):
        s += "".join(map(lambda word: "a" if word else "b", [x]))  # noqa: C417 # branches on the value of `x`

    @sgl.function
    def meta(s):
        s += sgl.gen("out")
        s += str(s.get_meta_info("out"))  # reads what the server reported about `out`

    @sgl.function
    def unknown_variable(s):
        s += s["nothing"]  # reads `nothing`, which nothing has generated yet,

    @sgl.function
    def executor(s):
        s += s.stream_executor.text_  # reads `stream_executor.text_`, which only a run has,

    @sgl.function
    def reasoning(s):
        s += sgl.separate_reasoning(sgl.gen("out"), "x")  # appends SglSeparateReasoning

    @sgl.function
    def through_a_decorator(s):
        with block(s):  # passes its state to
            s += "a"

    @sgl.function
    def default(s, x):
        s += x or "default"  # branches on the value of `x`

    @sgl.function
    def percent(s, x):
        s += "%s" % x  # noqa: UP031 # formats the value of `x` (only an f-string, `+`, str() and join() are followed)

    @sgl.function
    def constructed(s, x):
        s += str(Path(x))  # passes the value of `x` to pathlib.Path()

    @sgl.function
    def fails(s):
        s += "a"
        raise KeyError("corpus")  # raised KeyError

    @sgl.function
    def returned_and_appended(s, x):
        s += "a"
        return x == "b" or ask(s, "why?")  # compares the value of `x`

    return list(locals().values())


@pytest.mark.parametrize("program", each_refusal(), ids=lambda program: program.func.__name__)
def test_a_program_that_goes_beyond_text_is_refused_with_its_line(program: Any) -> None:
    with pytest.raises(TraceError) as raised:
        read_function(program)
    lines, first = inspect.getsourcelines(program.func)
    marked = [(number, line) for number, line in enumerate(lines, first) if "  # " in line and "noqa: E722" not in line]
    if program.func.__name__ == "through_a_helper":
        number = Tool.choose.__code__.co_firstlineno + 1
        says = "branches on the value of `x`"
    else:
        ((number, line),) = marked
        says = line.rpartition("# ")[2].strip()
    assert raised.value.where == f"test_trace_refusals.py:{number}"
    assert str(raised.value).startswith(f"the program {says}")
    assert f"at test_trace_refusals.py:{number}" in str(raised.value)


@sgl.function
def returns(s, name):
    with s.assistant():
        s += "a" + sgl.gen("out")
        return json.loads(s["out"]).get(name) == {"a": 1}[name] and int(s["out"]) > LIMIT


def test_what_is_returned_may_be_computed_since_no_text_depends_on_it() -> None:
    assert [type(node) for node in read_function(returns).nodes.values()] == [RoleBegin, Text, Gen, RoleEnd]


@sgl.function
def returns_from_a_helper(s, name):
    def pick():
        return "a" if name == "b" else "c"

    s += pick()


def test_a_helpers_value_may_not() -> None:
    with pytest.raises(TraceError, match="compares the value of `name`"):
        read_function(returns_from_a_helper)


@sgl.function
def nested_roles(s):
    with s.user():
        s += sgl.assistant("a")


@sgl.function
def endless(s):
    while True:
        s += "again"


@sgl.function
def silent(s):
    return "nothing"


def test_what_is_no_program_is_refused() -> None:
    with pytest.raises(GraphError, match=r"begins the role assistant inside the role user"):
        read_function(nested_roles)
    with pytest.raises(TraceError, match=r"appends more than 20000 nodes, the last at test_trace_refusals.py:\d+"):
        read_function(endless)
    with pytest.raises(GraphError, match="silent: it appends nothing"):
        read_function(silent)


def test_a_function_whose_source_is_gone_or_changed_is_refused(tmp_path: Path) -> None:
    space: dict[str, Any] = {"sgl": sgl}
    exec("@sgl.function\ndef made(s):\n    s += 'a'\n", space)
    with pytest.raises(TraceError, match=r"the source of made at .* cannot be followed: its file cannot be read"):
        read_function(space["made"])
    file = tmp_path / "edited.py"
    file.write_text("import sglang as sgl\n@sgl.function\ndef PROGRAM(s):\n    s += 'a'\n")
    program = load_program(str(file)).function
    assert len(read_function(program).nodes) == 1
    file.write_text("import sglang as sgl\n@sgl.function\ndef PROGRAM(s):\n    s += 'other'\n")
    with pytest.raises(TraceError, match="its file says something else than what was loaded"):
        read_function(program)
