"""Runs programs once against the server and keeps the requests they make, hints and all.

Stands outside a round. Imports SGLang's frontend (six seconds), so it is itself imported only where programs are run.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sglang.lang.interpreter import StreamExecutor
from sglang.lang.ir import SglSamplingParams

from sgl_spec.cli.check.source import PROGRAM, Call, Source
from sgl_spec.errors import SglSpecError
from sgl_spec.frontend.endpoint import Endpoint
from sgl_spec.frontend.program_file import LoadedProgram
from sgl_spec.frontend.program_main import run_inputs


class RecordingEndpoint(Endpoint):
    """An `Endpoint` that keeps the body of every generation it asks for. (A `select` asks for none.)"""

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(url, **options)
        self.recorded: list[Call] = []

    def _body(self, s: StreamExecutor, params: SglSamplingParams, tag: Any) -> dict[str, Any]:
        body = super()._body(s, params, tag)
        self.recorded.append(Call(str(tag.slot), copy.deepcopy(body)))
        return body

    def end_program(self, s: StreamExecutor | list[StreamExecutor]) -> None:
        """Forks are passed over: their errors reach the run that made them. SGLang ends a fork only from its finalizer,
        where an error could do nothing but print a traceback."""
        executors = s if isinstance(s, list) else [s]
        super().end_program([one for one in executors if one.fork_start_text_pos is None])


def record(
    programs: Sequence[LoadedProgram],
    url: str,
    options: Mapping[str, Any],
    *,
    inputs: int,
    at_once: int,
    done: Callable[[], None],
) -> tuple[Source, ...]:
    """A source for each program, in their order. Several run at once, each on an endpoint of its own.

    Args:
        programs: what to run.
        url, options: of their endpoints.
        inputs: how many of its inputs each is run on.
        at_once: programs that run at the same time.
        done: called after each program, in any thread.
    """

    def one(loaded: LoadedProgram) -> Source:
        try:
            return record_one(loaded, url, options, inputs)
        finally:
            done()

    with ThreadPoolExecutor(at_once) as pool:
        return tuple(pool.map(one, programs))


def record_one(loaded: LoadedProgram, url: str, options: Mapping[str, Any], inputs: int) -> Source:
    """The requests that the program makes for its first `inputs` inputs, each once.

    A program that fails is still a source, with a failure: that of the server, or whatever its own code raised.
    """
    failure, calls = None, []
    try:
        endpoint = RecordingEndpoint(url, **options)
        calls = endpoint.recorded
        run_inputs(loaded, endpoint, limit=inputs)
    except SglSpecError as error:
        failure = str(error)
    except Exception as error:  # a program's code may raise anything at an answer it did not expect
        failure = f"{type(error).__name__}: {error}"
    if not calls and failure is None:
        failure = "it asked the server to generate nothing"
    different = [call for place, call in enumerate(calls) if call.body not in [other.body for other in calls[:place]]]
    return Source(loaded.name, PROGRAM, tuple(different), failure=failure)
