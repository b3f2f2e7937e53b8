"""Reads an `@sgl.function` into its graph without a server: every argument and every answer is a stand-in.

Used before any round. A program whose next step depends on a value is refused, with the line and what it does there;
`record_runs` watches such a program run instead.
"""

from __future__ import annotations

import inspect
from typing import Any

from sglang.lang.ir import SglFunction

from sgl_spec.errors import GraphError, TraceError
from sgl_spec.frontend.run_identity import program_name
from sgl_spec.frontend.trace_calls import TraceHelpers
from sgl_spec.frontend.trace_executor import CalledState, TracedText, TracingExecutor, new_state, refused
from sgl_spec.frontend.trace_steps import call_arguments
from sgl_spec.program.graph import ProgramGraph
from sgl_spec.program.nodes import Call, Inserted
from sgl_spec.program.placeholder import Refusals
from sgl_spec.program.recorder import merge_runs
from sgl_spec.program.run_log import RunLog
from sgl_spec.program.source import NOWHERE, SourceLine, current_line, is_user_file, user_lines

_RUN_PARAMETERS = frozenset(inspect.signature(SglFunction.run).parameters) - {"self", "args", "kwargs"}


def read_function(function: SglFunction, **known: Any) -> ProgramGraph:
    """The graph of a program.

    Args:
        function: the `@sgl.function`.
        known: arguments that have the same value in every run. All others, and what the model generates, are
            stand-ins; arguments bound with `function.bind` are known.

    Raises:
        TraceError: the program branches, iterates or computes on a stand-in, or does something else that only a run
            can show; the message names the source line.
        GraphError: what it appends is no program, for example a role inside a role.
    """
    return _Trace(function, known).graph()


def read_beginning(function: SglFunction) -> ProgramGraph | None:
    """The graph of what a program appends in every run, up to where it must be run to know; None where that is nothing.

    As SGLang's own search for a literal prefix, which `run_batch` makes, this runs the program's code with stand-ins.
    """
    trace = _Trace(function, {})
    try:
        return trace.graph()
    except (TraceError, GraphError):
        pass
    try:
        return trace.so_far()
    except GraphError:
        return None


def is_traceable(function: SglFunction) -> bool:
    """Whether `read_function` can read the program."""
    try:
        read_function(function)
    except TraceError:
        return False
    return True


class _Trace:
    def __init__(self, function: SglFunction, known: dict[str, Any]) -> None:
        self._function = function
        self._refusals = Refusals()
        self._log = RunLog(program_name(function.func), _start_of(function))
        self._helpers = TraceHelpers(self._refusals, self._run_called)
        stand_ins = {name: TracedText((Inserted("argument", name),), self._refusals) for name in function.arg_names}
        self._arguments = {**stand_ins, **function.bind_arguments, **known}

    def graph(self) -> ProgramGraph:
        try:
            self._run()
        finally:
            self._refusals.active = False
        return self.so_far()

    def so_far(self) -> ProgramGraph:
        return merge_runs([self._log], fold=False, traced=True)

    def _run(self) -> None:
        executor = TracingExecutor(self._log.main, self._refusals, {_run_program.__code__})
        try:
            program = self._helpers.rewriter.rewritten(self._function.func, outermost=True)
            _run_program(program, new_state(executor), self._arguments)
        except TraceError as error:
            raise self._refusals.first or error from None
        except Exception as error:
            raise self._refusals.first or refused(error, _where(error)) from error
        if self._refusals.first is not None:
            raise self._refusals.first  # the program caught it

    def _run_called(
        self, function: SglFunction, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> CalledState | list[CalledState]:
        if method == "run_batch":
            batch = kwargs.get("batch_kwargs", args[0] if args else ())
            return [self._called(function, dict(_by_name(function, one))) for one in batch]
        own = {name: value for name, value in kwargs.items() if name not in _RUN_PARAMETERS}
        return self._called(function, {**_by_name(function, args), **own})

    def _called(self, function: SglFunction, arguments: dict[str, Any]) -> CalledState:
        name = program_name(function.func)
        lines = tuple(user_lines(inspect.currentframe(), {_run_program.__code__})) or (NOWHERE,)
        given = call_arguments({**arguments, **function.bind_arguments})
        self._log.main.add(Call(name, lines[0], given), lines)
        return CalledState(name, self._refusals)


def _run_program(function: Any, state: Any, arguments: dict[str, Any]) -> None:
    """The frame at which the author's frames end."""
    function(state, **arguments)


def _by_name(function: SglFunction, given: Any) -> dict[str, Any]:
    return dict(given) if isinstance(given, dict) else dict(zip(function.arg_names, given, strict=False))


def _start_of(function: SglFunction) -> SourceLine:
    code = function.func.__code__
    return SourceLine(code.co_filename, code.co_firstlineno)


def _where(error: Exception) -> str:
    """The author's innermost line that the error passed through."""
    traceback, found = error.__traceback__, current_line()
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if is_user_file(file):
            found = SourceLine(file, traceback.tb_lineno)
        traceback = traceback.tb_next
    return str(found)
