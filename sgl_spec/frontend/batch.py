"""A `run_batch` on an `Endpoint`: what its runs share is computed once, and every run that failed is told at its end.

Stands around the rounds of many runs. SGLang tells a backend nothing of a batch; that one begins is read from its own
frames, as in `run_identity`, and noted on the sampling parameters that the batch's runs share.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

from sglang.lang.interpreter import ProgramState, StreamExecutor, cache_program, run_program, run_program_batch
from sglang.lang.ir import SglFunction

from sgl_spec.errors import BatchError, RunFailure
from sgl_spec.frontend.read_function import read_beginning
from sgl_spec.frontend.run_identity import frame_running
from sgl_spec.program.prefix_plan import PrefixGroup, leading_text, plan_prefixes
from sgl_spec.program.text_walk import RoleTexts

if TYPE_CHECKING:
    from sgl_spec.program.graph import ProgramGraph

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
        self._warm = threading.Lock()
        self._groups: dict[int, PrefixGroup] = {}
        self._hot: set[str] = set()
        self.planned = False

    def plan(self, graph: ProgramGraph, roles: RoleTexts) -> None:
        """Finds what its runs share, in the graph and their arguments."""
        bound = self.program.bind_arguments
        texts = [leading_text(graph, roles, {**one, **bound}) for one in self.arguments]
        by_run = {run: group for group in plan_prefixes(texts) for run in group.runs}
        self._groups = {id(one): by_run[run] for run, one in enumerate(self.arguments)}
        self.planned = True

    def enter(self, arguments: Mapping[str, Any], compute: Callable[[str], None]) -> int:
        """Called as a run begins: has what it shares computed, unless that was done; returns how many characters.

        One prefix at a time: the runs that wait for one are sent before the next is computed.
        """
        group = self._groups.get(id(arguments))
        if group is None or not group.prefix:
            return 0
        with self._warm:
            if group.prefix not in self._hot:
                compute(group.prefix)
                self._hot.add(group.prefix)
        return len(group.prefix)

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


def run_in_order(
    program: SglFunction, arguments: Sequence[Mapping[str, Any]], roles: RoleTexts, options: Mapping[str, Any]
) -> list[ProgramState]:
    """The program's `run_batch` with sharers of a prefix side by side; the states as if in the order given.

    Raises:
        BatchError: as `run_batch` does, by places in the order given.
    """
    given = [dict(one) for one in arguments]
    order = list(range(len(given)))
    if (graph := read_beginning(program)) is not None:
        texts = [leading_text(graph, roles, {**one, **program.bind_arguments}) for one in given]
        order = [run for group in plan_prefixes(texts) for run in group.runs]
    try:
        states = program.run_batch([given[run] for run in order], **options)
    except BatchError as error:
        failures = [RunFailure(order[index], one) for index, one in error.failures]
        raise BatchError(failures, dict(zip(order, error.states, strict=True)), len(order)) from error
    by_place = dict(zip(order, states, strict=True))
    return [by_place[run] for run in range(len(order))]


def batch_to_cache() -> Batch | None:
    """Called from a backend's `cache_prefix`: the batch that SGLang asks it for; None when somebody else asks."""
    caller = _batch_frame()
    return getattr(caller.f_locals["default_sampling_para"], _NOTE, None) if caller is not None else None


def enter_batch(executor: StreamExecutor, compute: Callable[[str], None]) -> int:
    """Called from a backend's `get_chat_template`, for a root: how many characters its batch had computed."""
    batch: Batch | None = getattr(executor.default_sampling_para, _NOTE, None)
    frame = frame_running(sys._getframe(1), (run_program.__code__,))
    if batch is None or frame is None or frame.f_locals["default_sampling_para"] is not executor.default_sampling_para:
        return 0
    return batch.enter(frame.f_locals["func_kwargs"], compute)


def _batch_frame() -> FrameType | None:
    frame = frame_running(sys._getframe(2), (cache_program.__code__,))
    caller = frame.f_back if frame is not None else None
    return caller if caller is not None and caller.f_code is run_program_batch.__code__ else None


def beginning_batch() -> Batch | None:
    """Called from a backend's `get_chat_template`: notes the batch that SGLang is about to run; None when it is not.

    SGLang asks for the template while it looks for a literal prefix to cache, once for a batch of at least two runs
    (unless `global_config.enable_precache_with_tracing` is off).
    """
    caller = _batch_frame()
    if caller is None or hasattr(caller.f_locals["default_sampling_para"], _NOTE):
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
