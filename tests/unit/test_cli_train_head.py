"""`sgl-spec train-head` before anything heavy runs: refusals, and the server it starts and asks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sgl_spec.cli import main
from sgl_spec.cli.completion_server import HttpCompleter, ServerPlan, _flags
from sgl_spec.errors import ServerError
from sgl_spec.heads.generate import Completed, Completion
from sgl_spec.testing.local_http import JsonHandler, listening


def _run(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What an unsuccessful command says."""
    assert main(["train-head", *words]) == 2
    return capsys.readouterr().err


def test_a_folder_without_a_model_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    said = _run(capsys, "--out", str(tmp_path / "out"), "--model-path", str(tmp_path))
    assert f"--model-path is {tmp_path}; it must be a folder with a model" in said


def test_out_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train-head"])
    assert "--out" in capsys.readouterr().err


def test_a_server_gets_room_for_all_requests_unless_the_user_says_how_much() -> None:
    plan = ServerPlan("model", ("--log-level", "info"), 48, 20000)
    assert _flags(plan, True) == (
        "--max-running-requests", "48", "--max-total-tokens", "20000", "--log-level", "info",
    )  # fmt: skip
    own = plan._replace(user_flags=("--max-total-tokens=512",))
    assert _flags(own, True) == ("--max-running-requests", "48", "--max-total-tokens=512")
    assert _flags(plan, False) == ("--max-running-requests", "48", "--log-level", "info")


@dataclass
class _Server:
    """What it is to answer, and what it was asked last."""

    url: str = ""
    answer: Any = None
    asked: Any = None


@pytest.fixture
def server() -> Iterator[_Server]:
    state = _Server()

    class Handler(JsonHandler):
        def do_POST(self) -> None:
            state.asked = self.body()
            self.say(200, state.answer)

    with listening(Handler) as state.url:
        yield state


REQUEST = Completion((4, 5), 30, 0.8, 77, top_p=0.9, stop=("\n",), stop_ids=(2,))


def _answer(kind: str) -> dict[str, Any]:
    return {"output_ids": [7, 8, 2], "meta_info": {"finish_reason": {"type": kind}}}


@pytest.mark.parametrize(("kind", "ended"), [("stop", True), ("length", False)])
def test_a_completion_is_one_post(server: _Server, kind: str, ended: bool) -> None:
    server.answer = _answer(kind)
    completer = HttpCompleter(server.url)
    assert completer.complete(REQUEST) == Completed((7, 8, 2), ended)
    assert server.asked["input_ids"] == [4, 5]
    params = server.asked["sampling_params"]
    assert params.pop("custom_params")["sgl_spec"]["off"] is True
    assert params == {
        "max_new_tokens": 30, "temperature": 0.8, "top_p": 0.9, "sampling_seed": 77, "stop": ["\n"],
        "stop_token_ids": [2],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "said"), [(_answer("abort"), "was aborted"), ({"text": "?"}, "no output_ids"), ([], "no output_ids")]
)
def test_answers_that_are_none_are_refused(server: _Server, answer: Any, said: str) -> None:
    server.answer = answer
    with pytest.raises(ServerError, match=said):
        HttpCompleter(server.url).complete(REQUEST)
