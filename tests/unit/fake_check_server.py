"""A server for `sgl-spec check` that answers like one of ours: what it says depends on the request alone, never on
whether it drafts. A test makes it wrong in one thing."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sgl_spec.testing.local_http import JsonHandler, listening

Body = dict[str, Any]
OURS = {"speculative_algorithm": "SGL_SPEC", "device": "cpu", "version": "0.5.23", "api_key": "hidden"}


def is_off(body: Body) -> bool:
    hint = (body["sampling_params"].get("custom_params") or {}).get("sgl_spec") or {}
    return bool(hint.get("off"))


def account(body: Body, tokens: int) -> Body:
    """Two tokens a round with drafts, one without."""
    drafted = 0 if is_off(body) else tokens // 2
    counts = {"drafted": {"all": drafted}, "reached": {"all": drafted}, "accepted": {"all": drafted}}
    rounds = tokens - 1 - drafted if tokens > 1 else 0
    return {"rounds": rounds, **counts, "abstained": {"off": rounds} if is_off(body) else {}, "tokens": tokens - 1}


def true_answer(body: Body, number: int = 0) -> Body:
    """What the model says to a request: a function of its prompt, seed and length."""
    params = body["sampling_params"]
    tokens = params["max_new_tokens"]
    draw = random.Random(f"{body['text']}/{params.get('sampling_seed')}/{params['temperature']}/{number}")
    ids = [draw.randrange(97, 122) for _ in range(tokens)]
    meta: Body = {
        "finish_reason": {"type": "length", "length": tokens},
        "prompt_tokens": len(body["text"]),
        "completion_tokens": tokens,
        "cached_tokens": draw.randrange(9),
        "sgl_spec": [account(body, tokens)],
    }
    if body.get("return_logprob"):
        rows = [[-id / 100, id, None] for id in ids]
        meta |= {
            "output_token_logprobs": rows,
            "output_top_logprobs": [[row, [float("-inf"), 0, None]] for row in rows],
            "output_token_ids_logprobs": [[row] for row in rows],
        }
    return {"text": "".join(map(chr, ids)), "output_ids": ids, "meta_info": meta}


@dataclass
class Refuses(Exception):
    """Raised by a fault: answer with this status and message; status 0 breaks the connection."""

    status: int
    message: str = ""


@dataclass
class CheckServer:
    """`fault` changes the true answer to a request; `stream_fault` the texts of a stream's events."""

    info: Any = field(default_factory=lambda: dict(OURS))
    fault: Callable[[Body, Body], Body] = lambda body, answer: answer
    stream_fault: Callable[[list[str]], list[str]] = lambda texts: texts
    bodies: list[Body] = field(default_factory=list)
    keys: set[str | None] = field(default_factory=set)
    dead: bool = False
    url: str = ""

    def generate(self, body: Body) -> Any:
        self.bodies.append(body)
        several = [self.fault(body, true_answer(body, n)) for n in range(body["sampling_params"].get("n", 1))]
        return several if len(several) > 1 else several[0]


@contextmanager
def serving(server: CheckServer) -> Iterator[CheckServer]:
    with listening(_handler(server)) as server.url:
        yield server


def _handler(server: CheckServer) -> type[JsonHandler]:
    class Handler(JsonHandler):
        def do_GET(self) -> None:
            server.keys.add(self.headers.get("Authorization"))
            known = {"/server_info": server.info, "/model_info": {"model_path": "m"}}
            if server.dead:
                self.hang_up()
            elif known.get(self.path) is None:
                self.say(404, {"detail": "Not Found"})
            else:
                self.say(200, known[self.path])

        def do_POST(self) -> None:
            server.keys.add(self.headers.get("Authorization"))
            body = self.body()
            try:
                if server.dead:
                    raise Refuses(0)
                answer = server.generate(body)
            except Refuses as refusal:
                if refusal.status == 0:
                    return self.hang_up()
                return self.say(refusal.status, {"error": {"message": refusal.message}})
            return self.stream(answer) if body.get("stream") else self.say(200, answer)

        def stream(self, answer: Body) -> None:
            self.send_response(200)
            self.end_headers()
            text, ids = answer["text"], answer["output_ids"]
            for shown in server.stream_fault([text[:1], text[: len(text) // 2], text]):
                event = {**answer, "text": shown, "output_ids": ids[: len(shown)]}
                self.event(event)
            self.wfile.write(b"data: [DONE]\n\n")

    return Handler
