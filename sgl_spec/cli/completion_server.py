"""A server that answers prompts for `train-head`: one that runs already, or one started for the purpose.

Outside any round. Drafting is off by the requests' own hint: with dozens of requests side by side verification is not
nearly free any more. The server is ours all the same, because it honours a request's seed in any batch.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from sgl_spec.cli.server_command import OUR_ALGORITHM, ServerRequest, build_server_command, has_flag
from sgl_spec.cli.server_process import ServerProcess, running
from sgl_spec.drafting.hint import Hint, encode_hint
from sgl_spec.errors import ServerError
from sgl_spec.frontend.http_client import HttpClient
from sgl_spec.heads.generate import Completed, Completion

ANSWER_SECONDS = 1800.0


class ServerPlan(NamedTuple):
    """What to start: the model, SGLang flags from the user, and how many requests and tokens it should hold at once."""

    model: str
    user_flags: tuple[str, ...]
    requests: int
    tokens: int


class HttpCompleter:
    """Completions of one server. Safe to use from many threads."""

    def __init__(self, url: str) -> None:
        self._http = HttpClient(url, timeout=ANSWER_SECONDS)
        self._hint = {"sgl_spec": encode_hint(Hint(off=True))}

    def complete(self, request: Completion) -> Completed:
        """Posts the request and waits.

        Raises:
            ServerUnavailable, ServerError: the server is gone, refuses, or answers with something else.
        """
        params: dict[str, Any] = {
            "max_new_tokens": request.max_tokens,
            "temperature": request.temperature,
            "top_p": request.top_p,
            "sampling_seed": request.seed,
            "custom_params": self._hint,
        }
        if request.stop:
            params["stop"] = list(request.stop)
        if request.stop_ids:
            params["stop_token_ids"] = list(request.stop_ids)
        answer = self._http.post("/generate", {"input_ids": list(request.ids), "sampling_params": params})
        return _completed(answer, self._http.url)


def _completed(answer: Any, url: str) -> Completed:
    try:
        reason = answer["meta_info"]["finish_reason"]["type"]
        ids = tuple(int(token) for token in answer["output_ids"])
    except (KeyError, TypeError, ValueError) as error:
        raise ServerError(f"{url}/generate: the answer has no output_ids and finish_reason: {answer!r:.200}") from error
    if reason == "abort":
        raise ServerError(f"{url}/generate: the request was aborted: {answer['meta_info']['finish_reason']!r:.200}")
    return Completed(ids, reason == "stop")


@contextlib.contextmanager
def answering_server(plan: ServerPlan, log_file: Path) -> Iterator[str]:
    """Starts a server, yields its address and stops it on the way out.

    Raises:
        ServerUnavailable: it did not come up; the message holds the end of its log.
    """
    from sgl_spec.cli.machine import accelerator_name, physical_cores

    on_cpu = accelerator_name() is None
    request = ServerRequest(OUR_ALGORITHM, None, _flags(plan, on_cpu), plan.model, on_cpu, physical_cores())
    server = ServerProcess(build_server_command(request, dict(os.environ)), log_file)
    with running(server):
        print("starting a server that answers the prompts ...", file=sys.stderr, flush=True)
        server.wait_ready()
        yield server.command.url


def _flags(plan: ServerPlan, on_cpu: bool) -> tuple[str, ...]:
    """Room for all requests, where the user did not say how much. An accelerator's memory is SGLang's to divide."""
    ours = [("--max-running-requests", plan.requests)]
    if on_cpu:
        ours.append(("--max-total-tokens", plan.tokens))
    words = [word for flag, value in ours if not has_flag(plan.user_flags, flag) for word in (flag, str(value))]
    return (*words, *plan.user_flags)
