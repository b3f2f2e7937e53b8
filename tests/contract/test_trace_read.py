"""Reading an `@sgl.function` without a server: what it becomes, and what it is refused for, on which line."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
import sglang as sgl

from sgl_spec.errors import TraceError
from sgl_spec.frontend.program_file import load_program
from sgl_spec.frontend.read_function import is_traceable, read_function
from sgl_spec.program.nodes import (
    COMPUTED,
    Call,
    CallArgument,
    Constraint,
    Fork,
    Gen,
    Image,
    Inserted,
    Join,
    RoleBegin,
    RoleEnd,
    Select,
    Setting,
    Text,
)

PROGRAMS = Path(__file__).parents[2] / "programs"
NAME = Inserted("argument", "name")
LIMIT = 3


def shout(word: str) -> str:
    return f"<{word}>"


def ask(s: Any, question: str) -> None:
    s += sgl.user(question) + sgl.assistant(sgl.gen("reply"))


def parts(program: Any) -> list[Any]:
    return [node.parts for node in read_function(program).nodes.values() if isinstance(node, Text)]


def kinds(program: Any) -> list[type]:
    return [type(node) for node in read_function(program).nodes.values()]


@sgl.function
def texts(s, name, number):
    s += "Hi " + name + "!"
    s += name + " again"
    s += f"{name} is {number!s}, {LIMIT:03d} and {'q'!r}"
    s += str(name)
    s += ", ".join([name, "b", f"{number}"])
    s += "-".join(f"[{x}]" for x in (name, number))
    s += shout(name)
    s += (lambda x: x + "?")(name)
    prompt = "start "
    prompt += name
    s += prompt
    s += sgl.user(name) + name + sgl.gen("out") + name


def test_values_become_text_wherever_text_is_made() -> None:
    number = Inserted("argument", "number")
    assert parts(texts) == [
        ("Hi ", NAME, "!"),
        (NAME, " again"),
        (NAME, " is ", number, ", 003 and 'q'"),
        (NAME,),
        (NAME, ", b, ", number),
        ("[", NAME, "]-[", number, "]"),
        ("<", NAME, ">"),
        (NAME, "?"),
        ("start ", NAME),
        (NAME,),
        (NAME,),
        (NAME,),
    ]


@sgl.function
def everything(s, name):
    with s.system():
        s += "Be kind."
    ask(s, name)
    for label in ("a", "b"):
        s += f"{label}: " + sgl.select(f"pick_{label}", ["yes", "no"])
    s += s["reply"] + s.get_var("pick_a")
    with s.var_scope("block"):
        s += "x" + sgl.gen(max_tokens=5, stop=";", temperature=0, regex="[a-z]+", dtype=None)
    s += s["block"]
    s += sgl.image(name)
    s += sgl.video("film.mp4", 3)
    s["mine"] = "kept " + name
    s += s["mine"]
    s += sgl.assistant_begin() + sgl.gen_int("n") + sgl.assistant_end()


def test_every_kind_of_step_has_its_node() -> None:
    nodes = list(read_function(everything).nodes.values())
    source = inspect.getsource(everything.func).splitlines()
    first = everything.func.__code__.co_firstlineno
    shown = [source[node.source.line - first].strip() if node.source.line >= first else "ask" for node in nodes]
    assert shown[:3] == ["with s.system():", 's += "Be kind."', "with s.system():"]
    assert shown[3:9] == ["ask"] * 6
    assert [type(node) for node in nodes] == [
        RoleBegin, Text, RoleEnd, RoleBegin, Text, RoleEnd, RoleBegin, Gen, RoleEnd, Text, Select, Text, Select,
        Text, Text, Gen, Text, Image, Image, Text, RoleBegin, Gen, RoleEnd,
    ]  # fmt: skip
    assert nodes[13].parts == (Inserted("variable", "reply"), Inserted("variable", "pick_a"))
    assert nodes[15] == Gen(
        "#4",
        nodes[15].source,
        Constraint("regex", "[a-z]+"),
        (";",),
        max_tokens=5,
        settings=(Setting("temperature", 0),),
    )
    assert [nodes[16].parts, nodes[17].parts, nodes[18].medium] == [(Inserted("variable", "block"),), (NAME,), "video"]
    assert nodes[19].parts == ("kept ", NAME)
    assert nodes[21].constraint == Constraint("dtype", "int")
    assert (nodes[10].choices, nodes[10].method) == (("yes", "no"), "TokenLengthNormalized")


@sgl.function
def forks(s, name):
    s += "base" + sgl.gen("plan")
    group = s.fork(2)
    group += lambda i: f"branch {i} of " + name
    group += sgl.gen("side")
    group[1] += group[1]["side"] + group[1]["plan"]
    s += "meanwhile"
    group.join()
    s += s["side"][0] + group[1]["side"]
    with s.copy() as other:
        other += "a copy"
    open_forks = s.fork(1)
    open_forks += sgl.gen()
    s += open_forks[0].text()


def test_forks_are_branches_and_their_variables_keep_apart() -> None:
    graph = read_function(forks)
    assert [type(node) for node in graph.nodes.values()] == [
        Text, Gen, Fork, Text, Gen, Text, Gen, Text, Text, Join, Text, Fork, Text, Join, Fork, Gen, Text,
    ]  # fmt: skip
    nodes = graph.nodes
    assert nodes[5].parts == ("branch 1 of ", NAME)
    assert nodes[7].parts == (Inserted("variable", "side[1]"), Inserted("variable", "plan"))
    assert nodes[10].parts == (Inserted("variable", "side[0]"), Inserted("variable", "side[1]"))
    assert (nodes[15].slot, nodes[16].parts) == ("fork#1", (COMPUTED,))
    assert [(edge.head, edge.branch) for edge in graph.after(2)] == [(3, 0), (5, 1), (8, None)]


@sgl.function
def parallel(s):
    s += "a"
    group = s.fork(2)
    group += sgl.gen("side")
    group.join("concate_and_append")
    s += sgl.gen("end")


def test_a_join_may_append_its_branches() -> None:
    assert Join("concate_and_append", read_function(parallel).nodes[4].source) == read_function(parallel).nodes[4]


@sgl.function
def calling(s, name):
    state = forks.run(name="about " + name, temperature=0, backend=s.stream_executor.backend)
    s += state["plan"] + state.get_var("side")
    s += state.text()
    s += f"{parallel().ret_value}"
    for one in texts.run_batch([{"name": "a", "number": 1}, {"name": name, "number": [2]}]):
        s += one["out"]


def test_another_program_is_a_call_with_its_arguments() -> None:
    graph = read_function(calling)
    calls = [node for node in graph.nodes.values() if isinstance(node, Call)]
    home = f"{__name__}."
    assert [call.program for call in calls] == [f"{home}forks", f"{home}parallel", f"{home}texts", f"{home}texts"]
    assert calls[0].arguments == (CallArgument("name", ("about ", NAME)),)
    assert calls[3].arguments == (CallArgument("name", (NAME,)), CallArgument("number", ("[2]",)))
    out = Inserted("call", f"{home}texts.out")
    plan, side = Inserted("call", f"{home}forks.plan"), Inserted("call", f"{home}forks.side")
    assert parts(calling) == [(plan, side), (COMPUTED,), (COMPUTED,), (out,), (out,)]


@sgl.function
def settings_from_values(s, stops, choices, schema):
    s += sgl.gen("a", stop=stops, json_schema=schema, max_tokens=7) + sgl.select("b", choices)


def test_settings_that_only_a_run_has_are_named() -> None:
    first, second = read_function(settings_from_values).nodes.values()
    assert (first.varying, first.stop, first.constraint.kind, first.max_tokens) == (
        ("constraint", "stop"),
        (),
        "free",
        7,
    )
    assert (second.varying, second.choices) == (("choices",), ())


@sgl.function
def loops(s, name):
    for i in range(LIMIT):
        s += f"{i}"
    while i > 1:
        i -= 1
        s += name
    return s


def test_loops_over_plain_values_unroll() -> None:
    assert parts(loops) == [("0",), ("1",), ("2",), (NAME,)]
    assert parts(loops.bind(name="Ann")) == [("0",), ("1",), ("2",), ("Ann",)]


@sgl.function
def counted(s, n, word):
    for _ in range(n):
        s += word


def test_known_arguments_are_plain_values() -> None:
    with pytest.raises(TraceError, match="turns the value of `n` into a number"):
        read_function(counted)
    assert len(read_function(counted, n=3).nodes) == 3
    assert (is_traceable(counted), is_traceable(loops)) == (False, True)


class Tool:
    limit = 5

    def describe(self, word):
        return f"tool for {word}"


TOOL = Tool()


@sgl.function
def with_methods(s, name):
    def inner(word):
        return TOOL.describe(word) + suffix

    suffix = "."
    s += inner(name)
    names = []
    names.append(name)
    s += names[0] + str(TOOL.limit) if names is not None else "none"


def test_methods_and_closures_are_followed() -> None:
    assert parts(with_methods) == [("tool for ", NAME, "."), (NAME, "5")]


TRACEABLE = ["character_sheet", "code_edit", "extract_batch", "json_record", "llm_judge", "quote_document"]


@pytest.mark.parametrize("name", TRACEABLE)
def test_these_programs_are_read(name: str) -> None:
    graph = read_function(load_program(str(PROGRAMS / f"{name}.py")).function)
    assert graph.holes
    assert graph.runs == 0


def test_reading_leaves_the_program_as_it_was() -> None:
    code = texts.func.__code__
    read_function(texts)
    assert texts.func.__code__ is code
    assert read_function(texts) == read_function(texts)
