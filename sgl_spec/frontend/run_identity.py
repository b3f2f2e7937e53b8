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

from sglang.lang.interpreter import StreamExecutor, run_program

from sgl_spec.frontend.program_file import PROGRAM_FILE_PREFIX

_NOTE = "sgl_spec_program"
_EXECUTING = (StreamExecutor._execute_gen.__code__, StreamExecutor._execute_select.__code__)
_MAX_FRAMES = 8


def note_program() -> None:
    """Called from a backend's `get_chat_template`: notes the running program's name on its run."""
    frame = _frame_running(sys._getframe(1), (run_program.__code__,))
    if frame is None:
        return
    held = frame.f_locals
    setattr(held["default_sampling_para"], _NOTE, program_name(held["program"].func))


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
        frame = _frame_running(sys._getframe(1), _EXECUTING)
        expression = frame.f_locals["expr"] if frame is not None else None
        if expression is not None and expression.name:
            return SlotCall(str(expression.name), expression)
        return SlotCall(f"#{order}" if executor.fork_start_text_pos is None else f"fork#{order}", expression)


def _frame_running(frame: FrameType | None, codes: tuple[CodeType, ...]) -> FrameType | None:
    for _ in range(_MAX_FRAMES):
        if frame is None or frame.f_code in codes:
            return frame
        frame = frame.f_back
    return None
