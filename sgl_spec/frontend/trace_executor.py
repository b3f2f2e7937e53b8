"""The executor behind a traced program's state: it writes steps down instead of sending anything.

Used before a round. SGLang's own `ProgramState` runs on top of it unchanged, so that roles, scopes, forks and joins
are submitted exactly as in a run.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from types import CodeType
from typing import Any, NoReturn

from sglang.lang.interpreter import ProgramState, ProgramStateGroup
from sglang.lang.ir import SglExpr

from sgl_spec.errors import TraceError
from sgl_spec.frontend.trace_steps import Lines, append_expression
from sgl_spec.program.nodes import COMPUTED, Inserted
from sgl_spec.program.placeholder import Placeholder, Refusals
from sgl_spec.program.run_log import Lane
from sgl_spec.program.source import NOWHERE, user_lines

JOIN = ProgramStateGroup.join.__code__


class TracedText(Placeholder, SglExpr):
    """A stand-in that `sgl.user(...)`, `+ sgl.gen(...)` and the like take for an expression."""


class NoBackend:
    """What a traced program finds where a run has its backend. It may be handed on, not used."""


class TracingExecutor:
    """Takes the place of SGLang's `StreamExecutor` for one state of a traced program.

    Args:
        lane: where this state's steps go.
        refusals: of this trace.
        root: the code at which the author's frames end.
    """

    stream = False
    is_finished = True

    def __init__(self, lane: Lane, refusals: Refusals, root: Collection[CodeType]) -> None:
        self.sgl_spec_lane = lane
        self._refusals = refusals
        self._root = root
        self.variables: dict[str, Any] = {}
        self.backend = NoBackend()

    def submit(self, expression: Any) -> None:
        for written in append_expression(self.sgl_spec_lane, expression, self._lines()):
            self.variables[written.variable] = self._text(Inserted("variable", written.name))

    def _text(self, part: Inserted) -> TracedText:
        return TracedText((part,), self._refusals)

    def _lines(self) -> Lines:
        return tuple(user_lines(sys._getframe(1), self._root)) or (NOWHERE,)

    def get_var(self, name: str) -> Any:
        if name not in self.variables:
            self._refusals.refuse("reads", f"`{name}`, which nothing has generated yet,")
        return self.variables[name]

    def set_var(self, name: str, value: Any) -> None:
        self.variables[name] = value

    def fork(self, size: int = 1, position_ids_offset: list[int] | None = None) -> list[TracingExecutor]:
        lanes = self.sgl_spec_lane.fork(int(size), self._lines())
        copies = [TracingExecutor(lane, self._refusals, self._root) for lane in lanes]
        for one in copies:
            one.variables = dict(self.variables)
        return copies

    def sync(self) -> None:
        """Nothing is under way."""

    def end(self) -> None:
        """Called by a join for each branch, and by a state that is no longer used."""
        if sys._getframe(1).f_code is JOIN:
            self.sgl_spec_lane.join("gather_variable", self._lines())

    def text(self) -> TracedText:
        return self._text(COMPUTED)

    def messages(self) -> NoReturn:
        self._refusals.refuse("reads", "the messages so far")

    def error(self) -> NoReturn:
        self._refusals.refuse("reads", "the error of a run")

    def get_meta_info(self, name: str, timeout: float | None = None) -> NoReturn:
        self._refusals.refuse("reads", f"what the server reported about `{name}`")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self._refusals.refuse("reads", f"`stream_executor.{name}`, which only a run has,")


class CalledState:
    """What running another function gives a traced program: its variables, as stand-ins."""

    def __init__(self, program: str, refusals: Refusals) -> None:
        self._program = program
        self._refusals = refusals

    def get_var(self, name: str) -> TracedText:
        return TracedText((Inserted("call", f"{self._program}.{name}"),), self._refusals)

    __getitem__ = get_var

    def text(self) -> TracedText:
        return TracedText((COMPUTED,), self._refusals)

    def sync(self) -> None:
        """Nothing is under way."""

    @property
    def ret_value(self) -> TracedText:
        return self.text()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self._refusals.refuse("uses", f"`.{name}` of a run of {self._program}, which only a run has,")

    def __contains__(self, name: str) -> bool:
        raise self._refusals.refuse("looks for", f"`{name}` in a run of {self._program}")


def new_state(executor: TracingExecutor) -> ProgramState:
    """SGLang's own state on top of a tracing executor."""
    return ProgramState(executor)


def refused(error: Exception, where: str) -> TraceError:
    """What an error of the program itself becomes."""
    return TraceError(f"the program raised {type(error).__name__} at {where} while it was traced: {error}", where=where)
