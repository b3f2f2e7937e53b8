"""Which program, and which of its slots, a call to the backend comes from.

Stands before the round: what it finds becomes the hint. SGLang tells a backend neither, so both are read from the
interpreter's own frames, identified by their code objects (never by file or function name alone):

- A run's executor asks the backend for its chat template from its constructor, called by `run_program`, which holds the
  program. We note the program's name on that run's default sampling parameters: an object that SGLang makes anew for
  each `run` and `run_batch` and hands to every fork, and whose copies reach `generate`. Nothing posted reads it.
- `generate` and `select` are called by `_execute_gen` and `_execute_select`, which hold the expression with its name.

Where the frames are not there (another interpreter, a direct call) the program is None and the slot is an order.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from sglang.lang.interpreter import ProgramState, StreamExecutor, run_program

from sgl_spec.frontend.program_file import PROGRAM_FILE_PREFIX

_NOTE = "sgl_spec_program"
_EXECUTING = (StreamExecutor._execute_gen.__code__, StreamExecutor._execute_select.__code__)
_CONSTRUCTOR = StreamExecutor.__init__.__code__
_COLLECTED = {one.__del__.__code__: one for one in (StreamExecutor, ProgramState)}
_MAX_FRAMES = 8
_FRAMES_TO_COLLECTOR = 5  # end_run, end_program, end, a subclass's end, __del__: further up is what it interrupted


def note_program() -> None:
    """Called from a backend's `get_chat_template`: notes the running program's name on its run."""
    frame = frame_running(sys._getframe(1), (run_program.__code__,))
    if frame is None:
        return
    held = frame.f_locals
    setattr(held["default_sampling_para"], _NOTE, program_name(held["program"].func))


def executor_being_made() -> StreamExecutor | None:
    """Called from a backend's `get_chat_template`: the executor whose constructor asks for it; None when none does."""
    frame = frame_running(sys._getframe(1), (_CONSTRUCTOR,))
    return frame.f_locals["self"] if frame is not None else None


def collected() -> type | None:
    """Called from a backend's `end_program`: the class of what is being collected; None when a program ends it."""
    frame = frame_running(sys._getframe(1), tuple(_COLLECTED), most=_FRAMES_TO_COLLECTOR)
    return _COLLECTED[frame.f_code] if frame is not None else None


def noted_program(executor: StreamExecutor) -> str | None:
    """The name of the program this executor, or the executor it was forked from, runs."""
    return getattr(executor.default_sampling_para, _NOTE, None)


def program_name(function: Any) -> str:
    """A name that is the same however the program was started: `module.qualname`, a script's module being its stem."""
    module = str(getattr(function, "__module__", None))
    if module == "__main__" and hasattr(function, "__code__"):
        module = Path(function.__code__.co_filename).stem
    qualname = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{module.removeprefix(PROGRAM_FILE_PREFIX)}.{qualname}"


class SlotCall(NamedTuple):
    """A call: its slot's name, and the `gen` or `select` expression it runs (None where that cannot be seen)."""

    slot: str
    expression: Any


class SlotNames:
    """Names each call: the `gen`'s own name, or its order (from 1) among the calls of its executor.

    A fork counts its own calls from 1, under `fork`, so the order does not depend on which fork is faster.
    """

    def __init__(self) -> None:
        self._counts: WeakKeyDictionary[StreamExecutor, int] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def next(self, executor: StreamExecutor) -> SlotCall:
        """The call that `executor` is making now. Counts it, so ask once a call."""
        with self._lock:
            order = self._counts[executor] = self._counts.get(executor, 0) + 1
        frame = frame_running(sys._getframe(1), _EXECUTING)
        expression = frame.f_locals["expr"] if frame is not None else None
        if expression is not None and expression.name:
            return SlotCall(str(expression.name), expression)
        return SlotCall(f"#{order}" if executor.fork_start_text_pos is None else f"fork#{order}", expression)


def frame_running(frame: FrameType | None, codes: tuple[CodeType, ...], most: int = _MAX_FRAMES) -> FrameType | None:
    """The innermost frame, of the `most` from `frame` outwards, that runs one of these codes."""
    for _ in range(most):
        if frame is None or frame.f_code in codes:
            return frame
        frame = frame.f_back
    return None
