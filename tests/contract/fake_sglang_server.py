"""An HTTP server that speaks as much of SGLang's API as the frontend uses, and says whatever a test scripts.

The shapes of its answers and errors are those of SGLang 0.5.23: `/generate` (one, batch, stream), `/model_info`,
`/tokenize`, `{"error": {"message": ...}}` with a status, and an error event inside a stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sgl_spec.testing.local_http import JsonHandler, listening

Answer = dict[str, Any]


@dataclass
class Fail(Exception):
    """Raised by a script: answer with this status and message (or raw body), or drop the connection."""

    status: int = 500
    message: str = ""
    raw: str | None = None
    drop: bool = False


def answer(text: str, **meta: Any) -> Answer:
    """A `/generate` answer; one token a character, for tests that count."""
    return {
        "text": text,
        "output_ids": [ord(char) for char in text],
        "meta_info": {
            "id": "r",
            "prompt_tokens": 7,
            "completion_tokens": len(text),
            "cached_tokens": 3,
            "finish_reason": {"type": "stop", "matched": None},
            **meta,
        },
    }


@dataclass
class FakeServer:
    """`generate` scripts the answer to each request; `requests` keeps what was posted to `/generate`."""

    model_info: Any = field(default_factory=lambda: {"model_path": "some/model", "is_generation": True})
    generate: Callable[[dict[str, Any]], Answer] = lambda body: answer("ok")
    special_tokens: tuple[str, ...] = ()
    bos: int = 1
    logprob: Callable[[str], float] = lambda char: -0.1 if char == "y" else -5.0
    stream_failure: Fail | None = None
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    url: str = ""

    def hints(self) -> list[Any]:
        params = [body["sampling_params"].get("custom_params") for body in self.requests]
        return [one["sgl_spec"] for one in params if one]

    def respond(self, path: str, body: dict[str, Any]) -> Any:
        if path == "/tokenize":
            return self.tokenize(body["prompt"])
        if path != "/generate":
            return {}
        self.requests.append(body)
        if isinstance(body.get("text"), list) or isinstance((body.get("input_ids") or [None])[0], list):
            return [self.score(ids, body["logprob_start_len"]) for ids in self.ids_of_all(body)]
        if body["sampling_params"]["max_new_tokens"] == 0:
            return answer("")
        answers = [self.generate(body) for _ in range(body["sampling_params"].get("n", 1))]
        return answers[0] if len(answers) == 1 else answers

    def tokenize(self, text: str) -> Answer:
        ids = [0] if text in self.special_tokens else [ord(char) for char in text] or [self.bos]
        return {"tokens": ids, "count": len(ids)}

    def ids_of_all(self, body: dict[str, Any]) -> list[list[int]]:
        return body.get("input_ids") or [self.tokenize(text)["tokens"] for text in body["text"]]

    def score(self, ids: list[int], start: int) -> Answer:
        """Log-probabilities of a prompt from token `start` on, whose own is not reported, as SGLang does it."""
        values = [[self.logprob(chr(one)), one, chr(one)] for one in ids[start:]]
        values[0][0] = None
        return answer("", input_token_logprobs=values, output_token_logprobs=[[-0.5, 3, "."]])


@contextmanager
def serving(server: FakeServer) -> Iterator[FakeServer]:
    with listening(_handler(server)) as server.url:
        yield server


def _handler(server: FakeServer) -> type[JsonHandler]:
    class Handler(JsonHandler):
        def do_GET(self) -> None:
            server.headers.append(dict(self.headers))
            if self.path not in ("/model_info", "/get_model_info"):
                return self.say(404, {"detail": "Not Found"})
            if isinstance(server.model_info, Fail):
                return self.fail(server.model_info)
            return self.say(200, server.model_info)

        def do_POST(self) -> None:
            server.headers.append(dict(self.headers))
            body = self.body()
            try:
                result = server.respond(self.path, body)
            except Fail as failure:
                return self.fail(failure)
            if body.get("stream"):
                return self.stream(result)
            return self.say(200, result)

        def stream(self, result: Answer) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            text = result["text"]
            half = {**result, "text": text[: len(text) // 2]}
            self.event(half)
            failure = server.stream_failure
            if failure is None:
                self.event(result)
                self.wfile.write(b"data: [DONE]\n\n")
            elif not failure.drop:
                self.event({"error": {"message": failure.message}})

        def fail(self, failure: Fail) -> None:
            if failure.drop:
                return self.hang_up()
            body: Any = {"error": {"message": failure.message, "type": "BadRequest", "code": failure.status}}
            return self.say(failure.status, body, failure.raw)

    return Handler
