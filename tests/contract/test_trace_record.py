"""Recording real runs: the same graph as reading where both can, loops and branches where only a run can show them."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sglang as sgl
from fake_sglang_server import Fail, FakeServer, answer, serving

import sgl_spec
from sgl_spec.errors import ServerError, TraceError
from sgl_spec.frontend.endpoint import Endpoint
from sgl_spec.frontend.program_file import load_program
from sgl_spec.frontend.program_main import run_inputs
from sgl_spec.frontend.read_function import read_function
from sgl_spec.frontend.record_runs import record, recording
from sgl_spec.frontend.role_texts import role_texts
from sgl_spec.program.nodes import COMPUTED, Call, Gen, Inserted, Text
from sgl_spec.program.templates import find_examples

PROGRAMS = Path(__file__).parents[2] / "programs"
QUESTION = Inserted("argument", "question")


def some_text(body: dict[str, Any]) -> dict[str, Any]:
    """A different answer to each prompt, always the same to the same."""
    digest = hashlib.sha256(body["text"].encode()).hexdigest()
    return answer(f" {digest[:8]} said")


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with serving(FakeServer(generate=some_text)) as one:
        yield one


def helper(s: Any, text: str) -> None:
    s += sgl.user(f"Please: {text}") + sgl.assistant("Yes." + sgl.gen("reply", max_tokens=4, stop="."))


@sgl.function
def talk(s, name, place):
    s += sgl.system("You talk.")
    helper(s, name + " in " + place)
    with s.user():
        s += f"Again, {name}: " + s["reply"]
    s += sgl.assistant(sgl_spec.expect(sgl.gen("last", temperature=0), "So ", ..., ["!", "?"]))
    return len(s["last"]) > 3


@sgl.function
def loop(s, name, place):
    for example in ("one", "two"):
        s += f"Example {example}\n"
    for number in range(3):
        s += f"{number} {name}:" + sgl.gen("step", regex="[a-z]+")
    s += s["step"] + place


@sgl.function
def branches(s, name, place):
    s += "Plan " + name + sgl.gen("plan")
    group = s.fork(2)
    group += lambda i: f"part {i} in {place}:"
    group += sgl.gen("part", max_tokens=3)
    s += "waiting"
    group.join()
    for text in s["part"]:
        s += "got " + text
    s += sgl.select("verdict", ["yyy", "nnn"]) + group[0]["plan"]
    with s.copy() as other:
        other += "aside" + sgl.gen()


@sgl.function
def appending(s, name, place):
    s += "base " + name
    group = s.fork(2)
    group += sgl.gen("side")
    group.join("concate_and_append")
    s += place + sgl.gen("end", json_schema="{}")


@sgl.function
def scopes(s, name, place):
    with s.var_scope("block"):
        s += "in " + place + sgl.gen("inner") + "."
    s["kept"] = "kept"
    s += "<" + s["block"] + ">" + s["kept"] + name + sgl.gen()


@sgl.function
def outer(s, name, place):
    inner = talk.run(name=name, place="the " + place, backend=s.stream_executor.backend)
    s += inner["reply"] + " and " + sgl.gen("after")


STRAIGHT = [talk, loop, branches, appending, scopes, outer]
INPUTS = [{"name": "Ann", "place": "Rome"}, {"name": "Bob", "place": "Rio"}, {"name": "Cid", "place": "Bonn"}]


@pytest.mark.parametrize("program", STRAIGHT, ids=lambda program: program.func.__name__)
def test_a_straight_program_gives_the_same_graph_either_way(endpoint: Endpoint, program: Any) -> None:
    recorded, read = record(program, INPUTS, endpoint), read_function(program)
    assert list(recorded.nodes.values()) == list(read.nodes.values())
    assert recorded == read
    assert (recorded.runs, read.runs) == (3, 0)
    assert {edge.times for edge in recorded.edges} == {3}


@pytest.mark.parametrize(
    "name", ["character_sheet", "code_edit", "extract_batch", "json_record", "llm_judge", "quote_document"]
)
def test_so_do_the_programs_of_this_repository(endpoint: Endpoint, name: str) -> None:
    loaded = load_program(str(PROGRAMS / f"{name}.py"))
    assert record(loaded.function, loaded.inputs, endpoint) == read_function(loaded.function)


def test_slots_of_the_graph_are_those_of_the_hints(server: FakeServer, endpoint: Endpoint) -> None:
    for program in STRAIGHT:
        endpoint.reset_calls()
        graph = record(program, INPUTS[:1], endpoint)
        own = [call.slot for call in endpoint.calls if call.program == graph.program]
        assert sorted(own) == sorted(hole.slot for _, hole in graph.holes)


def test_recording_changes_nothing_that_is_sent(server: FakeServer, endpoint: Endpoint) -> None:
    def sent(run: Any) -> list[str]:
        server.requests.clear()
        run()
        return sorted(json.dumps(body, sort_keys=True) for body in server.requests)

    for program in STRAIGHT:
        plain = sent(lambda program=program: program.run(backend=endpoint, **INPUTS[0]))
        assert plain == sent(lambda program=program: record(program, INPUTS[:1], endpoint))
    assert endpoint.recorder is None


def scripted(*outputs: str) -> Any:
    texts = itertools.cycle(outputs)
    return lambda body: answer(next(texts))


def test_the_agents_loop_is_folded(server: FakeServer, endpoint: Endpoint) -> None:
    server.generate = scripted(
        " Look.\nAction: Lookup[nile]", " Sum.\nAction: Calculate[2 * 7]", " Done.\nAction: Finish[14]",
        " Now.\nAction: Finish[1]",
    )  # fmt: skip
    loaded = load_program(str(PROGRAMS / "react_agent.py"))
    graph = record(loaded.function, loaded.inputs[:4], endpoint)
    first, thought, step, observation = graph.nodes.values()
    assert first.parts[1:] == (QUESTION, "\n")
    assert thought.parts == ("Thought:",)
    assert isinstance(step, Gen)
    assert observation.parts == ("\nObservation: ", COMPUTED, "\n")
    assert [(e.tail, e.head, e.back, e.times) for e in graph.edges] == [
        (0, 1, False, 4), (1, 2, False, 8), (2, 3, False, 4), (3, 1, True, 4),
    ]  # fmt: skip
    template = graph.template("step", role_texts(endpoint.get_chat_template()))
    assert (template.before, template.after, template.loops) == ("\nThought:", "\nObservation: ", True)
    prompt = server.requests[0]["text"]
    examples = find_examples(prompt, template.before, template.after, template.stops, limit=100)
    assert " I need to look up Spider.\nAction: Lookup[Spider]" in examples
    assert len(examples) == prompt.count("Thought:") - 1


def test_a_record_is_recognised_from_its_examples(server: FakeServer, endpoint: Endpoint) -> None:
    loaded = load_program(str(PROGRAMS / "json_record.py"))
    loaded.function.run(backend=endpoint, **loaded.inputs[0])
    template = read_function(loaded.function).template("record", role_texts(endpoint.get_chat_template()))
    examples = find_examples(server.requests[0]["text"], template.before, template.after, template.stops)
    assert [json.loads(example)["guest_name"] for example in examples] == ["Maria Lopez", "Omar Farouk"]


def test_a_quoted_section_is_among_its_examples(server: FakeServer, endpoint: Endpoint) -> None:
    loaded = load_program(str(PROGRAMS / "quote_document.py"))
    loaded.function.run(backend=endpoint, **loaded.inputs[1])
    template = read_function(loaded.function).template("quote", role_texts(endpoint.get_chat_template()))
    examples = find_examples(server.requests[0]["text"], template.before, template.after, template.stops)
    assert any(example.startswith("A reader may borrow up to eight books") for example in examples)


@sgl.function
def deciding(s, question):
    s += "Q: " + question + sgl.gen("kind")
    if "long" in question:
        s += "\nAt length:" + sgl.gen("long")
    else:
        s += "\nShortly:" + sgl.gen("short")
    s += "\nEnd"


def test_runs_that_decide_differently_become_branches(endpoint: Endpoint) -> None:
    inputs = [{"question": question} for question in ("long one", "brief", "a long two")]
    graph = record(deciding, inputs, endpoint)
    ends = {node.parts for node in graph.nodes.values() if isinstance(node, Text)}
    assert ends == {("Q: ", QUESTION), ("\nAt length:",), ("\nShortly:",), ("\nEnd",)}
    assert [edge.times for edge in graph.after(1)] == [2, 1]


def test_runs_made_by_others_can_be_watched(endpoint: Endpoint) -> None:
    loaded = load_program(str(PROGRAMS / "text_to_sql.py"))
    with recording(endpoint) as recorder:
        run_inputs(loaded, endpoint, limit=2)
        talk.run_batch(INPUTS, backend=endpoint, num_threads=3)
        outer.run(backend=endpoint, **INPUTS[0])
    assert recorder.graph(loaded.function).runs == 2
    # The run that `outer` made is a run of `talk` too.
    assert recorder.graph(talk, fold=False).runs == 4
    assert [type(node) for node in recorder.graph(outer).nodes.values()].count(Call) == 1
    with pytest.raises(TraceError, match="no run of it was recorded"):
        recorder.graph(deciding)
    talk.run(backend=endpoint, **INPUTS[0])
    assert recorder.graph(talk, fold=False).runs == 4


def test_positional_and_default_arguments_are_known_too(endpoint: Endpoint) -> None:
    @sgl.function
    def greet(s, name, greeting="Hello"):
        s += f"{greeting} {name}." + sgl.gen("out")

    with recording(endpoint) as recorder:
        greet.run("Ann", backend=endpoint)
        greet.run("Bob", greeting="Servus", backend=endpoint)
        greet.bind(greeting="Hi").run("Cid", backend=endpoint)
    assert recorder.graph(greet) == read_function(greet)


@sgl.function
def thinking(s, question):
    s += sgl.separate_reasoning(sgl.gen("out"), "deepseek-r1") + question


def test_what_a_graph_has_no_node_for_is_told_after_the_run(endpoint: Endpoint) -> None:
    with pytest.raises(TraceError, match=r"appends SglSeparateReasoning at test_trace_record.py:\d+"):
        record(thinking, [{"question": "why?"}], endpoint)
    assert endpoint.calls[0].text.endswith("said")


def test_a_failing_call_fails_the_recording(server: FakeServer, endpoint: Endpoint) -> None:
    def refuse(body: dict[str, Any]) -> Any:
        raise Fail(400, "no room")

    server.generate = refuse
    with pytest.raises(ServerError, match="no room"):
        record(talk, INPUTS, endpoint)
    assert endpoint.recorder is None
