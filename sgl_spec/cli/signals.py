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
    """Holds Ctrl-C, SIGTERM and SIGHUP back while something must be finished; they arrive afterwards.

    By handlers, not by a mask: a process started meanwhile would inherit the mask and be deaf to SIGTERM for good.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    # What is ignored (`nohup`) stays ignored, here and in the processes we start.
    listened = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    old = {number: signal.signal(number, lambda got, frame: came.append(got)) for number in listened}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


def _raise(number: int, frame: FrameType | None) -> None:
    raise Terminated(signal.Signals(number).name)
