"""SIGTERM and a closed terminal become an exception, so that `finally` blocks stop the servers we started."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class Terminated(BaseException):
    """Somebody asked this process to end. Not an `Exception`: no handler of errors may swallow it."""


@contextlib.contextmanager
def raise_on_termination() -> Iterator[None]:
    """While active, SIGTERM and SIGHUP raise `Terminated` in the main thread. Elsewhere than there it does nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    old = {number: signal.signal(number, _raise) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def signals_held() -> Iterator[None]:
    """Holds Ctrl-C, SIGTERM and SIGHUP back while something must be finished; they arrive afterwards."""
    held = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, held)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _raise(number: int, frame: FrameType | None) -> None:
    raise Terminated(signal.Signals(number).name)
