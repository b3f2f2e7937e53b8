"""`Endpoint` against a scripted server: what it posts, what it records, and that it never adds to what is asked."""

from __future__ import annotations

import dataclasses
import json
import threading
import warnings
from pathlib import Path

import pytest
import sglang as sgl
from fake_sglang_server import FakeServer, answer
from sglang.lang.backend.runtime_endpoint import RuntimeEndpoint
from sglang.lang.chat_template import get_chat_template

from sgl_spec.drafting.hint import decode_hint
from sgl_spec.errors import ConfigError
from sgl_spec.frontend.endpoint import Endpoint


@sgl.function
def two_calls(s, word):
    s += sgl.user("Say " + word)
    s += sgl.assistant(sgl.gen("first", max_tokens=5, temperature=0, stop="."))
    s += sgl.gen(max_tokens=4, regex="[a-z]+")


@sgl.function
def outer(s):
    inner = two_calls.run(word="x", backend=s.stream_executor.backend)
    s += inner["first"] + sgl.gen("after")


@sgl.function
def forking(s):
    s += "start " + sgl.gen("main")
    forks = s.fork(2)
    forks += sgl.gen("side")
    forks += sgl.gen()
    forks.join()
    s += sgl.gen("end")


@sgl.function
def choosing(s):
    s += "pick" + sgl.select("choice", ["nnn", "yyy", "nny"])


@sgl.function
def passing_stops(s, stops):
    s += sgl.gen("a", stop=stops)
    s += sgl.gen("b", stop=stops, dtype=int)


@sgl.function
def dtype_and_stop_string(s):
    s += sgl.gen("number", dtype=int, stop=";")


def slots(server: FakeServer) -> list[tuple[str | None, str | None]]:
    hints = [decode_hint(hint).hint for hint in server.hints()]
    assert None not in hints
    return [(hint.program, hint.slot) for hint in hints if hint]


def test_each_gen_is_tagged_with_program_and_slot(server, endpoint):
    two_calls.run(word="hi", backend=endpoint)
    name = f"{__name__}.two_calls"
    assert slots(server) == [(name, "first"), (name, "#2")]


def test_a_program_run_inside_another_keeps_both_names(server, endpoint):
    outer.run(backend=endpoint)
    assert [program.rpartition(".")[2] for program, _ in slots(server)] == ["two_calls", "two_calls", "outer"]
    assert slots(server)[-1][1] == "after"


def test_forks_belong_to_their_program_and_count_for_themselves(server, endpoint):
    forking.run(backend=endpoint)
    assert {program for program, _ in slots(server)} == {f"{__name__}.forking"}
    names = [slot for _, slot in slots(server)]
    assert (names[0], names[-1], sorted(names[1:-1])) == ("main", "end", ["fork#2", "fork#2", "side", "side"])


def test_programs_running_at_once_in_threads_are_told_apart(server, endpoint):
    server.generate = lambda body: answer(body["text"][-1:])
    batch = threading.Thread(
        target=lambda: two_calls.run_batch([{"word": str(i)} for i in range(20)], backend=endpoint, num_threads=4)
    )
    batch.start()
    for _ in range(10):
        forking.run(backend=endpoint)
    batch.join()
    seen = {(program.rpartition(".")[2], slot) for program, slot in slots(server)}
    assert seen == {
        ("two_calls", "first"), ("two_calls", "#2"),
        ("forking", "main"), ("forking", "side"), ("forking", "fork#2"), ("forking", "end"),
    }  # fmt: skip


def test_streaming_is_tagged_and_recorded_alike(server, endpoint):
    server.generate = lambda body: answer("a long answer")
    state = two_calls.run(word="hi", backend=endpoint, stream=True)
    assert "".join(state.text_iter("first")) == "a long answer"
    assert "".join(state.text_iter()).endswith("a long answer")
    assert [slot for _, slot in slots(server)] == ["first", "#2"]
    assert [(call.slot, call.text) for call in endpoint.calls] == [("first", "a long answer"), ("#2", "a long answer")]


def test_speculate_false_sends_off(server):
    two_calls.run(word="hi", backend=Endpoint(server.url, chat_template="chatml", speculate=False))
    assert [hint["off"] for hint in server.hints()] == [True, True]


@pytest.mark.parametrize("name", ["x" * 500, "\ud800", "é" * 300])
def test_a_name_no_hint_can_carry_is_shortened_not_refused(server, endpoint, name):
    @sgl.function
    def program(s):
        s += sgl.gen(name) + sgl.gen(name + "!")

    program.run(backend=endpoint)
    (_, one), (_, other) = slots(server)
    assert one != other


def test_nothing_but_the_hint_differs_from_what_sglang_itself_posts(server):
    stock = RuntimeEndpoint(server.url, chat_template_name="chatml")
    two_calls.run(word="hi", backend=stock, top_p=0.5, stop=["#"]).sync()
    expected, server.requests = server.requests, []
    two_calls.run(word="hi", backend=Endpoint(server.url, chat_template="chatml"), top_p=0.5, stop=["#"])
    for body in server.requests:
        del body["sampling_params"]["custom_params"]
    assert server.requests == expected
    assert expected[0]["sampling_params"]["stop"] == [".", "<|im_end|>"]


def test_the_callers_stop_list_is_left_alone(server, endpoint):
    stops = ["END"]
    passing_stops.run(stops=stops, backend=endpoint)
    assert stops == ["END"]
    assert [body["sampling_params"]["stop"] for body in server.requests] == [
        ["END", "<|im_end|>"],
        ["END", "<|im_end|>", " ", "\n"],
    ]


def test_dtype_with_a_stop_string_works(server, endpoint):
    server.generate = lambda body: answer("12")
    assert dtype_and_stop_string.run(backend=endpoint)["number"] == "12"
    assert server.requests[0]["sampling_params"]["stop"] == [";", "<|im_end|>", " ", "\n"]


def test_select_takes_the_likeliest_choice_and_is_recorded(server, endpoint):
    state = choosing.run(backend=endpoint)
    assert (state["choice"], state.text()) == ("yyy", "pickyyy")
    (call,) = endpoint.calls
    assert (call.kind, call.program, call.slot, call.text) == ("select", f"{__name__}.choosing", "choice", "yyy")
    assert call.prompt_tokens == 3 * 7  # three choices in one request
    assert call.completion_tokens == 0


def test_a_record_holds_what_the_server_said(server):
    rounds = [{"rounds": 1, "tokens": 2}, {"rounds": 2, "tokens": 5}]
    server.generate = lambda body: answer("abc", sgl_spec=rounds, spec_verify_ct=2)
    endpoint = Endpoint(server.url, chat_template="chatml", keep_output_ids=True)
    two_calls.run(word="hi", backend=endpoint)
    call = endpoint.calls[0]
    assert (call.kind, call.slot, call.text, call.finish_reason) == ("gen", "first", "abc", "stop")
    assert (call.prompt_tokens, call.completion_tokens, call.cached_tokens) == (7, 3, 3)
    assert (call.spec, call.spec_verify_ct, call.output_ids) == (rounds[-1], 2, (97, 98, 99))
    assert call.latency > 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        call.text = "other"


def test_without_speculation_a_record_has_no_stats_and_ids_only_when_asked(endpoint):
    two_calls.run(word="hi", backend=endpoint)
    assert (endpoint.calls[0].spec, endpoint.calls[0].spec_verify_ct, endpoint.calls[0].output_ids) == (None,) * 3


def test_calls_reset_and_are_not_shared_with_a_sibling_endpoint(endpoint):
    two_calls.run(word="hi", backend=endpoint)
    sibling = endpoint(speculate=False)
    assert (len(endpoint.calls), sibling.calls, sibling.speculate) == (2, (), False)
    assert sibling.get_chat_template().name == "chatml"
    endpoint.reset_calls()
    assert endpoint.calls == ()


def test_the_api_key_is_sent(server):
    two_calls.run(word="hi", backend=Endpoint(server.url, chat_template="chatml", api_key="secret"))
    assert {headers.get("Authorization") for headers in server.headers} == {"Bearer secret"}


def test_a_model_in_a_local_folder_gets_its_own_template(server, tmp_path: Path):
    config = {"chat_template": "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>{% endfor %}"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    server.model_info = {"model_path": str(tmp_path), "tokenizer_path": str(tmp_path)}
    two_calls.run(word="hi", backend=Endpoint(server.url))
    assert server.requests[0]["text"] == "<|im_start|>user\nSay hi<|im_end|>\n<|im_start|>assistant\n"
    assert "<|im_end|>" in server.requests[0]["sampling_params"]["stop"]


def test_a_model_elsewhere_is_known_by_its_tokenizers_markers(server):
    server.model_info, server.special_tokens = {"model_path": "/models/m1"}, ("<|im_start|>", "<|im_end|>")
    assert Endpoint(server.url).chat_template.name == "chatml"


def test_an_unknown_template_warns_and_says_what_to_pass(server):
    with pytest.warns(UserWarning, match=r"'some/model'.*Endpoint\(url, chat_template="):
        endpoint = Endpoint(server.url)
    assert endpoint.chat_template.name == "default"


def test_a_template_can_be_passed_by_name_or_value_and_a_wrong_name_is_refused(server):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Endpoint(server.url, chat_template=get_chat_template("gemma-it")).chat_template.name == "gemma-it"
        assert Endpoint(server.url, chat_template="qwen").chat_template.name == "qwen"
    with pytest.raises(ConfigError, match=r"chat_template: 'chat-ml' is none of .*chatml"):
        Endpoint(server.url, chat_template="chat-ml")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [({"url": "localhost:30000"}, "url"), ({"url": "ftp://x"}, "url"), ({"url": "http://x", "timeout": 0}, "timeout")],
)
def test_bad_arguments_are_named(arguments, named):
    with pytest.raises(ConfigError, match=f"^{named}: "):
        Endpoint(arguments.pop("url"), **arguments)
