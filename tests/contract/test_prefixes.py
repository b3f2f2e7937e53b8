"""What calls share is computed once, before them, and only where that saves more than a request."""

from __future__ import annotations

import pytest
import sglang as sgl
from fake_sglang_server import Fail, FakeServer, answer

from sgl_spec import BatchError

SHOTS = "A question and its answer.\n" * 100
DOCUMENTS = [letter * 4000 for letter in "ab"]


@sgl.function
def few_shots(s, question):
    s += sgl.user(SHOTS + question)
    s += sgl.assistant(sgl.gen("a"))


@sgl.function
def about_a_document(s, document, question):
    s += document + question + sgl.gen("a")


@sgl.function
def goes_by_a_value(s, question):
    s += SHOTS
    if question == "two":
        s += "Take care. "
    s += question + sgl.gen("a")


@sgl.function
def short(s, question):
    s += "Short. " + question + sgl.gen("a")


@sgl.function
def fork_after_an_answer(s):
    s += SHOTS + sgl.gen("a")
    forks = s.fork(4)
    forks += sgl.gen("b")
    forks.join()


@sgl.function
def fork_of_news(s):
    s += sgl.gen("a")
    s += SHOTS
    forks = s.fork(4)
    forks += sgl.gen("b")
    forks.join()


@sgl.function
def choose(s, before):
    s += before + sgl.select("c", ["yes", "no", "well"])


def prefills(server: FakeServer) -> list[str]:
    return [
        body["text"]
        for body in server.requests
        if body["sampling_params"]["max_new_tokens"] == 0 and isinstance(body["text"], str)
    ]


def test_a_batch_computes_its_chats_beginning_once_before_any_run(server, endpoint):
    few_shots.run_batch([{"question": word} for word in ("one", "two", "three")], backend=endpoint)
    (prefix,) = prefills(server)
    assert server.requests[0]["text"] == prefix
    assert prefix.endswith("<|im_start|>user\n" + SHOTS)
    assert all(body["text"].startswith(prefix) for body in server.requests)


def test_arguments_that_runs_share_are_part_of_what_is_computed(server, endpoint):
    batch = [{"document": DOCUMENTS[run % 2], "question": f"q{run}"} for run in range(6)]
    states = about_a_document.run_batch(batch, backend=endpoint)
    assert sorted(prefills(server)) == [document + "q" for document in DOCUMENTS]
    for document in DOCUMENTS:
        of_it = [
            body["sampling_params"]["max_new_tokens"] for body in server.requests if body["text"][0] == document[0]
        ]
        assert of_it[0] == 0
    assert [state.text()[-4:] for state in states] == [f"q{run}ok" for run in range(6)]


def interleaved() -> list[dict[str, str]]:
    return [{"document": DOCUMENTS[run % 2], "question": f"q{run}"} for run in range(6)]


def test_runs_about_one_document_begin_side_by_side_and_come_back_in_the_order_given(server, endpoint):
    states = endpoint.run_batch(about_a_document, interleaved(), num_threads=1)
    assert [body["text"][0] for body in server.requests] == ["a"] * 4 + ["b"] * 4
    assert [state.text()[-4:] for state in states] == [f"q{run}ok" for run in range(6)]


def test_failures_of_an_ordered_batch_are_told_by_the_order_given(server, endpoint):
    def generate(body):
        if body["text"].endswith("q4"):
            raise Fail(503, "overloaded")
        return answer("ok")

    server.generate = generate
    with pytest.raises(BatchError, match="run 4: ") as caught:
        endpoint.run_batch(about_a_document, interleaved())
    assert [place for place, state in enumerate(caught.value.states) if state is None] == [4]


def test_a_program_that_goes_by_a_value_shares_what_comes_before_that(server, endpoint):
    goes_by_a_value.run_batch([{"question": word} for word in ("one", "two", "three")], backend=endpoint)
    assert prefills(server) == [SHOTS]


def test_a_short_prefix_is_not_worth_a_request(server, endpoint):
    short.run_batch([{"question": word} for word in ("one", "two")], backend=endpoint)
    assert prefills(server) == []


def test_a_fork_after_an_answer_computes_nothing_again(server, endpoint):
    fork_after_an_answer.run(backend=endpoint)
    assert (prefills(server), len(server.requests)) == ([], 5)


def test_a_fork_of_new_text_computes_it_once(server, endpoint):
    server.generate = lambda body: answer("ok")
    fork_of_news.run(backend=endpoint)
    assert prefills(server) == ["ok" + SHOTS]


def test_a_select_computes_a_long_new_prompt_first_and_a_short_one_with_its_choices(server, endpoint):
    choose.run(SHOTS, backend=endpoint)
    choose.run("short ", backend=endpoint)
    assert prefills(server) == [SHOTS]


def test_a_prefix_that_is_asked_for_is_computed_however_short(server, endpoint):
    endpoint.cache_prefix("hi")
    assert prefills(server) == ["hi"]
