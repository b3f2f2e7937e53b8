"""Every Python block of docs/write-a-program.md is run, against a server that keeps what it was asked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fake_sglang_server import FakeServer, serving

from sgl_spec.drafting.hint import Hint, decode_hint

PAGE = Path(__file__).parents[2] / "docs" / "write-a-program.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
URL = "http://127.0.0.1:30000"


@dataclass
class ChatServer(FakeServer):
    """Answers chat completions as well, and keeps the last one."""

    chat: Any = None

    def respond(self, path: str, body: dict[str, Any]) -> Any:
        if path != "/v1/chat/completions":
            return super().respond(path, body)
        self.chat = body
        counts = {"accepted_prediction_tokens": 9, "rejected_prediction_tokens": 2}
        return {"usage": {"completion_tokens_details": counts}}


@pytest.fixture
def server() -> Iterator[ChatServer]:
    one = ChatServer(special_tokens=("<|im_start|>",))
    with serving(one):
        yield one


def run_block(server: ChatServer, mark: str) -> dict[str, Any]:
    """Runs the one block that has `mark` in it, and returns its names."""
    (block,) = [block for block in BLOCKS if mark in block]
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(block.replace(URL, server.url), "page.py", "exec"), names)
    return names


def hints(server: ChatServer) -> list[Hint]:
    read = [decode_hint(hint) for hint in server.hints()]
    assert [one.ignored for one in read] == [None] * len(read)
    return [one.hint for one in read if one.hint is not None]


def test_the_first_program_is_asked_with_a_schema_and_its_examples(server: ChatServer) -> None:
    names = run_block(server, "def weather")
    assert len(server.requests) >= 2
    asked = [body["sampling_params"] for body in server.requests if body["sampling_params"]["max_new_tokens"]]
    assert [one["json_schema"] for one in asked] == [names["SCHEMA"]] * 2
    examples = ('{"city": "Oslo", "sky": "clear"}', '{"city": "Porto", "sky": "rain"}')
    assert [(hint.slot, hint.examples) for hint in hints(server)] == [("record", examples)] * 2


def test_shape_and_prediction_reach_the_server(server: ChatServer) -> None:
    run_block(server, "def judge")
    judged, renamed = hints(server)
    assert judged.shape == ((" Yes", " No"), ", because ", None, ".")
    assert renamed.predict == "count = 0\nprint(count)\n"


def test_the_options_of_an_endpoint_are_as_named(server: ChatServer) -> None:
    names = run_block(server, 'memory="read")')
    import sglang as sgl

    @sgl.function
    def ask(s):
        s += "Hello" + sgl.gen("hello", max_tokens=4)

    for name in ("endpoint", "quiet", "narrow", "plain"):
        ask.run(backend=names[name])
    whole, quiet, narrow, plain = hints(server)
    assert (whole.memory, quiet.memory) == ("read-write", "read")
    assert (narrow.origins, narrow.width) == ({"lookup", "grammar"}, 8)
    assert plain.off
    assert [body["extra_key"] for body in server.requests] == ["tenant-a"] * 4


def test_calls_are_listed(server: ChatServer, capsys: pytest.CaptureFixture[str]) -> None:
    run_block(server, "def haiku")
    assert capsys.readouterr().out == "haiku 2 None\n"


def test_the_hint_over_http_is_one_the_server_takes(server: ChatServer) -> None:
    run_block(server, "hint = {")
    (hint,) = hints(server)
    assert (hint.program, hint.slot, hint.predict) == ("editor", "edited", "total = 0\nprint(total)\n")
    assert hint.shape == ("total", None, ("print", "return"))
    assert (hint.off, hint.origins, hint.width, hint.memory) == (False, {"predict", "lookup"}, 8, "read")


def test_the_prediction_of_a_chat_client(server: ChatServer, capsys: pytest.CaptureFixture[str]) -> None:
    names = run_block(server, "/v1/chat/completions")
    assert server.chat["prediction"] == {"type": "content", "content": names["code"]}
    assert capsys.readouterr().out.startswith("{'accepted_prediction_tokens': 9")


def test_no_block_is_left_out() -> None:
    marks = ("def weather", "def judge", 'memory="read")', "def haiku", "hint = {", "/v1/chat/completions")
    assert [sum(mark in block for mark in marks) for block in BLOCKS] == [1] * len(marks)
