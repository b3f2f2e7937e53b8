"""The end of a run, or of a fork: the last moment at which a call's error can be raised to whoever started it.

Stands after the rounds. A root waits for its own calls and its forks'; what nobody read is then raised, once.
"""

from __future__ import annotations

import sys
import threading
import warnings

from sglang.lang.interpreter import StreamExecutor

from sgl_spec.frontend.batch import end_in_batch
from sgl_spec.frontend.failed_executor import FailedExecutor
from sgl_spec.frontend.run_executor import RunExecutor
from sgl_spec.frontend.run_identity import collected

_ENDED, _QUIET = "_sgl_spec_ended", "_sgl_spec_quiet"


def end_run(executor: StreamExecutor, *, wait: bool) -> None:
    """Called whenever an executor ends: by its program or a join, and again when its state and itself are collected.

    Args:
        wait: for the calls still under way, of a root.

    Raises:
        What a call of it, or of a fork that nobody read, failed with. From a collection nothing can be raised: what
        nobody could be told by then is warned of.
    """
    if executor.stream:
        return
    if (by := collected()) is not None:
        if by is StreamExecutor:  # of a state: its executor may still be waited for
            _tell_unread(executor)
        return
    if hasattr(executor, _ENDED):
        return
    setattr(executor, _ENDED, True)
    if executor.fork_start_text_pos is not None:
        _raise_unseen(executor)
        return
    try:
        _end_root(executor, wait=wait)
    except Exception as error:
        end_in_batch(executor, error)
        raise
    own = sys.exc_info()[1]  # what the program itself raised passes through here
    end_in_batch(executor, own if isinstance(own, Exception) else None)


def _end_root(executor: StreamExecutor, *, wait: bool) -> None:
    family = [executor, *(executor.all_forks() if isinstance(executor, RunExecutor) else ())]
    wait = wait and not _interrupted()
    for one in family if wait else ():
        _wait(one)
    try:
        for one in family:
            _raise_unseen(one)
    finally:
        if wait or _interrupted():  # one error is raised; the others are no news
            for one in family:
                setattr(one, _QUIET, True)


def _wait(executor: StreamExecutor) -> None:
    if not executor.use_thread or executor.worker is threading.current_thread():
        return
    if hasattr(executor, _ENDED):
        executor.worker.join()  # not its queue: a second end leaves something in it that nobody takes out
    else:
        executor.sync()  # not its thread, which goes on for as long as the program holds the fork


def _raise_unseen(executor: StreamExecutor) -> None:
    if executor.error_ is not None and not isinstance(executor, FailedExecutor):
        FailedExecutor.fail(executor, executor.error_, None)
    if isinstance(executor, FailedExecutor) and not executor.failure_seen:
        executor.raise_failure()


def _tell_unread(executor: StreamExecutor) -> None:
    if isinstance(executor, FailedExecutor) and not executor.failure_seen and not hasattr(executor, _QUIET):
        executor.failure_seen = True
        warnings.warn(f"a call failed, and nothing read its result: {executor.failure}", stacklevel=2)


def _interrupted() -> bool:
    """Whether Ctrl-C or an exit is passing through: then nobody wants to wait for the calls still under way."""
    return isinstance(sys.exc_info()[1], KeyboardInterrupt | SystemExit)
