"""`Endpoint`: the backend that runs `@sgl.function` programs against a server and hints it about each call.

Stands before the round (it posts the hint that drafting reads) and after it (it keeps what the server reports back).
It never changes what the model is asked for: text and sampling parameters are those that SGLang's own `RuntimeEndpoint`
would send, plus `custom_params["sgl_spec"]`.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from sglang.lang.backend.base_backend import BaseBackend
from sglang.lang.backend.runtime_endpoint import RuntimeEndpoint
from sglang.lang.chat_template import ChatTemplate
from sglang.lang.choices import ChoicesDecision, ChoicesSamplingMethod
from sglang.lang.interpreter import ProgramState, StreamExecutor
from sglang.lang.ir import SglFunction, SglSamplingParams

from sgl_spec.frontend.batch import batch_to_cache, beginning_batch, enter_batch, run_in_order
from sgl_spec.frontend.call_hints import CallHints, DraftOptions
from sgl_spec.frontend.call_log import CallLog, CallRecord, check_answer, gen_record, select_record
from sgl_spec.frontend.choice_scores import check_choices
from sgl_spec.frontend.failed_executor import FailedExecutor
from sgl_spec.frontend.gen_request import check_text, checked_params, gen_body, prefill_body
from sgl_spec.frontend.http_client import HttpClient
from sgl_spec.frontend.program_end import end_run
from sgl_spec.frontend.read_function import read_beginning
from sgl_spec.frontend.role_texts import role_texts
from sgl_spec.frontend.run_executor import RunExecutor
from sgl_spec.frontend.run_identity import SlotCall, SlotNames, executor_being_made, note_program, noted_program
from sgl_spec.frontend.selecting import decide
from sgl_spec.frontend.served_model import model_info, resolve_template, token_ids
from sgl_spec.program.prefix_plan import WORTH_APART, WORTH_TOGETHER, warms

if TYPE_CHECKING:
    from sgl_spec.frontend.record_runs import RunRecorder
    from sgl_spec.program.graph import ProgramGraph


class _Tag(NamedTuple):
    program: str | None
    call: SlotCall

    @property
    def slot(self) -> str:
        return self.call.slot


class Endpoint(RuntimeEndpoint):
    """A running SGLang server as the backend of SGLang programs.

    Works with any SGLang 0.5.23 server; one without `sgl_spec` ignores the hints.

    Args:
        url: the server's address, for example `http://127.0.0.1:30000`.
        api_key: sent as a bearer token when given.
        chat_template: a name in SGLang's frontend registry or a `ChatTemplate`; by default the one that fits the model.
        timeout: seconds to wait for the next byte of any answer before `ServerUnavailable`.
        speculate: False asks the server not to draft for these calls.
        wait: `run` returns when the program's last call is done, so that it can raise that call's error. False restores
            SGLang's early return; an error is then raised by the first use of the state.
        keep_output_ids: keep the token ids in each `CallRecord`.
        extra_key: keeps these calls' cached prefixes and remembered outputs apart from those under other keys.
        origins: names of the drafters to use, such as `{"lookup", "grammar"}`; all by default.
        memory: what of the memory of past outputs to use: "read-write", "read", "write" or "off".
        width: most nodes of a call's tree; the server's by default.

    Raises:
        ServerUnavailable, ServerError: here, from `run`, and from any use of a state that failed; with the server's
            own words.
        BatchError: from `run_batch` over two or more runs, with the list of those that failed.
        ConfigError: an argument is not usable; the message names it.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        chat_template: str | ChatTemplate | None = None,
        timeout: float = 600.0,
        speculate: bool = True,
        wait: bool = True,
        keep_output_ids: bool = False,
        extra_key: str | None = None,
        origins: Collection[str] | None = None,
        memory: str = "read-write",
        width: int | None = None,
    ) -> None:
        # Not RuntimeEndpoint.__init__: it asks the server through calls that neither time out nor say what failed.
        BaseBackend.__init__(self)
        self._options: dict[str, Any] = {
            "api_key": api_key,
            "chat_template": chat_template,
            "timeout": timeout,
            "speculate": speculate,
            "wait": wait,
            "keep_output_ids": keep_output_ids,
            "extra_key": extra_key,
            "origins": origins,
            "memory": memory,
            "width": width,
        }
        self._http = HttpClient(url, api_key=api_key, timeout=timeout)
        self.support_concate_and_append = True
        self.base_url, self.api_key, self.verify = self._http.url, api_key, None
        self.speculate = speculate
        self.model_info = model_info(self._http)
        self.chat_template = resolve_template(chat_template, self.model_info, self._http)
        # SGLang appends a template's stop strings to the very list a program passed to `gen`; we append to a copy.
        self._template_without_stops = dataclasses.replace(self.chat_template, stop_str=())
        draft_options = DraftOptions.checked(speculate, origins, width, memory)
        self._hints = CallHints(draft_options, role_texts(self.chat_template))
        self._slots = SlotNames()
        self._log = CallLog()
        self.recorder: RunRecorder | None = None  # set by `record_runs.recording`

    def __call__(self, **options: Any) -> Endpoint:
        """Another endpoint of the same server with some options changed and its own record of calls."""
        return Endpoint(self.base_url, **{**self._options, **options})

    @property
    def calls(self) -> tuple[CallRecord, ...]:
        """What each call did, in the order the calls finished; at most the newest 10,000."""
        return self._log.snapshot()

    def reset_calls(self) -> None:
        self._log.reset()

    # What the interpreter calls, in the order of a run.

    def get_chat_template(self) -> ChatTemplate:
        note_program()
        if (executor := executor_being_made()) is not None:
            RunExecutor.take(executor, enter_batch(executor, self._compute))
        elif (batch := beginning_batch()) is not None and (graph := read_beginning(batch.program)) is not None:
            batch.plan(graph, role_texts(self.chat_template))
        if self.recorder is not None:
            self.recorder.watch()
        return self._template_without_stops

    def generate(self, s: StreamExecutor, sampling_params: SglSamplingParams) -> tuple[Any, Any]:
        """The text and the `meta_info`; with `n` above 1, a list of each."""
        tag = self._tag(s)
        with _failing(s, tag.slot):
            body = self._body(s, sampling_params, tag)
            begin = time.perf_counter()
            answers = self._http.post("/generate", body)
            self._keep(tag, answers, time.perf_counter() - begin)
            _now_hot(s, answers)
            if isinstance(answers, list):  # n > 1: the interpreter goes on from the first
                return [one["text"] for one in answers], [one["meta_info"] for one in answers]
            return answers["text"], answers["meta_info"]

    def generate_stream(
        self, s: StreamExecutor, sampling_params: SglSamplingParams
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        # Not a generator itself: the tag is read from the caller's frames, which a generator would see only later.
        return self._stream(s, sampling_params, self._tag(s))

    def _stream(
        self, s: StreamExecutor, sampling_params: SglSamplingParams, tag: _Tag
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        with _failing(s, tag.slot):
            body = {**self._body(s, sampling_params, tag), "stream": True}
            begin, shown = time.perf_counter(), 0
            answer: dict[str, Any] = {"text": "", "meta_info": {}}
            for answer in self._http.post_stream("/generate", body):
                check_answer(answer)
                yield answer["text"][shown:], answer["meta_info"]
                shown = len(answer["text"])
            self._keep(tag, answer, time.perf_counter() - begin)
            s.sgl_spec_hot = len(s.text_)

    def select(
        self,
        s: StreamExecutor,
        choices: list[str],
        temperature: float,
        choices_method: ChoicesSamplingMethod,
    ) -> ChoicesDecision:
        tag = self._tag(s)
        with _failing(s, tag.slot):
            check_choices(choices, temperature)
            check_text(s.text_, self._takes_empty)
            begin = time.perf_counter()
            if s.is_cold(len(choices), WORTH_TOGETHER):
                self._prefill(s)
            ids = None if s.images_ else token_ids(self._http, s.text_)
            selection = decide(s.text_, choices, choices_method, partial(self._generate_http_request, s), ids)
            record = select_record(
                program=tag.program,
                slot=tag.slot,
                choice=selection.decision.decision,
                meta_infos=selection.meta_infos,
                latency=time.perf_counter() - begin,
            )
            self._log.add(record)
            return selection.decision

    def commit_lazy_operations(self, s: StreamExecutor) -> None:
        """Called before a fork: what the forks share is computed once, where that saves them more than it costs."""
        if s.is_cold(s.sgl_spec_sharers, WORTH_APART) or s.images_:
            with _failing(s):
                self._prefill(s)

    def fill_image(self, s: StreamExecutor) -> None:
        with _failing(s):
            self._prefill(s)

    def _prefill(self, s: StreamExecutor) -> None:
        self._generate_http_request(s, prefill_body(s.text_))
        s.sgl_spec_hot = len(s.text_)

    def end_program(self, s: StreamExecutor | list[StreamExecutor]) -> None:
        """Called when a run's program returns or raises: the last moment at which `run` can raise a call's error.

        SGLang calls it once more when the executor is collected: an error has been heard of by then.
        """
        for executor in s if isinstance(s, list) else [s]:
            if isinstance(executor, StreamExecutor):
                end_run(executor, wait=self._options["wait"])

    # What a program's author calls.

    def use(self, graph: ProgramGraph) -> None:
        """Take a traced or recorded program's word for where the examples of its holes stand in a prompt."""
        self._hints.use(graph)

    def run_batch(
        self, program: SglFunction, arguments: Sequence[Mapping[str, Any]], **options: Any
    ) -> list[ProgramState]:
        """`program.run_batch(arguments, backend=self, **options)`, but runs that share a prefix begin side by side.

        That matters when the server cannot keep all prefixes at once. The states come in the order of `arguments`,
        which are each run's, by name.
        """
        return run_in_order(program, arguments, role_texts(self.chat_template), {**options, "backend": self})

    def cache_prefix(self, prefix_str: str) -> None:
        """Has the server compute a prefix. When SGLang asks for one before a batch, only where no plan knows better."""
        batch = batch_to_cache()
        if batch is None or (not batch.planned and warms(prefix_str, len(batch.arguments), WORTH_APART)):
            self._compute(prefix_str)

    def _compute(self, prefix: str) -> None:
        self._http.post("/generate", self._apart(prefill_body(prefix)))

    def flush_cache(self) -> None:
        self._http.post("/flush_cache")

    def get_server_info(self) -> dict[str, Any]:
        info: dict[str, Any] = self._http.get("/server_info")
        return info

    def start_profile(self) -> None:
        self._http.post("/start_profile")

    def stop_profile(self) -> None:
        self._http.post("/stop_profile")

    def concatenate_and_append(self, src_rids: list[str], dst_rid: str) -> None:
        self._http.post("/concate_and_append_request", {"src_rids": src_rids, "dst_rid": dst_rid})

    # How a request is made and its answer read.

    def _tag(self, s: StreamExecutor) -> _Tag:
        return _Tag(noted_program(s), self._slots.next(s))

    def _body(self, s: StreamExecutor, params: SglSamplingParams, tag: _Tag) -> dict[str, Any]:
        check_text(s.text_, self._takes_empty)
        params = checked_params(s, params, self.chat_template.stop_str)
        hint = self._hints.make(tag.program, tag.call, s.text_, params.stop)
        body = gen_body(s.text_, params, hint)
        self._add_images(s, body)
        return self._apart(body)

    def _takes_empty(self) -> bool:
        """Whether the served tokenizer makes a token of an empty prompt."""
        return token_ids(self._http, "") != []

    def _apart(self, body: dict[str, Any]) -> dict[str, Any]:
        """The request under the endpoint's own key: every call of a run must share its cached prefix."""
        key = self._options["extra_key"]
        return body if key is None else {**body, "extra_key": key}

    def _generate_http_request(self, s: StreamExecutor, data: dict[str, Any]) -> Any:
        self._add_images(s, data)
        answer = self._http.post("/generate", self._apart(data))
        for one in answer if isinstance(answer, list) else [answer]:
            check_answer(one)
        return answer

    def _keep(self, tag: _Tag, answers: Any, latency: float) -> None:
        for number, answer in enumerate(answers if isinstance(answers, list) else [answers]):
            check_answer(answer)
            ids = answer.get("output_ids") if self._options["keep_output_ids"] else None
            record = gen_record(
                program=tag.program,
                slot=tag.slot,
                text=answer["text"],
                meta_info=answer["meta_info"],
                latency=latency,
                output_ids=ids,
            )
            self._log.add(dataclasses.replace(record, answer=number))


def _now_hot(executor: StreamExecutor, answers: Any) -> None:
    """The server has computed the text and the answer, which the interpreter is about to append."""
    first = answers[0] if isinstance(answers, list) else answers
    executor.sgl_spec_hot = len(executor.text_) + len(first["text"])


@contextmanager
def _failing(executor: StreamExecutor, slot: str | None = None) -> Iterator[None]:
    """An exception inside makes `executor` a failed one, so that every later use of it raises the same exception."""
    try:
        yield
    except Exception as error:
        FailedExecutor.fail(executor, error, slot)
        raise
