"""What an endpoint tells the server about a call: examples from the prompt, declared shapes, predictions, options."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sglang as sgl
from fake_sglang_server import FakeServer, answer, serving

import sgl_spec
from sgl_spec import ConfigError
from sgl_spec.frontend.endpoint import Endpoint
from sgl_spec.frontend.read_function import read_function

SCHEMA = '{"type": "object"}'


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with serving(FakeServer(special_tokens=("<|im_start|>",))) as one:
        one.generate = lambda body: answer("Yes")
        yield one


@sgl.function
def few_shots(s, word):
    s += "Opposite of hot:\ncold\n\nOpposite of big:\nsmall\n\n"
    s += f"Opposite of {word}:\n" + sgl.gen("opposite", max_tokens=4, stop="\n")


@sgl.function
def chat(s, word):
    s += sgl.user("hot") + sgl.assistant("It is cold.") + sgl.user("big") + sgl.assistant("It is small.")
    s += sgl.user(word) + sgl.assistant(sgl.gen("opposite", max_tokens=4))


@sgl.function
def schema_only(s, word):
    s += f'Make calls.\nCall: {{"word": "hot"}}\nCall: {{"word": "big"}}\n{word}\nCall:' + sgl.gen(
        "call", json_schema=SCHEMA
    )


@sgl.function
def judged(s, text):
    s += text + "\n"
    s += sgl_spec.expect(sgl.gen("verdict", max_tokens=9), "Because ", ..., ".\n", ["Yes", "No"])
    s += sgl_spec.predict(sgl.gen("copy", max_tokens=9), text)


def _hints(server: FakeServer, program: Any, **options: Any) -> list[dict[str, Any]]:
    program.run("old", backend=Endpoint(server.url, **options))
    return list(server.hints())


def test_a_chat_shows_what_its_turns_look_like(server: FakeServer) -> None:
    (hint,) = _hints(server, chat, chat_template="chatml")
    assert hint["examples"] == ["It is cold.", "It is small."]


def test_a_line_with_only_a_schema_ends_at_its_end(server: FakeServer) -> None:
    (hint,) = _hints(server, schema_only)
    assert hint["examples"] == [' {"word": "hot"}', ' {"word": "big"}']


def test_a_graph_knows_where_the_examples_stand(server: FakeServer) -> None:
    endpoint = Endpoint(server.url)
    few_shots.run("old", backend=endpoint)
    endpoint.use(read_function(few_shots))
    few_shots.run("old", backend=endpoint)
    without, with_graph = server.hints()
    assert "examples" not in without  # "Opposite of old:" occurs once
    assert with_graph["examples"] == ["cold", "small"]


def test_shapes_and_predictions_are_sent(server: FakeServer) -> None:
    verdict, copied = _hints(server, judged)
    assert verdict["shape"] == ["Because ", None, ".\n", ["Yes", "No"]]
    assert "predict" not in verdict
    assert copied["predict"] == "old"
    assert "shape" not in copied


def test_options_are_sent(server: FakeServer) -> None:
    hints = _hints(server, judged, origins={"memory", "grammar"}, width=8, memory="read", extra_key="mine")
    assert all(hint["origins"] == ["grammar", "memory"] for hint in hints)
    assert all((hint["width"], hint["memory"]) == (8, "read") for hint in hints)
    assert [body["extra_key"] for body in server.requests] == ["mine"] * len(server.requests)


def test_off_says_nothing_more(server: FakeServer) -> None:
    hints = _hints(server, judged, speculate=False)
    assert [set(hint) for hint in hints] == [{"version", "program", "slot", "off"}] * 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 0}, "width 1 to 256"),
        ({"memory": "on"}, "memory one of read-write, read, write, off"),
        ({"origins": [""]}, "origins names"),
        ({"origins": "lookup"}, "origins is 'lookup'; give a set of names"),
    ],
)
def test_wrong_options_are_refused_at_once(server: FakeServer, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Endpoint(server.url, **options)


@pytest.mark.parametrize(
    ("expression", "text", "message"),
    [
        (lambda: sgl.select("x", choices=["a", "b"]), "a", "a select generates nothing"),
        (lambda: sgl.gen("x"), 5, "text is 5; it must be a str"),
        (lambda: sgl.gen("x"), "a" * 262_145, "262,145 characters"),
        (lambda: sgl.gen("x"), "a\ud800", "half a surrogate pair"),
    ],
)
def test_what_cannot_be_predicted_is_refused(expression: Any, text: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        sgl_spec.predict(expression(), text)
