"""Starts and ends a process with everything it starts. Knows nothing of SGLang; stdlib and psutil."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import time

import psutil

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def die_with_parent() -> None:
    """The calling process gets SIGKILL when the thread that started it ends (Linux; elsewhere nothing happens)."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Descendants whose parent dies become children of this process, so `end_tree` still finds them (Linux)."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def descendants(pid: int) -> list[psutil.Process]:
    """The live descendants of `pid`, itself not included; empty when it is gone."""
    try:
        return list(psutil.Process(pid).children(recursive=True))
    except psutil.NoSuchProcess:
        return []


def end_tree(pid: int, *, grace: float, itself: bool = True) -> None:
    """Ends `pid`'s whole tree: SIGTERM, `grace` seconds, SIGKILL until none is left.

    A process started while we look is found by the next look, if its parent lives or `adopt_orphans` was called.
    """
    tree = _tree(pid, itself)
    for process in tree:
        _signal(process, signal.SIGTERM)
    psutil.wait_procs(tree, timeout=grace)
    for _ in range(20):
        tree = _tree(pid, itself)
        if not tree:
            return
        for process in tree:
            _signal(process, signal.SIGKILL)
        psutil.wait_procs(tree, timeout=1.0)


def _tree(pid: int, itself: bool) -> list[psutil.Process]:
    found = descendants(pid)
    if itself and psutil.pid_exists(pid):
        found.append(psutil.Process(pid))
    return [process for process in found if _alive(process)]


def _alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _signal(process: psutil.Process, number: int) -> None:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def is_port_free(port: int) -> bool:
    """Whether a server could listen on this port of 127.0.0.1 now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def wait_until_port_free(port: int, seconds: float) -> bool:
    """Waits at most `seconds`; whether the port is free at the end."""
    deadline = time.monotonic() + seconds
    while not (free := is_port_free(port)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return free


def parent_is(pid: int) -> bool:
    """Whether the calling process is still a child of `pid`."""
    return os.getppid() == pid
