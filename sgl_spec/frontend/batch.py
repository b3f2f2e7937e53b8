"""A `run_batch` on an `Endpoint`: which of its runs failed, said at its end instead of the first failure alone.

Stands around the rounds of many runs. SGLang tells a backend nothing of a batch; that one begins is read from its own
frames, as in `run_identity`, and noted on the sampling parameters that the batch's runs share.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from sglang.lang.interpreter import ProgramState, StreamExecutor, cache_program, run_program, run_program_batch
from sglang.lang.ir import SglFunction

from sgl_spec.errors import BatchError, RunFailure
from sgl_spec.frontend.run_identity import frame_running

_NOTE = "sgl_spec_batch"


class Batch:
    """The runs of one batch: what became of each.

    Args:
        arguments: of each run, the very dicts that SGLang runs the program with.
        keeps_states: False for a batch whose caller takes the states one by one, and may let them go.
    """

    def __init__(
        self, program: SglFunction, arguments: Sequence[Mapping[str, Any]], *, keeps_states: bool = True
    ) -> None:
        self.program = program
        self.arguments = arguments
        self._keeps_states = keeps_states
        self._places: dict[int, deque[int]] = {}  # of runs not yet ended; a batch may hold one dict several times
        for index, one in enumerate(arguments):
            self._places.setdefault(id(one), deque()).append(index)
        self._left = len(arguments)
        self._failures: list[RunFailure] = []
        self._states: dict[int, ProgramState] = {}
        self._lock = threading.Lock()

    def __deepcopy__(self, memo: object) -> Batch:
        return self  # SGLang copies the parameters it is noted on for each call

    def failed(self, arguments: Mapping[str, Any], error: Exception) -> BatchError:
        """What the run with these arguments is to raise."""
        with self._lock:
            index = self._ends(arguments)
            self._failures.append(RunFailure(index, error))
        return BatchError(self._failures, self._states, len(self.arguments))

    def done(self, arguments: Mapping[str, Any], state: ProgramState) -> None:
        with self._lock:
            index = self._ends(arguments)
            if self._keeps_states:
                self._states[index] = state
            if not self._left and not self._failures:
                self._states.clear()  # its caller has them; here they would only keep one another

    def _ends(self, arguments: Mapping[str, Any]) -> int:
        self._left -= 1
        return self._places[id(arguments)].popleft()


def beginning_batch() -> Batch | None:
    """Called from a backend's `get_chat_template`: notes the batch that SGLang is about to run; None when it is not.

    SGLang asks for the template while it looks for a literal prefix to cache, once for a batch of at least two runs
    (unless `global_config.enable_precache_with_tracing` is off).
    """
    frame = frame_running(sys._getframe(1), (cache_program.__code__,))
    caller = frame.f_back if frame is not None else None
    if caller is None or caller.f_code is not run_program_batch.__code__:
        return None
    held = caller.f_locals
    batch = Batch(held["program"], held["batch_arguments"], keeps_states=not held["generator_style"])
    setattr(held["default_sampling_para"], _NOTE, batch)
    return batch


def end_in_batch(executor: StreamExecutor, error: Exception | None) -> None:
    """Called at the end of every run: tells its batch, if it has one.

    Args:
        error: what the run failed with.

    Raises:
        BatchError: for a failed run of a batch, in place of `error`.
    """
    batch: Batch | None = getattr(executor.default_sampling_para, _NOTE, None)
    frame = frame_running(sys._getframe(1), (run_program.__code__,))
    if batch is None or frame is None or frame.f_locals.get("stream_executor") is not executor:
        return
    if error is not None:
        raise batch.failed(frame.f_locals["func_kwargs"], error) from error
    batch.done(frame.f_locals["func_kwargs"], frame.f_locals["state"])
