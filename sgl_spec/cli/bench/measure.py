"""Runs tasks on all servers of a fleet, interleaved task by task, and keeps every raw sample.

Interleaving: for each task all modes run one after the other before the next task begins, and the order of the modes
turns by one from task to task. Drift of the machine (heat, a neighbour) then hits all modes alike.
Caching: before each pass over a workload every server is flushed, which empties its radix cache, its compiled grammars
and the trie of stock NGRAM. Modes on one server are kept apart by an isolation key (SGLang's `extra_key`), which is
new for every mode and pass: a pass begins with an empty radix cache and, on our server, with no memory of past
outputs, and inside the pass both fill as in real use. As every mode sees the same prompts in the same order, the radix
cache holds the same for all. Compiled grammars have no key: modes on one server share them, so the one that comes first
compiles for the others (a millisecond a schema, a tenth of a second for the regular expression of `character`).
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from sgl_spec.cli.bench.fleet import Server
from sgl_spec.cli.bench.prompt import Prompt
from sgl_spec.drafting.hint import Hint, encode_hint
from sgl_spec.errors import ServerError, ServerUnavailable
from sgl_spec.frontend.call_log import CallRecord, gen_record
from sgl_spec.frontend.http_client import HttpClient

Run = Callable[[], tuple[CallRecord, ...]]
Report = Callable[[str], None]


class Task(NamedTuple):
    """One thing to run and time: a prompt, or one run of a program.

    Attributes:
        id: unique in its workload.
        prepare: given the server and the isolation key, does what is not to be timed; what it returns does the timed
            part and tells what each call did.
    """

    id: str
    prepare: Callable[[Server, str], Run]


class Workload(NamedTuple):
    """Tasks that are summed up together. batch: how many requests or programs each of them runs side by side."""

    name: str
    tasks: tuple[Task, ...]
    batch: int = 1


class Sample(NamedTuple):
    """One task, run once in one mode.

    Attributes:
        workload, task, mode: their names.
        round: the pass, from 0.
        seconds: wall time seen by the client, prefill included.
        calls: what each call of the task did.
        extra_key: the isolation key its requests carried.
        batch: how many requests or programs ran side by side in it.
    """

    workload: str
    task: str
    mode: str
    round: int
    seconds: float
    calls: tuple[CallRecord, ...]
    extra_key: str = ""
    batch: int = 1

    @property
    def output(self) -> tuple[Any, ...]:
        """What must be equal between modes: token ids where the server gave them, else texts."""
        return tuple(call.text if call.output_ids is None else call.output_ids for call in self.calls)


def prompt_task(prompt: Prompt, max_new_tokens: int) -> Task:
    """A task that posts one prompt, greedily decoded."""

    def prepare(server: Server, extra_key: str) -> Run:
        client, body = HttpClient(server.url), request_body(prompt, max_new_tokens, server.mode.hint, extra_key)

        def run() -> tuple[CallRecord, ...]:
            began = time.perf_counter()
            answer = client.post("/generate", body)
            latency = time.perf_counter() - began
            record = gen_record(
                program=prompt.program, slot=prompt.slot or prompt.id, text=answer["text"],
                meta_info=answer["meta_info"], latency=latency, output_ids=answer["output_ids"],
            )  # fmt: skip
            return (record,)

        return run

    return Task(prompt.id, prepare)


def request_body(prompt: Prompt, max_new_tokens: int, hint: Hint, extra_key: str) -> dict[str, Any]:
    """The body for /generate: the prompt, what holds its output, and the hint where there is anything to say."""
    params: dict[str, Any] = {
        "temperature": 0.0,
        "max_new_tokens": min(prompt.max_new_tokens or max_new_tokens, max_new_tokens),
        "stop": list(prompt.stop),
    }
    for name in ("json_schema", "regex", "ebnf"):
        if getattr(prompt, name) is not None:
            params[name] = getattr(prompt, name)
    named = hint._replace(program=prompt.program, slot=prompt.slot)
    if named != Hint():
        params["custom_params"] = {"sgl_spec": encode_hint(named)}
    return {"text": prompt.text, "sampling_params": params, "extra_key": extra_key}


def measure(workloads: Sequence[Workload], servers: Sequence[Server], rounds: int, report: Report) -> Iterator[Sample]:
    """Yields a sample for every (round, task, mode). Each workload's first task runs once before, untimed.

    Args:
        workloads: what to run.
        servers: one per mode, all up.
        rounds: passes over everything.
        report: told in words what happens next.

    Raises:
        ServerError, ServerUnavailable: a server failed; the message names the mode.
    """
    nonce = secrets.token_hex(4)  # a server that outlives this run still knows its keys
    for workload in workloads:
        report(f"{workload.name}: warming up")
        for server in servers:
            with _naming(workload.tasks[0], server):
                workload.tasks[0].prepare(server, _key(server, workload, "warmup", nonce))()
    for number in range(rounds):
        for workload in workloads:
            report(f"{workload.name}: round {number + 1} of {rounds}, {len(workload.tasks)} tasks, interleaved")
            yield from _pass(workload, servers, number, nonce)


def rotated(servers: Sequence[Server], turns: int) -> tuple[Server, ...]:
    """The servers in their order, beginning `turns` places later."""
    at = turns % len(servers)
    return (*servers[at:], *servers[:at])


def _pass(workload: Workload, servers: Sequence[Server], number: int, nonce: str) -> Iterator[Sample]:
    for url in dict.fromkeys(server.url for server in servers):
        HttpClient(url).post("/flush_cache?timeout=30")
    for index, task in enumerate(workload.tasks):
        for server in rotated(servers, index + number):
            key = _key(server, workload, str(number + 1), nonce)
            with _naming(task, server):
                run = task.prepare(server, key)
                began = time.perf_counter()
                calls = run()
                seconds = time.perf_counter() - began
            yield Sample(workload.name, task.id, server.mode.name, number, seconds, calls, key, workload.batch)


def _key(server: Server, workload: Workload, part: str, nonce: str) -> str:
    return f"bench-{server.mode.name}-{workload.name}-{part}-{nonce}".replace(" ", "-")


@contextlib.contextmanager
def _naming(task: Task, server: Server) -> Iterator[None]:
    """Errors from inside name the task and the mode."""
    try:
        yield
    except ServerError as error:
        raise ServerError(
            f"{task.id} failed on the server '{server.mode.server}' (mode '{server.mode.name}'): {error}",
            status=error.status,
            server_message=error.server_message,
        ) from error
    except ServerUnavailable as error:
        raise ServerUnavailable(
            f"{task.id}: the server '{server.mode.server}' (mode '{server.mode.name}') is gone: {error}"
        ) from error
