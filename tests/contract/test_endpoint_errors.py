"""Whatever the server does wrong reaches the caller as our exception, in its words, at once: from `run` or a stream."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
import sglang as sgl
from fake_sglang_server import Fail, FakeServer, answer, serving

from sgl_spec.errors import ServerError, ServerUnavailable
from sgl_spec.frontend.endpoint import Endpoint
from sgl_spec.frontend.process_tree import free_port

WORDS = "The input is longer than the context length"


@pytest.fixture(autouse=True)
def no_hang() -> Iterator[None]:
    """A test here that would hang fails instead: nothing below should take seconds."""
    begin = time.monotonic()
    yield
    assert time.monotonic() - begin < 20


def failing_on(call: int, failure: Fail):
    counter = iter(range(1, 1000))

    def generate(body):
        if next(counter) == call:
            raise failure
        return answer("fine")

    return generate


@sgl.function
def unread(s):
    s += "x" + sgl.gen("a")


@sgl.function
def read_at_once(s):
    s += "x" + sgl.gen("a")
    s += s["a"] + sgl.gen("b")


@sgl.function
def submits_after_the_failure(s, died):
    s += "x" + sgl.gen("a")
    died.wait(10)
    time.sleep(0.05)
    s += sgl.gen("b")
    s["b"]


@sgl.function
def second_fails(s):
    s += "x" + sgl.gen("a") + sgl.gen("b")


@sgl.function
def selecting(s):
    s += "x" + sgl.select("c", ["y", "n"])


@sgl.function
def forked(s):
    s += "x"
    forks = s.fork(2)
    forks += sgl.gen("a")
    forks.join()


@sgl.function
def nested_roles(s):
    s += sgl.user(sgl.user("x"))


@sgl.function
def own_error(s):
    s += "x" + sgl.gen("a")
    raise ZeroDivisionError("mine")


@pytest.mark.parametrize("program", [unread, read_at_once, second_fails, forked], ids=lambda p: p.func.__name__)
@pytest.mark.parametrize("use_thread", [True, False])
def test_run_raises_the_servers_words(server, endpoint, program, use_thread):
    server.generate = failing_on(2 if program is second_fails else 1, Fail(400, WORDS))
    with pytest.raises(ServerError, match=WORDS) as caught:
        program.run(backend=endpoint, use_thread=use_thread)
    assert (caught.value.status, caught.value.server_message) == (400, WORDS)


def test_a_program_that_goes_on_after_the_failure_is_stopped_not_hung(server, endpoint):
    died = threading.Event()

    def generate(body):
        died.set()
        raise Fail(500, WORDS)

    server.generate = generate
    with pytest.raises(ServerError, match=WORDS):
        submits_after_the_failure.run(died=died, backend=endpoint)


def test_without_waiting_any_use_of_the_state_raises(server):
    server.generate = failing_on(2, Fail(400, WORDS))
    state = second_fails.run(backend=Endpoint(server.url, chat_template="chatml", wait=False))
    assert state["a"] == "fine"
    for use in (lambda: state["b"], state.text, lambda: state.get_meta_info("b"), state.messages):
        with pytest.raises(ServerError, match=WORDS):
            use()
    with pytest.raises(ServerError, match=WORDS):
        state += "more"
    assert isinstance(state.error(), ServerError)


def collect(texts, into):
    for text in texts:
        into.append(text)


def test_a_stream_raises_where_it_breaks_after_the_text_that_came(server, endpoint):
    server.generate = lambda body: answer("0123456789")
    server.stream_failure = Fail(message="out of memory")
    state = unread.run(backend=endpoint, stream=True)
    got = []
    with pytest.raises(ServerError, match="out of memory"):
        collect(state.text_iter(), got)
    assert "".join(got) == "x01234"


def test_a_variables_stream_raises_too(server, endpoint):
    server.stream_failure = Fail(message="out of memory")
    state = unread.run(backend=endpoint, stream=True)
    with pytest.raises(ServerError, match="out of memory"):
        list(state.text_iter("a"))
    with pytest.raises(ServerError, match="out of memory"):
        state["a"]


def test_a_refused_stream_raises(server, endpoint):
    server.generate = failing_on(1, Fail(400, WORDS))
    with pytest.raises(ServerError, match=WORDS):
        list(unread.run(backend=endpoint, stream=True).text_iter())


def test_a_stream_that_just_ends_is_not_taken_for_whole(server, endpoint):
    server.stream_failure = Fail(drop=True)
    with pytest.raises(ServerUnavailable, match="ended before"):
        list(unread.run(backend=endpoint, stream=True).text_iter())


def test_an_abort_with_status_200_is_an_error(server, endpoint):
    reason = {"type": "abort", "message": "aborted by the operator", "status_code": None}
    server.generate = lambda body: answer("half", finish_reason=reason)
    with pytest.raises(ServerError, match="aborted by the operator"):
        unread.run(backend=endpoint)
    assert endpoint.calls == ()


def test_a_dropped_connection_is_unavailable(server, endpoint):
    server.generate = failing_on(1, Fail(drop=True))
    with pytest.raises(ServerUnavailable, match="broke the connection"):
        unread.run(backend=endpoint)


def test_a_silent_server_is_given_up_after_the_timeout(server):
    release = threading.Event()
    server.generate = lambda body: answer("late") if release.wait(10) else answer("never")
    endpoint = Endpoint(server.url, chat_template="chatml", timeout=0.3)
    try:
        with pytest.raises(ServerUnavailable, match=r"within 0\.3 s \(timeout="):
            unread.run(backend=endpoint)
    finally:
        release.set()


def test_no_server_at_all():
    with pytest.raises(ServerUnavailable, match="refused the connection: is the server running"):
        Endpoint(f"http://127.0.0.1:{free_port()}")


def test_a_server_gone_since(server):
    with serving(FakeServer()) as short_lived:
        endpoint = Endpoint(short_lived.url, chat_template="chatml")
    with pytest.raises(ServerUnavailable, match="refused"):
        selecting.run(backend=endpoint)


def test_something_that_is_not_sglang(server):
    server.model_info = {"hello": 1}
    with pytest.raises(ServerError, match="is this an SGLang server"):
        Endpoint(server.url)
    server.model_info = Fail(401, raw="Unauthorized: bad key")
    with pytest.raises(ServerError, match="401: Unauthorized: bad key"):
        Endpoint(server.url)


def test_an_answer_of_another_shape(server, endpoint):
    server.generate = lambda body: {"choices": []}
    with pytest.raises(ServerError, match="no text and meta_info"):
        unread.run(backend=endpoint)


@pytest.mark.filterwarnings("ignore:Error in stream_executor")
def test_the_interpreters_own_errors_reach_run_too(endpoint):
    with pytest.raises(AssertionError, match="Nested roles"):
        nested_roles.run(backend=endpoint)


def test_a_programs_own_error_stays_its_own(endpoint):
    with pytest.raises(ZeroDivisionError, match="mine"):
        own_error.run(backend=endpoint)


def test_no_traceback_is_printed_beside_the_exception(server, endpoint, recwarn):
    server.generate = failing_on(1, Fail(400, WORDS))
    with pytest.raises(ServerError):
        unread.run(backend=endpoint)
    assert [str(warning.message) for warning in recwarn if "traceback" in str(warning.message).lower()] == []
