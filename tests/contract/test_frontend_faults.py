"""What SGLang's frontend gets wrong comes out right through `Endpoint`, or is refused in a sentence."""

from __future__ import annotations

import gc
import sys
import threading
import time
import warnings
from typing import Any

import pytest
import sglang as sgl
from fake_sglang_server import Fail, answer

from sgl_spec import BatchError, ConfigError, ServerError
from sgl_spec.frontend.endpoint import Endpoint

WORDS = "The input is longer than the context length"


@sgl.function
def several(s, count):
    s += "x" + sgl.gen("a", n=count) + "!" + sgl.gen("b")


@sgl.function
def typed(s, dtype, ends):
    s += "x" + sgl.gen("a", dtype=dtype, stop=ends)


@sgl.function
def one_word(s, word):
    s += word + sgl.gen("a")


@sgl.function
def own_error(s, word):
    s += word + sgl.gen("a")
    if word == "bad":
        raise ZeroDivisionError("mine")


@sgl.function
def nobody_reads_its_fork(s):
    s += "x"
    for fork in s.fork(2):
        fork += "y" + sgl.gen("a")


@sgl.function
def caught_by_the_program(s):
    s += "x"
    fork = s.fork(1)[0]
    fork += "y" + sgl.gen("a")
    try:
        fork["a"]
    except ServerError:
        s += "went wrong"


@sgl.function
def scoped(s):
    with s.var_scope("all"):
        s += "x" + sgl.gen("a")


@sgl.function
def streaming_fork(s, done):
    s += "x" + sgl.gen("a")
    fork = s.fork(1)[0]
    s["a"]
    done += fork.text_iter("a")


@sgl.function
def reasoning(s):
    s += "x" + sgl.separate_reasoning(sgl.gen("a"), model_type="deepseek-r1")


@sgl.function
def fork_first(s):
    forks = s.fork(3)
    forks += lambda i: f"question {i}" + sgl.gen("a")
    forks.join()


@sgl.function
def fork_right_after_text(s):
    s += "few shots " * 300
    forks = s.fork(3)
    forks += lambda i: f"question {i}" + sgl.gen("a")
    forks.join()


@sgl.function
def nothing_before(s):
    s += sgl.gen("a")


def test_a_gen_with_n_has_a_list_and_goes_on_from_the_first(server, endpoint):
    texts = iter(["one", "two", "three", "end"])
    server.generate = lambda body: answer(next(texts))
    state = several.run(count=3, backend=endpoint)
    assert (state["a"], state["b"], state.text()) == (["one", "two", "three"], "end", "xone!end")
    assert [info["completion_tokens"] for info in state.get_meta_info("a")] == [3, 3, 5]
    assert [(call.text, call.answer) for call in endpoint.calls] == [("one", 0), ("two", 1), ("three", 2), ("end", 0)]


def test_n_for_a_whole_run_holds_for_each_gen(server, endpoint):
    state = one_word.run("x", n=2, backend=endpoint)
    assert state["a"] == ["ok", "ok"]
    assert server.requests[0]["sampling_params"]["n"] == 2


@pytest.mark.parametrize("n", [0, -1, 1.5, "2", True])
def test_an_n_that_is_no_number_of_answers_is_refused(endpoint, n):
    with pytest.raises(ConfigError, match=r"^n: .* is not a number of answers"):
        several.run(count=n, backend=endpoint)


def test_n_in_a_stream_is_refused(server, endpoint):
    with pytest.raises(ConfigError, match="n: a stream shows one answer, not 3"):
        list(several.run(count=3, backend=endpoint, stream=True).text_iter())
    assert server.requests == []


@pytest.mark.parametrize("dtype", [int, "int", float, str, bool])
@pytest.mark.parametrize("stop", [None, "\n\n", [";"], (";",)])
def test_a_dtype_goes_with_any_stop(server, endpoint, dtype, stop):
    assert typed.run(dtype=dtype, ends=stop, backend=endpoint)["a"] == "ok"
    params = server.requests[0]["sampling_params"]
    assert params["regex"]
    given = [stop] if isinstance(stop, str) else list(stop or ())
    assert params["stop"][: len(given) + 1] == [*given, "<|im_end|>"]
    assert (" " in params["stop"]) == (dtype in (int, "int", float))


def test_a_dtype_that_sglang_does_not_know_is_named(endpoint):
    with pytest.raises(ConfigError, match=r"^dtype: <class 'list'> is none of int, float, str and bool"):
        typed.run(dtype=list, ends=None, backend=endpoint)


def test_the_stop_list_of_a_whole_run_is_left_alone(server, endpoint):
    stops = ["END"]
    several.run(count=1, stop=stops, backend=endpoint)
    assert stops == ["END"]
    assert [body["sampling_params"]["stop"] for body in server.requests] == [["END", "<|im_end|>"]] * 2


def failing_for(*words: str):
    def generate(body: dict[str, Any]) -> Any:
        if body["text"].startswith(words):
            raise Fail(503, "overloaded by " + body["text"])
        return answer("fine")

    return generate


@pytest.mark.parametrize("num_threads", ["auto", 2])
def test_run_batch_says_every_run_that_failed_and_keeps_the_others(server, endpoint, num_threads):
    server.generate = failing_for("bad", "worse")
    batch = [{"word": word} for word in ("a", "worse", "b", "bad", "c")]
    with pytest.raises(BatchError, match=r"(?s)2 of 5 runs failed\nrun 1: .*503.*worse\nrun 3: .*bad$") as caught:
        one_word.run_batch(batch, backend=endpoint, num_threads=num_threads)
    assert [(one.index, type(one.error)) for one in caught.value.failures] == [(1, ServerError), (3, ServerError)]
    assert [state and state["a"] for state in caught.value.states] == ["fine", None, "fine", None, "fine"]


def test_a_programs_own_error_is_in_the_list_too(server, endpoint):
    with pytest.raises(BatchError) as caught:
        own_error.run_batch([["good"], ["bad"], ["good"]], backend=endpoint)
    assert [(one.index, type(one.error)) for one in caught.value.failures] == [(1, ZeroDivisionError)]


def test_a_batch_that_shares_one_dict_counts_its_runs(server, endpoint):
    server.generate = failing_for("bad")
    with pytest.raises(BatchError, match="4 of 4 runs failed") as caught:
        one_word.run_batch([{"word": "bad"}] * 4, backend=endpoint, num_threads=3)
    assert sorted(one.index for one in caught.value.failures) == [0, 1, 2, 3]


def test_a_batch_taken_one_by_one_gives_what_came_before_the_failure(server, endpoint):
    server.generate = failing_for("bad")
    batch = [{"word": word} for word in ("a", "bad", "c")]
    states = one_word.run_batch(batch, backend=endpoint, generator_style=True)
    assert next(states)["a"] == "fine"
    with pytest.raises(BatchError, match="1 of 3 runs failed"):
        next(states)


def test_a_batch_without_failures_is_as_it_was(endpoint):
    states = one_word.run_batch([{"word": "a"}, {"word": "b"}], backend=endpoint)
    assert [state.text() for state in states] == ["aok", "bok"]


def test_a_batch_run_inside_a_run_says_its_own_list(server, endpoint):
    @sgl.function
    def outer(s):
        one_word.run_batch([{"word": "a"}, {"word": "bad"}], backend=endpoint)

    server.generate = failing_for("bad")
    with pytest.raises(BatchError, match="1 of 2 runs failed"):
        outer.run(backend=endpoint)


def test_the_failure_of_a_fork_that_nobody_reads_is_raised_by_its_run(server, endpoint, recwarn, monkeypatch):
    ignored: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    server.generate = failing_for("xy")
    with pytest.raises(ServerError, match="overloaded"):
        nobody_reads_its_fork.run(backend=endpoint)
    gc.collect()
    assert ignored == []
    assert [str(one.message) for one in recwarn if "nothing read" in str(one.message)] == []


def test_a_failure_that_the_program_dealt_with_is_not_raised_again(server, endpoint):
    server.generate = failing_for("xy")
    assert caught_by_the_program.run(backend=endpoint).text() == "xwent wrong"


def test_what_nobody_could_be_told_is_warned_of(server):
    server.generate = failing_for("x")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        state = one_word.run("x", backend=Endpoint(server.url, chat_template="chatml", wait=False))
        state.stream_executor.worker.join()
        del state
        gc.collect()
    assert any("a call failed, and nothing read its result" in str(one.message) for one in warned)


def _within(seconds: float, work: Any) -> Any:
    """What `work` returns; a stream that never ends fails the test instead of hanging it."""
    got: list[Any] = []
    thread = threading.Thread(target=lambda: got.append(work()), daemon=True)
    thread.start()
    thread.join(seconds)
    assert got, "it hangs"
    return got[0]


def test_a_scopes_text_can_be_streamed(endpoint, server):
    reads = threading.Event()

    def when_read(body):
        assert reads.wait(10)
        time.sleep(
            0.2
        )  # a run that has ended before its variable is read streams nothing of it: SGLang's, see the docs
        return answer("ok")

    server.generate = when_read
    state = scoped.run(backend=endpoint, stream=True)
    assert _within(10, lambda: (reads.set(), "".join(state.text_iter("all")))[1]) == "xok"


def test_a_fork_streams_a_variable_that_it_was_born_with(endpoint):
    done: list[str] = []
    state = streaming_fork.run(done=done, backend=endpoint, stream=True)
    assert _within(10, lambda: "".join(state.text_iter())) == "xok"
    assert done == ["ok"]


def test_reasoning_in_a_stream_is_refused_not_waited_for(endpoint):
    state = reasoning.run(backend=endpoint, stream=True)
    with pytest.raises(ConfigError, match="separate_reasoning: SGLang cannot split a stream"):
        _raised(_within(10, lambda: _outcome(lambda: state["a_reasoning_content"])))


def _outcome(work: Any) -> Any:
    try:
        return work()
    except Exception as error:
        return error


def _raised(outcome: Any) -> None:
    if isinstance(outcome, Exception):
        raise outcome


def test_a_fork_before_any_text_sends_no_empty_prompt(server, endpoint):
    fork_first.run(backend=endpoint)
    assert sorted(body["text"] for body in server.requests) == ["question 0", "question 1", "question 2"]


def test_a_fork_sees_the_text_appended_just_before(server, endpoint):
    fork_right_after_text.run(backend=endpoint)
    first, *others = server.requests
    assert (first["sampling_params"]["max_new_tokens"], first["text"]) == (0, "few shots " * 300)
    assert all(body["text"].startswith(first["text"]) for body in others)


def test_an_empty_prompt_is_refused_where_the_tokenizer_makes_nothing_of_it(server, endpoint):
    assert nothing_before.run(backend=endpoint)["a"] == "ok"  # a BOS
    server.tokenize = lambda text: {"tokens": [ord(char) for char in text], "count": len(text)}
    with pytest.raises(ConfigError, match="text: a gen or select needs a prompt"):
        nothing_before.run(backend=endpoint)


@pytest.mark.parametrize("word", ["a\ud800b", "\udfff"])
def test_half_a_surrogate_pair_is_named_with_its_place(server, endpoint, word):
    with pytest.raises(
        ConfigError, match=rf"text: character {word.index(max(word))} of the prompt is half a surrogate"
    ):
        one_word.run(word, backend=endpoint)
    assert server.requests == []


@pytest.mark.parametrize("word", ["\x00", "\u2028", '"\\', "<|im_end|>", "{a}%s", "\U0001f600", "\ue000"])
def test_any_other_character_arrives_as_it_is(server, endpoint, word):
    one_word.run(word, backend=endpoint)
    assert server.requests[0]["text"] == word
