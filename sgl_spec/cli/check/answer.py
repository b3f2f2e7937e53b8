"""What a server answered to one request, in the form in which two answers are compared.

Stands outside a round: a `Sender` posts a body to /generate and reads back one answer, several (n > 1) or a stream.
Whatever goes wrong is in the reply; nothing is raised, so that a check ends with a report though its server does not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from sgl_spec.errors import ServerError, ServerUnavailable, SglSpecError
from sgl_spec.frontend.call_log import CallRecord, check_answer, gen_record
from sgl_spec.frontend.http_client import HttpClient

LOGPROBS = tuple(f"{side}_{kind}" for side in ("input", "output") for kind in (
    "token_logprobs", "top_logprobs", "token_ids_logprobs",
))  # fmt: skip
USAGE = ("prompt_tokens", "completion_tokens", "reasoning_tokens")
UNAVAILABLE_AT_MOST = 3  # requests without an answer, after which a server counts as gone


class Answer(NamedTuple):
    """One generation: SGLang's fields, and what its stream did wrong.

    Attributes:
        output_ids: token ids; None where the server sends none.
        text: the text.
        meta_info: as the server sent it, with the whole of it gathered where it came in parts.
        taken_back: of a stream, the text or ids that a later event no longer began with; "" where it never did so.
    """

    output_ids: tuple[int, ...] | None
    text: str
    meta_info: Mapping[str, Any]
    taken_back: str = ""

    @property
    def record(self) -> CallRecord:
        """The counts, as the tables of every command read them."""
        ids = None if self.output_ids is None else list(self.output_ids)
        return gen_record(program=None, slot="", text=self.text, meta_info=self.meta_info, latency=0.0, output_ids=ids)


class Reply(NamedTuple):
    """What came of one request.

    Attributes:
        answers: one for each of the request's `n`; none after a failure.
        seconds: from sending to the last byte, on this client's clock.
        failure: the server's message, or why there is none; None when it answered.
    """

    answers: tuple[Answer, ...]
    seconds: float
    failure: str | None = None


Send = Callable[[Mapping[str, Any]], Reply]


class Sender:
    """Posts to one server's /generate, from any thread. Once the server is gone, further requests fail at once.

    Args:
        client: the server.
        incremental: it streams differences (SGLang's --incremental-streaming-output), not the text so far.
    """

    def __init__(self, client: HttpClient, incremental: bool = False) -> None:
        self._client = client
        self._incremental = incremental
        self._unavailable = 0
        self._gone: str | None = None

    def __call__(self, body: Mapping[str, Any]) -> Reply:
        """The server's reply. Never raises an error of ours."""
        if self._gone is not None:
            return Reply((), 0.0, self._gone)
        began = time.perf_counter()
        try:
            answers = tuple(self._answers(body))
        except SglSpecError as error:
            if isinstance(error, ServerUnavailable):
                self._look(error)
            return Reply((), time.perf_counter() - began, str(error))
        return Reply(answers, time.perf_counter() - began)

    def _answers(self, body: Mapping[str, Any]) -> Iterator[Answer]:
        if body.get("stream"):
            yield joined(self._client.post_stream("/generate", body), self._incremental)
            return
        answer = self._client.post("/generate", body)
        for one in answer if isinstance(answer, list) else [answer]:
            yield read_answer(one)

    def _look(self, error: ServerUnavailable) -> None:
        """Whether it was only this request, or the server."""
        self._unavailable += 1
        try:
            self._client.get("/model_info")
        except ServerUnavailable as dead:
            self._gone = f"not sent: the server is gone ({dead})"
        except ServerError:
            pass  # it answers
        if self._gone is None and self._unavailable >= UNAVAILABLE_AT_MOST:
            self._gone = f"not sent: {self._unavailable} requests before this one had no answer ({error})"


def read_answer(answer: Any, taken_back: str = "") -> Answer:
    """An answer of /generate.

    Raises:
        ServerError: it is none, or the server aborted the request.
    """
    check_answer(answer)
    ids = answer.get("output_ids")
    return Answer(None if ids is None else tuple(ids), answer["text"], answer["meta_info"], taken_back)


def joined(events: Iterable[Mapping[str, Any]], incremental: bool) -> Answer:
    """The answer that a stream's events make together.

    Raises:
        ServerError: an event is no answer, or there is none at all.
    """
    whole: dict[str, Any] = {}
    taken_back = ""
    for event in events:
        check_answer(event)
        if incremental:
            event = _appended(whole, event)
        taken_back = taken_back or _taken_back(whole, event)
        whole = dict(event)
    if not whole:
        raise ServerError("/generate: the stream had no event")
    return read_answer(whole, taken_back)


def _taken_back(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    text, ids = before.get("text", ""), before.get("output_ids") or []
    if not after["text"].startswith(text):
        return f"text {text[-40:]!r}"
    if after.get("output_ids") is not None and after["output_ids"][: len(ids)] != ids:
        return f"ids {ids[-8:]}"
    return ""


def _appended(before: Mapping[str, Any], event: Mapping[str, Any]) -> dict[str, Any]:
    meta, so_far = dict(event["meta_info"]), before.get("meta_info", {})
    for name in LOGPROBS:
        if name in meta or name in so_far:
            meta[name] = [*so_far.get(name, ()), *(meta.get(name) or ())]
    ids = [*before.get("output_ids", ()), *(event.get("output_ids") or ())]
    return {**event, "text": before.get("text", "") + event["text"], "output_ids": ids, "meta_info": meta}
