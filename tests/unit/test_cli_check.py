"""`sgl-spec check` from end to end, against a server that is right, or wrong in exactly one thing."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_check_server import OURS, Body, CheckServer, Refuses, is_off, serving

from sgl_spec import cli
from sgl_spec.cli.check import session
from sgl_spec.cli.check.rows import ROWS


@pytest.fixture(autouse=True)
def _no_sglang(monkeypatch):
    """Chat templates are SGLang's; a prompt is a prompt here."""
    monkeypatch.setattr(session, "chat_of", lambda client: lambda message: f"user: {message}\n")


def check(server: CheckServer, *argv: str) -> int:
    return cli.main(["check", server.url, "--programs", "", *argv])


def checked(server: CheckServer, tmp_path: Path, *argv: str) -> tuple[int, dict[str, Any]]:
    out = tmp_path / "check.json"
    code = check(server, "--out", str(out), *argv)
    return code, json.loads(out.read_text())


def test_a_server_that_keeps_its_word_passes(capsys, tmp_path):
    with serving(CheckServer()) as server:
        code, found = checked(server, tmp_path, "--requests", "60", "--batch", "1,3", "--seed", "5")
    shown = capsys.readouterr()
    assert code == 0
    assert "passed: all 60 comparisons agree" in shown.out
    assert "requests: 100%" in shown.err
    assert found["passed"] is True
    assert found["problems"] == []
    assert found["kind"] == "sgl_spec.check"
    assert {result["source"] for result in found["results"]} == {row.name for row in ROWS}
    assert all(result["identical"] for result in found["results"])
    assert found["agreement"]["ids"] == [60, 60]
    assert 0 < found["agreement"]["logprobs"][1] < 60
    assert 0 < found["agreement"]["stream"][1] < 60
    everything = found["summary"][-1]
    assert everything["requests"] == everything["identical"] == 60
    assert everything["tokens_per_step"] > 1.5
    assert everything["drafted"] > 0
    assert not everything["abstained"]
    assert found["server"]["api_key"] == "<redacted>"
    assert found["versions"]["sglang"]
    assert found["machine"]["device"] == "cpu"


def set_meta(name: str, value: Any) -> Callable[[Body], None]:
    return lambda answer: answer["meta_info"].__setitem__(name, value)


def change_last(answer: Body, name: str) -> None:
    values = answer["meta_info"].get(name)
    if values:
        values[-1] = [-99.0, 1, None]


def change_id(answer: Body) -> None:
    answer["output_ids"][-1] += 1


FAULTS: dict[str, tuple[str, Callable[[Body], Any]]] = {
    "an id": ("ids", change_id),
    "an id too few": ("ids", lambda answer: answer["output_ids"].pop()),
    "the text": ("text", lambda answer: answer.__setitem__("text", answer["text"][:-1] + "~")),
    "how it ended": ("finish reason", set_meta("finish_reason", {"type": "stop", "matched": 2})),
    "what it ended at": ("finish reason", set_meta("finish_reason", {"type": "length", "length": -1})),
    "completion tokens": ("usage", set_meta("completion_tokens", -1)),
    "prompt tokens": ("usage", set_meta("prompt_tokens", -1)),
    "a logprob": ("logprobs", lambda answer: change_last(answer, "output_token_logprobs")),
    "a top logprob": ("logprobs", lambda answer: change_last(answer, "output_top_logprobs")),
    "a named token's logprob": ("logprobs", lambda answer: change_last(answer, "output_token_ids_logprobs")),
}  # fmt: skip


@pytest.mark.parametrize("what", FAULTS)
def test_a_server_that_differs_in_one_thing_fails_by_its_name(what, capsys, tmp_path):
    aspect, change = FAULTS[what]

    def fault(body: Body, answer: Body) -> Body:
        if not is_off(body):
            change(answer)
        return answer

    only = ["--only", "logprob,n = 3"]
    with serving(CheckServer(fault=fault)) as server:
        code, found = checked(server, tmp_path, *only, "--requests", "8", "--batch", "2", "--temperatures", "0.5")
    assert code == 1
    wrong = [result for result in found["results"] if not result["identical"]]
    assert wrong
    assert {one["aspect"] for result in wrong for one in result["differences"]} == {aspect}
    out = capsys.readouterr().out
    assert f"FAILED: {len(wrong)} of 8 comparisons differ" in out
    number = wrong[0]["number"]
    assert f"#{number} row {wrong[0]['source']}" in out
    assert f"curl -s {server.url}/generate" in out
    assert ("first differing token" in out) is (aspect == "ids")


def test_only_one_of_many_requests_is_wrong_and_it_is_found(tmp_path):
    def fault(body: Body, answer: Body) -> Body:
        if not is_off(body) and body["sampling_params"]["max_new_tokens"] == 17:
            answer["output_ids"][12] += 1
        return answer

    with serving(CheckServer(fault=fault)) as server:
        code, found = checked(server, tmp_path, "--requests", "40", "--batch", "4")
    wrong = [result for result in found["results"] if not result["identical"]]
    assert code == 1
    assert {result["source"] for result in wrong} == {"max_new_tokens 17"}
    assert wrong[0]["differences"][0]["at"] == 12


@pytest.mark.parametrize(
    ("stream_fault", "aspects"),
    [
        (lambda texts: ["#", *texts], {"stream"}),
        (lambda texts: texts[:-1], {"ids", "text"}),
    ],
)
def test_a_stream_that_takes_back_or_stops_short_is_found(stream_fault, aspects, tmp_path):
    with serving(CheckServer(stream_fault=stream_fault)) as server:
        code, found = checked(server, tmp_path, "--only", "stream", "--requests", "4")
    assert code == 1
    assert {one["aspect"] for result in found["results"] for one in result["differences"]} == aspects


@pytest.mark.parametrize(
    ("info", "message"),
    [
        (None, "not a server of sgl_spec"),
        ({"version": "0.4"}, "tells of no speculative_algorithm"),
        ({**OURS, "speculative_algorithm": None}, "does not speculate"),
        ({**OURS, "speculative_algorithm": "NGRAM"}, "speculates with NGRAM, which is not ours"),
    ],
)
def test_a_server_that_is_not_ours_fails_before_anything_is_sent(info, message, capsys, tmp_path):
    with serving(CheckServer(info=info)) as server:
        code, found = checked(server, tmp_path)
    assert code == 1
    assert server.bodies == []
    assert message in capsys.readouterr().out
    assert message in found["problems"][0]
    assert found["results"] == []


def no_account(body: Body, answer: Body) -> Body:
    del answer["meta_info"]["sgl_spec"]
    return answer


def never_drafts(body: Body, answer: Body) -> Body:
    answer["meta_info"]["sgl_spec"][0]["drafted"] = {"all": 0}
    return answer


def never_off(body: Body, answer: Body) -> Body:
    answer["meta_info"]["sgl_spec"][0]["drafted"] = {"all": 1}
    return answer


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (no_account, "this server does not speculate with sgl_spec"),
        (never_drafts, "drafted nothing for any request"),
        (never_off, "4 requests with speculation off were drafted for"),
    ],
)
def test_agreement_that_shows_nothing_is_a_failure(fault, message, capsys):
    with serving(CheckServer(fault=fault)) as server:
        code = check(server, "--requests", "4", "--only", "plain")
    assert code == 1
    assert message in capsys.readouterr().out


def test_an_error_for_some_requests_is_told_in_the_servers_words(capsys, tmp_path):
    def fault(body: Body, answer: Body) -> Body:
        if "regex" in body["sampling_params"]:
            raise Refuses(400, "no grammar backend")
        return answer

    with serving(CheckServer(fault=fault)) as server:
        code, found = checked(server, tmp_path, "--requests", "40", "--batch", "4")
    failed = [result for result in found["results"] if result["on"]["failure"] or result["off"]["failure"]]
    out = capsys.readouterr().out
    assert code == 1
    assert 0 < len(failed) < 40
    assert {result["source"] for result in failed} == {"regex", "choices", "regex and a stop inside it"}
    assert out.count("no grammar backend") == 1
    assert f"{len(failed)} of 40 comparisons failed" in out


def test_a_server_that_dies_midway_ends_the_check_with_a_report(capsys, tmp_path):
    server = CheckServer()
    lock, left = threading.Lock(), [20]

    def fault(body: Body, answer: Body) -> Body:
        with lock:
            left[0] -= 1
            server.dead = server.dead or left[0] < 0
        if server.dead:
            raise Refuses(0)
        return answer

    server.fault = fault
    with serving(server):
        code, found = checked(server, tmp_path, "--requests", "30", "--batch", "4")
    out = capsys.readouterr()
    assert code == 1
    assert len(found["results"]) == 30
    assert "comparisons failed" in out.out
    assert "not sent: the server is gone" in out.out
    assert "Traceback" not in out.out + out.err


def test_an_error_while_the_prompts_are_tried_fails_the_rows(capsys):
    def fault(body: Body, answer: Body) -> Body:
        raise Refuses(503, "no room")

    with serving(CheckServer(fault=fault)) as server:
        assert check(server, "--only", "plain") == 1
    assert "row plain could not be run" in capsys.readouterr().out


def test_no_server_at_all_is_one_sentence(capsys):
    assert cli.main(["check", "http://127.0.0.1:9", "--programs", ""]) == 2
    assert "refused the connection" in capsys.readouterr().err


def test_the_key_goes_with_every_request():
    with serving(CheckServer()) as server:
        assert check(server, "--only", "plain", "--requests", "2", "--api-key", "k") == 0
    assert server.keys == {"Bearer k"}


def test_quick_bounds_number_and_length(tmp_path):
    with serving(CheckServer()) as server:
        code, found = checked(server, tmp_path, "--quick")
    assert code == 0
    assert len(found["results"]) == 16
    assert max(body["sampling_params"]["max_new_tokens"] for body in server.bodies) == 32


@pytest.mark.parametrize(
    "argv",
    [["--batch", "0"], ["--batch", "1,x"], ["--temperatures", "-1"], ["--temperatures", "nan"], ["--requests", "0"]],
)
def test_bad_values_are_refused_by_name(argv, capsys):
    with pytest.raises(SystemExit) as left:
        cli.main(["check", "http://127.0.0.1:9", *argv])
    assert left.value.code == 2
    assert argv[0] in capsys.readouterr().err


def test_words_that_name_nothing_are_refused(capsys):
    with serving(CheckServer()) as server:
        assert check(server, "--only", "nothing like it") == 2
    assert "--only is 'nothing like it'" in capsys.readouterr().err


@pytest.mark.parametrize("files", [["one/same.py", "two/same.py"], ["one/plain.py"]])
def test_names_that_are_not_unique_are_refused(files, tmp_path, capsys):
    names = "run = run_batch = func = arg_names = arg_defaults = bind_arguments = ()"
    program = f"class P:\n    {names}\nPROGRAM = P()\n"
    paths = [tmp_path / file for file in files]
    for path in paths:
        path.parent.mkdir()
        path.write_text(program)
    with serving(CheckServer()) as server:
        assert cli.main(["check", server.url, "--programs", ",".join(map(str, paths))]) == 2
    assert f"named '{paths[0].stem}'" in capsys.readouterr().err


def test_without_the_repository_the_way_out_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(session, "default_programs", lambda: (_ for _ in ()).throw(session.ConfigError("No programs.")))
    with pytest.raises(session.ConfigError, match="--programs ''"):
        session.all_programs()


def test_all_programs_of_the_repository_are_found():
    assert len(session.all_programs()) == 10
