"""What a program's executor becomes when a call to the server fails: every use of it raises that failure.

Stock SGLang ends the executor's thread on an error and leaves the rest to chance: a variable raises KeyError, a stream
ends as if it were complete, and whatever is submitted afterwards waits for ever. An executor of this class raises the
server's error instead, at once, from whichever of these the program or its caller does first.
"""

from __future__ import annotations

import threading
import warnings
from typing import Any, NoReturn

from sglang.lang.interpreter import StreamExecutor

from sgl_spec.errors import SglSpecError
from sgl_spec.frontend.run_executor import RunExecutor


class FailedExecutor(RunExecutor):
    """An executor whose call to the server failed. Made from the running one by `fail`, never constructed."""

    failure: BaseException
    failure_seen: bool

    @classmethod
    def fail(cls, executor: StreamExecutor, failure: BaseException, slot: str | None) -> None:
        """Turns `executor` into a failed one. Called on the executor's own thread, before it raises `failure`."""
        done = {name: value for name, value in executor.variables.items() if name != slot}
        executor.failure, executor.failure_seen = failure, False
        # A reader may be inside the stock `get_var` or `text_iter` already, which look in this dict when they wake.
        executor.variables = _RaisingVariables(done, executor)
        if isinstance(failure, SglSpecError):
            # It is raised to the caller, in a sentence; SGLang's copy with a traceback would be noise beside it.
            warnings.filterwarnings("ignore", r"(?s)Error in stream_executor:.*\bsgl_spec\.errors\.", UserWarning)
        # Which methods an object has is all that changes; its thread, queue and text stay as they are.
        executor.__class__ = cls

    def raise_failure(self) -> NoReturn:
        self.failure_seen = True
        raise self.failure

    def raise_if_failed(self) -> None:
        self.raise_failure()

    def submit(self, expr: Any) -> None:
        self.raise_failure()

    def get_var(self, name: str) -> Any:
        return self.variables[name]

    def get_meta_info(self, name: str, timeout: float | None = None) -> Any:
        if name not in self.meta_info or name not in self.variables:
            self.raise_failure()
        return self.meta_info[name]

    def fork(self, size: int = 1, position_ids_offset: list[int] | None = None) -> Any:
        self.raise_failure()

    def sync(self) -> None:
        """Waits for the executor's thread to end, not for its queue: nobody serves the queue any more."""
        if self.use_thread and self.worker is not threading.current_thread():
            self.worker.join()

    def text(self) -> str:
        self.raise_failure()

    def messages(self) -> list[Any]:
        self.raise_failure()

    def error(self) -> BaseException:
        return self.failure

    @property
    def is_finished(self) -> bool:
        """A stream's reader asks this after yielding the text that did arrive."""
        self.raise_failure()

    @is_finished.setter
    def is_finished(self, value: bool) -> None:
        del value


class _RaisingVariables(dict):  # type: ignore[type-arg]
    def __init__(self, values: dict[str, Any], executor: StreamExecutor) -> None:
        super().__init__(values)
        self._executor = executor

    def __missing__(self, name: str) -> NoReturn:
        FailedExecutor.raise_failure(self._executor)
