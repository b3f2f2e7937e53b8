"""Runs tasks on all servers of a fleet, interleaved task by task, and keeps every raw sample.

Interleaving: for each task all modes run one after the other before the next task begins, and the order of the modes
turns by one from task to task. Drift of the machine (heat, a neighbour) then hits all modes alike.
Caching: before each pass over a workload every server's radix cache is flushed; inside a pass it fills as it does in
real use, and as every mode sees the same prompts in the same order, it holds the same for all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from sgl_spec.cli.bench.fleet import Server
from sgl_spec.cli.bench.prompts import Prompt
from sgl_spec.errors import ServerError, ServerUnavailable
from sgl_spec.frontend.call_log import CallRecord, gen_record
from sgl_spec.frontend.http_client import HttpClient

Runner = Callable[[Server], tuple[CallRecord, ...]]
Report = Callable[[str], None]


class Task(NamedTuple):
    """One thing to run and time: a prompt, or one run of a program. `run` returns what each of its calls did."""

    id: str
    run: Runner


class Workload(NamedTuple):
    """Tasks that are summed up together."""

    name: str
    tasks: tuple[Task, ...]


class Sample(NamedTuple):
    """One task, run once on one server. `seconds` is wall time seen by the client, prefill included."""

    workload: str
    task: str
    mode: str
    round: int
    seconds: float
    calls: tuple[CallRecord, ...]

    @property
    def output(self) -> tuple[Any, ...]:
        """What must be equal between modes: token ids where the server gave them, else texts."""
        return tuple(call.text if call.output_ids is None else call.output_ids for call in self.calls)


def prompt_task(prompt: Prompt, max_new_tokens: int) -> Task:
    """A task that posts one prompt, greedily decoded."""
    params = {
        "temperature": 0.0,
        "max_new_tokens": min(prompt.max_new_tokens or max_new_tokens, max_new_tokens),
        "stop": list(prompt.stop),
    }
    body = {"text": prompt.text, "sampling_params": params}

    def run(server: Server) -> tuple[CallRecord, ...]:
        began = time.perf_counter()
        answer = HttpClient(server.url).post("/generate", body)
        latency = time.perf_counter() - began
        record = gen_record(
            program=None, slot=prompt.id, text=answer["text"], meta_info=answer["meta_info"],
            latency=latency, output_ids=answer["output_ids"],
        )  # fmt: skip
        return (record,)

    return Task(prompt.id, run)


def measure(workloads: Sequence[Workload], servers: Sequence[Server], rounds: int, report: Report) -> Iterator[Sample]:
    """Yields a sample for every (round, task, server). Each workload's first task runs once before, untimed.

    Args:
        workloads: what to run.
        servers: one per mode, all up.
        rounds: passes over everything.
        report: told in words what happens next.

    Raises:
        ServerError, ServerUnavailable: a server failed; the message names its mode.
    """
    for workload in workloads:
        report(f"{workload.name}: warming up")
        for server in servers:
            _run(workload.tasks[0], server)
    for number in range(rounds):
        for workload in workloads:
            report(f"{workload.name}: round {number + 1} of {rounds}, {len(workload.tasks)} tasks, interleaved")
            yield from _pass(workload, servers, number)


def rotated(servers: Sequence[Server], turns: int) -> tuple[Server, ...]:
    """The servers in their order, beginning `turns` places later."""
    at = turns % len(servers)
    return (*servers[at:], *servers[:at])


def _pass(workload: Workload, servers: Sequence[Server], number: int) -> Iterator[Sample]:
    for server in servers:
        HttpClient(server.url).post("/flush_cache?timeout=30")
    for index, task in enumerate(workload.tasks):
        for server in rotated(servers, index + number):
            began = time.perf_counter()
            calls = _run(task, server)
            yield Sample(workload.name, task.id, server.mode.name, number, time.perf_counter() - began, calls)


def _run(task: Task, server: Server) -> tuple[CallRecord, ...]:
    try:
        return task.run(server)
    except ServerError as error:
        raise ServerError(
            f"{task.id} failed on the server '{server.mode.name}': {error}",
            status=error.status,
            server_message=error.server_message,
        ) from error
    except ServerUnavailable as error:
        raise ServerUnavailable(f"{task.id}: the server '{server.mode.name}' is gone: {error}") from error
