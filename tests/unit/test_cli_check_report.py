"""What a check writes: no secrets, commands that can be typed again, JSON that any reader takes."""

from __future__ import annotations

import json
import math
import shlex
from typing import Any

import pytest

from sgl_spec.cli.check.answer import Answer, Reply, Sender
from sgl_spec.cli.check.compare import compare
from sgl_spec.cli.check.matrix import Cell, Plan
from sgl_spec.cli.check.report import curl, difference_texts, tables
from sgl_spec.cli.check.result_file import Checked, as_json, write
from sgl_spec.cli.check.runner import Outcome
from sgl_spec.cli.check.served import public
from sgl_spec.cli.check.source import PROGRAM, ROW, Source
from sgl_spec.cli.check.verdict import agreements, by_setting, by_source, problems
from sgl_spec.cli.machine import Machine
from sgl_spec.errors import ServerUnavailable

BODY = {"text": 'it\'s "so"\n', "sampling_params": {"temperature": 0, "custom_params": {"sgl_spec": {"off": True}}}}


def answer(ids: tuple[int, ...], drafted: int = 3, **meta: Any) -> Answer:
    counts = {"rounds": 2, "drafted": {"all": drafted}, "accepted": {"all": 2}, "abstained": {"no_match": 1}}
    return Answer(ids, "t", {"completion_tokens": len(ids), "sgl_spec": [counts], **meta})


def outcome(number: int, on: Reply | Answer, off: Reply | Answer, **cell: Any) -> Outcome:
    replies = [one if isinstance(one, Reply) else Reply((one,), 0.5) for one in (on, off)]
    where = {"source": "prog", "kind": PROGRAM, "temperature": 0.0, "batch": 8, "memory": "warm", **cell}
    made = Cell(number=number, call="slot", sampling_seed=7, on=BODY, off=BODY, **where)
    return Outcome(made, *replies, compare(*replies))


GOOD = outcome(0, answer((1, 2, 3)), answer((1, 2, 3), drafted=0))
BAD = outcome(1, answer((1, 2, 3)), answer((1, 9, 3), drafted=0), source="row", kind=ROW, temperature=0.7, batch=1)
DEAD = outcome(2, Reply((), 0.0, "out of memory"), answer((1,), drafted=0))


def test_programs_have_a_line_for_each_temperature_and_rows_one() -> None:
    hot = outcome(3, answer((1,)), answer((1,), 0), temperature=1.2)
    warm_row = outcome(4, answer((1,)), answer((1,), 0), source="row", kind=ROW)
    lines = by_source([GOOD, BAD, hot, warm_row])
    assert [(line.name, line.setting, line.requests, line.identical) for line in lines] == [
        ("prog", "0", 1, 1), ("prog", "1.2", 1, 1), ("row", "0, 0.7", 2, 1),
    ]  # fmt: skip
    assert (lines[0].tokens_per_step, lines[0].drafted, lines[0].accepted, lines[0].abstained) == (
        1.0,
        3,
        2,
        {"no_match": 1},
    )
    assert [line.name for line in by_setting([GOOD, BAD])] == ["batch 1, warm", "batch 8, warm", "all"]
    shown = tables([GOOD, BAD])
    assert "ids 1 of 2" in shown
    assert "text 2 of 2" in shown
    assert "logprobs 0 of 0" in shown


def test_a_failed_comparison_counts_for_no_aspect() -> None:
    assert {one.compared for one in agreements([DEAD])} == {0}
    assert problems([DEAD], ()) == ("1 of 1 comparisons failed",)


def test_every_reason_is_said() -> None:
    lost = Source("lost", PROGRAM, (), failure="boom")
    assert problems([GOOD, BAD, DEAD], [lost]) == (
        "program lost could not be run: boom",
        "1 of 3 comparisons differ",
        "1 of 3 comparisons failed",
    )
    assert problems([], [lost])[-1] == "nothing was compared"
    assert problems([GOOD], ()) == ()


def test_ids_that_nobody_sends_cannot_agree() -> None:
    bare = answer((1,))._replace(output_ids=None)
    quiet = answer((1,), drafted=0)._replace(output_ids=None)
    assert problems([outcome(0, bare, quiet)], ())[-1].startswith("the server sends no output_ids")


def test_a_difference_is_told_with_its_place_and_its_request() -> None:
    (text,) = difference_texts([GOOD, BAD], "http://h:1")
    assert "#1 row row (slot), temperature 0.7, seed 7, batch 1, warm memory" in text
    assert "first differing token: 1\n" in text
    assert "output_ids from 1 on: on (2, 3), off (9, 3)" in text
    words = shlex.split(next(line for line in text.splitlines() if "curl" in line).removeprefix("  on: "))
    assert words[:3] == ["curl", "-s", "http://h:1/generate"]
    assert json.loads(words[-1]) == BODY
    assert shlex.split(curl(BODY, "http://h:1"))[-1] == json.dumps(BODY)


def test_the_same_failure_is_told_once() -> None:
    again = outcome(5, answer((1,)), Reply((), 0.0, "out of memory"))
    texts = difference_texts([DEAD, again], "http://h:1")
    assert len(texts) == 1
    assert "failed (on): out of memory (and 1 more like it)" in texts[0]


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("api_key", "s3", "<redacted>"),
        ("admin_api_key", "s3", "<redacted>"),
        ("ssl_keyfile_password", "s3", "<redacted>"),
        ("api_key", None, None),
        ("launch_command", "--api-key s3 --port 1", "--api-key <redacted> --port 1"),
        ("launch_command", "--port 1 --admin-api-key=s3", "--port 1 --admin-api-key=<redacted>"),
        ("launch_command", "--max-total-tokens 8192", "--max-total-tokens 8192"),
        ("max_total_tokens", 8192, 8192),
        ("tokenizer_path", "m", "m"),
    ],
)
def test_secrets_stay_out_of_the_file(name: str, value: object, shown: object) -> None:
    assert public({name: value, "internal_states": [{}]}) == {name: shown}


def test_the_file_is_strict_json(tmp_path) -> None:
    infinite = answer((1,), output_top_logprobs=[[[-math.inf, 1, None]]], finish_reason={"type": "stop", "matched": 2})
    checked = Checked(
        "2025-01-01T00:00:00+00:00", 1.0, ("sgl-spec",), Machine("s", "p", 2, 3, "cpu"), {"python": "3"}, "http://h:1",
        {}, Plan(2, (0.0,), (1, 8), 0, "key"), (Source("prog", PROGRAM, ()),), (outcome(0, infinite, infinite), DEAD),
        ("x",),
    )  # fmt: skip
    write(tmp_path / "check.json", checked)
    text = (tmp_path / "check.json").read_text()
    found = json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert found["results"][0]["on"]["answers"][0]["output_top_logprobs"] == [[["-inf", 1, None]]]
    assert found["results"][0]["on"]["answers"][0]["finish_reason"] == {"type": "stop", "matched": 2}
    assert found["results"][1]["differences"][0]["on"] == "out of memory"
    assert found["passed"] is False
    assert as_json(checked)["matrix"]["batches"] == (1, 8)
    assert list(tmp_path.iterdir()) == [tmp_path / "check.json"]


class Gone:
    """A client whose server takes no request, or takes them and never answers."""

    def __init__(self, alive: bool) -> None:
        self.alive, self.posts = alive, 0

    def post(self, path: str, body: Any) -> Any:
        self.posts += 1
        raise ServerUnavailable("did not answer")

    def get(self, path: str) -> Any:
        if not self.alive:
            raise ServerUnavailable("refused")
        return {}


@pytest.mark.parametrize(("alive", "posts"), [(False, 1), (True, 3)])
def test_a_server_that_is_gone_is_not_asked_again(alive: bool, posts: int) -> None:
    client = Gone(alive)
    send = Sender(client)  # type: ignore[arg-type]
    replies = [send(BODY) for _ in range(6)]
    assert client.posts == posts
    assert [reply.failure for reply in replies[:posts]] == ["did not answer"] * posts
    assert all("not sent" in str(reply.failure) for reply in replies[posts:])
