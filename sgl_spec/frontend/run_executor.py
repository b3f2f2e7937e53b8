"""The executor of each run on an `Endpoint`: SGLang's own, with forks, streams and the prompt's warmth kept right.

Stands before the rounds. Nothing is patched: an executor that SGLang makes for a run becomes one of these while it is
constructed, as a recorded or a failed one does.
"""

from __future__ import annotations

import threading
from typing import Any

from sglang.lang.interpreter import StreamExecutor
from sglang.lang.ir import SglSeparateReasoning, SglVarScopeEnd

from sgl_spec.errors import ConfigError
from sgl_spec.program.prefix_plan import warms


class RunExecutor(StreamExecutor):
    """An executor that knows its forks. Made from the one SGLang made by `take`, never constructed.

    Attributes:
        sgl_spec_forks: the executors forked from this one, in order.
        sgl_spec_sharers: how many forks the next prefill is for.
        sgl_spec_hot: how many characters of its text the server has computed before, as far as we know.
    """

    sgl_spec_forks: list[StreamExecutor]
    sgl_spec_sharers: int
    sgl_spec_hot: int

    @classmethod
    def take(cls, executor: StreamExecutor, hot: int = 0) -> None:
        """Turns `executor` into one of this class."""
        executor.sgl_spec_forks, executor.sgl_spec_sharers, executor.sgl_spec_hot = [], 1, hot
        # Which methods an object has is all that changes; its thread, queue and text stay as they are.
        executor.__class__ = cls

    def fork(self, size: int = 1, position_ids_offset: list[int] | None = None) -> Any:
        """SGLang looks at the text before what was appended last is in it; so that is waited for first."""
        self.sync()
        self.raise_if_failed()
        self.sgl_spec_sharers = int(size)
        executors = super().fork(size, position_ids_offset)
        self.raise_if_failed()
        for executor in executors:
            RunExecutor.take(executor, self.sgl_spec_hot)
            _know_variables(executor)
        self.sgl_spec_forks += executors
        return executors

    def is_cold(self, sharers: int, worth: int) -> bool:
        """Whether so much of its text is new to the server that computing it once pays for that request."""
        return warms(self.text_[self.sgl_spec_hot :], sharers, worth)

    def raise_if_failed(self) -> None:
        """Raises what a call of this executor failed with; of a failed one, in its class."""

    def all_forks(self) -> list[StreamExecutor]:
        """The forks of this executor and theirs, each after the one it was forked from."""
        found: list[StreamExecutor] = []
        for fork in self.sgl_spec_forks:
            found += [fork, *(fork.all_forks() if isinstance(fork, RunExecutor) else ())]
        return found

    def _execute(self, other: Any) -> None:
        """An error of the interpreter's own makes a failed executor of this one, as a server's does."""
        try:
            super()._execute(other)
        except Exception as error:
            # That class is one of these.
            from sgl_spec.frontend.failed_executor import FailedExecutor

            if not isinstance(self, FailedExecutor):
                FailedExecutor.fail(self, error, None)
            raise

    def _execute_var_scope_end(self, expr: SglVarScopeEnd) -> None:
        super()._execute_var_scope_end(expr)
        if self.stream_var_event:
            self.stream_var_event[expr.name].set()  # whoever streams the scope's text waits for this

    def _execute_separate_reasoning(self, expr: SglSeparateReasoning) -> None:
        if self.stream:
            raise ConfigError("separate_reasoning: SGLang cannot split a stream; run without stream=True")
        super()._execute_separate_reasoning(expr)


def _know_variables(fork: StreamExecutor) -> None:
    """Whoever streams a variable that the fork was born with gets it at once; SGLang would spin until the fork ends."""
    if not fork.stream:
        return
    for name in fork.variables:
        for events in (fork.stream_var_event, fork.variable_event):
            events[name] = threading.Event()
            events[name].set()
