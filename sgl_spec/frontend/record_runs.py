"""Records real runs of a program into its graph, for a program that cannot be read without values.

Stands beside a run: the executor of each recorded run becomes a subclass that notes what is submitted, forked, joined
and read, and then does what SGLang does. Nothing is patched, and what is sent to the server is the same.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from sglang.lang.interpreter import StreamExecutor, run_internal, run_program
from sglang.lang.ir import SglFunction

from sgl_spec.errors import TraceError
from sgl_spec.frontend.read_function import is_traceable
from sgl_spec.frontend.run_executor import RunExecutor
from sgl_spec.frontend.run_identity import executor_being_made, program_name
from sgl_spec.frontend.trace_executor import JOIN
from sgl_spec.frontend.trace_steps import Lines, append_expression, call_arguments
from sgl_spec.program.graph import ProgramGraph
from sgl_spec.program.nodes import Call
from sgl_spec.program.recorder import merge_runs
from sgl_spec.program.run_log import Lane, RunLog
from sgl_spec.program.source import NOWHERE, SourceLine, user_lines

if TYPE_CHECKING:
    from sgl_spec.frontend.endpoint import Endpoint

_ROOT = {run_internal.__code__}


def record(
    function: SglFunction, inputs: Sequence[Mapping[str, Any]], endpoint: Endpoint, *, fold: bool | None = None
) -> ProgramGraph:
    """Runs a program over `inputs` and returns the graph of those runs.

    Args:
        inputs: keyword arguments of each run; what differs between runs is what tells values from literals, so
            give at least two.
        fold: whether places that a run passes again become a loop; None for: unless the program can be traced.

    Raises:
        ServerError, ServerUnavailable: from the first call that fails.
        TraceError: a run appended something that a graph has no node for.
        GraphError: there were no runs, or they appended nothing.
    """
    with recording(endpoint) as recorder:
        for arguments in inputs:
            function.run(backend=endpoint, **arguments)
    return recorder.graph(function, fold=fold)


@contextmanager
def recording(endpoint: Endpoint) -> Iterator[RunRecorder]:
    """Records every run that starts on this endpoint meanwhile, whoever starts it."""
    before, endpoint.recorder = endpoint.recorder, RunRecorder()
    try:
        yield endpoint.recorder
    finally:
        endpoint.recorder = before


class RunRecorder:
    """Runs as they were recorded, of any number of programs. Runs may be in several threads."""

    def __init__(self) -> None:
        self._runs: dict[RunLog, Any] = {}
        self._problem: Exception | None = None
        self._lock = threading.Lock()

    def watch(self) -> None:
        """Called by the endpoint while an executor is made for a run: makes it a recorded one."""
        running = _frame(sys._getframe(1), run_program.__code__)
        executor = executor_being_made()
        if running is None or executor is None:
            return
        with self.observing():
            self._watch(running.f_locals, executor)

    def _watch(self, run: Mapping[str, Any], executor: StreamExecutor) -> None:
        program = run["program"]
        arguments = _arguments(program, run["func_args"], run["func_kwargs"])
        code = program.func.__code__
        log = RunLog(program_name(program.func), SourceLine(code.co_filename, code.co_firstlineno), arguments)
        caller = _frame(sys._getframe(1), run_internal.__code__, limit=None)
        outer = caller.f_locals["state"].stream_executor if caller is not None else None
        if isinstance(outer, RecordedExecutor) and outer.sgl_spec_recorder is self:
            lines = _lines(sys._getframe(1))
            log.called_by(outer.sgl_spec_lane.run, Call(log.program, lines[0], call_arguments(arguments)), lines)
        with self._lock:
            self._runs[log] = program.func
        RecordedExecutor.record(executor, log.main, self)

    @contextmanager
    def observing(self) -> Iterator[None]:
        """Keeps what goes wrong with the recording out of the run; `graph` raises it."""
        try:
            yield
        except Exception as error:
            self._problem = self._problem or error

    def graph(self, function: SglFunction, *, fold: bool | None = None) -> ProgramGraph:
        """The graph of the recorded runs of one program; arguments and errors as in `record`."""
        if self._problem is not None:
            raise self._problem
        runs = [log for log, func in self._runs.items() if func is function.func]
        if not runs:
            raise TraceError(f"{program_name(function.func)}: no run of it was recorded")
        return merge_runs(runs, fold=not is_traceable(function) if fold is None else fold)


class RecordedExecutor(RunExecutor):
    """An executor that notes what a program does with it. Made from a run's executor by `record`."""

    sgl_spec_lane: Lane
    sgl_spec_recorder: RunRecorder

    @classmethod
    def record(cls, executor: StreamExecutor, lane: Lane, recorder: RunRecorder) -> None:
        """Turns `executor`, a `RunExecutor` already, into a recorded one."""
        executor.sgl_spec_lane, executor.sgl_spec_recorder = lane, recorder
        # Which methods an object has is all that changes; its thread, queue and text stay as they are.
        executor.__class__ = cls

    def submit(self, expr: Any) -> None:
        with self.sgl_spec_recorder.observing():
            append_expression(self.sgl_spec_lane, expr, _lines(sys._getframe(1)))
        super().submit(expr)

    def fork(self, size: int = 1, position_ids_offset: list[int] | None = None) -> Any:
        lines = _lines(sys._getframe(1))
        executors = super().fork(size, position_ids_offset)
        with self.sgl_spec_recorder.observing():
            for executor, lane in zip(executors, self.sgl_spec_lane.fork(len(executors), lines), strict=True):
                RecordedExecutor.record(executor, lane, self.sgl_spec_recorder)
        return executors

    def get_var(self, name: str) -> Any:
        value = super().get_var(name)
        with self.sgl_spec_recorder.observing():
            self.sgl_spec_lane.reads(name, value)
        return value

    def end(self) -> None:
        if sys._getframe(1).f_code is JOIN:
            with self.sgl_spec_recorder.observing():
                self.sgl_spec_lane.join("gather_variable", _lines(sys._getframe(1)))
        super().end()


def _lines(frame: FrameType) -> Lines:
    return tuple(user_lines(frame, _ROOT)) or (NOWHERE,)


def _frame(frame: FrameType | None, code: CodeType, limit: int | None = 8) -> FrameType | None:
    while frame is not None and frame.f_code is not code and limit != 0:
        frame, limit = frame.f_back, None if limit is None else limit - 1
    return frame if frame is not None and frame.f_code is code else None


def _arguments(program: SglFunction, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """A run's arguments by name, its defaults included."""
    defaults = program.func.__defaults__ or ()
    names = program.arg_names
    given = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    return {**given, **dict(zip(names, args, strict=False)), **kwargs}
