"""`sgl-spec check` runs programs through the frontend and keeps the requests they make; a server that fails is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_sglang_server import Fail, FakeServer, answer, serving

from sgl_spec.cli.check.recorded import record, record_one
from sgl_spec.cli.check.session import all_programs, chat_of
from sgl_spec.frontend.http_client import HttpClient
from sgl_spec.frontend.program_file import load_program

OPTIONS = {"extra_key": "key", "chat_template": "chatml"}
FORKS = """
import sglang as sgl

@sgl.function
def p(s, word):
    s += word + sgl.gen("first", max_tokens=5)
    for fork in s.fork(2):
        fork += " and " + sgl.gen("same", max_tokens=7, stop="!")
    s += " or " + sgl.gen("last", max_tokens=9, regex="[a-z]+")
    if word == "bad" and s["last"]:
        raise LookupError("no such word")

PROGRAM = p

def inputs():
    return [{"word": "a"}, {"word": "b"}]
"""


def program(folder: Path, text: str = FORKS):
    file = folder / "forks.py"
    file.write_text(text)
    return load_program(str(file))


def test_the_calls_of_a_program_are_kept_as_they_were_sent(tmp_path: Path) -> None:
    with serving(FakeServer()) as server:
        source = record_one(program(tmp_path), server.url, OPTIONS, inputs=1)
    assert source.failure is None
    assert sorted(call.name for call in source.calls) == ["first", "last", "same"]  # two forks asked for the same
    assert all(call.body in server.requests for call in source.calls)
    last = next(call for call in source.calls if call.name == "last")
    assert last.body["sampling_params"]["regex"] == "[a-z]+"
    assert last.body["sampling_params"]["custom_params"]["sgl_spec"]["slot"] == "last"
    assert last.body["extra_key"] == "key"


def test_inputs_are_as_many_as_asked_for(tmp_path: Path) -> None:
    with serving(FakeServer()) as server:
        source = record_one(program(tmp_path), server.url, OPTIONS, inputs=2)
    assert len(source.calls) == 6


@pytest.mark.filterwarnings("error")  # an error in a finalizer is a traceback on the user's screen
@pytest.mark.parametrize("failure", [Fail(500, "out of memory"), Fail(drop=True)])
def test_a_server_that_fails_makes_a_failed_source(tmp_path: Path, failure: Fail) -> None:
    def generate(body):
        raise failure

    with serving(FakeServer(generate=generate)) as server:
        source = record_one(program(tmp_path), server.url, OPTIONS, inputs=1)
    assert source.failure is not None
    assert (failure.message or "broke the connection") in source.failure


def test_a_program_that_fails_keeps_what_it_asked_before(tmp_path: Path) -> None:
    with serving(FakeServer()) as server:
        source = record_one(program(tmp_path, FORKS.replace('"word": "a"', '"word": "bad"')), server.url, OPTIONS, 1)
    assert source.failure == "LookupError: no such word"
    assert len(source.calls) == 3


def test_a_program_that_generates_nothing_is_told(tmp_path: Path) -> None:
    empty = "import sglang as sgl\n\n@sgl.function\ndef p(s):\n    s += 'x'\n\nPROGRAM = p\n"
    with serving(FakeServer()) as server:
        source = record_one(program(tmp_path, empty), server.url, OPTIONS, 1)
    assert source.calls == ()
    assert source.failure == "it asked the server to generate nothing"


def test_several_programs_at_once_keep_their_order_and_their_calls_apart(tmp_path: Path) -> None:
    loaded = [load_program(path) for path in all_programs() if "quote" in path or "json_record" in path]
    done: list[int] = []
    with serving(FakeServer(generate=lambda body: answer("ok"))) as server:
        sources = record(loaded, server.url, OPTIONS, inputs=1, at_once=2, done=lambda: done.append(1))
    assert [source.name for source in sources] == ["json_record", "quote_document"]
    assert [call.name for source in sources for call in source.calls] == ["record", "quote"]
    assert len(done) == 2


def test_a_message_becomes_a_prompt_in_the_models_chat_format() -> None:
    with serving(FakeServer(special_tokens=("<|im_start|>",))) as server:
        chat = chat_of(HttpClient(server.url))
    assert chat("Hi") == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
