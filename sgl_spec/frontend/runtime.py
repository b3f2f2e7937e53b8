"""`Runtime`: a server of one's own, for as long as a Python program needs it.

Launches `sgl-spec serve` in its own process group, waits until it is ready, and ends it with all its processes on
`stop`, at the end of a `with` block, at exit, and when this process dies in any way (`guard.py` sees to that).
Stands outside the round: it starts the server in which rounds run.
"""

from __future__ import annotations

import atexit
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from sgl_spec.errors import ConfigError, ServerUnavailable
from sgl_spec.frontend.process_tree import end_tree, free_port, wait_until_port_free

if TYPE_CHECKING:
    from sgl_spec.frontend.endpoint import Endpoint

READY_PREFIX = "sgl-spec ready "
_LOOK_SECONDS = 0.2
_PROGRESS_SECONDS = 2.0
_STOP_SECONDS = 15.0
_TAIL_LINES = 15


class Waiting(NamedTuple):
    """Where a start stands: seconds since the launch, and the last line of the server's log ("" so far none)."""

    seconds: float
    last_line: str


class Runtime:
    """A server started by this process and stopped with it. Blocks until the server is ready.

    Args:
        off: serve without speculation.
        port: a free one by default.
        start_timeout: seconds to wait for readiness (the first start of the bundled model also converts it).
        log_path: the server's output; by default a temporary file, removed when the server stops without a fault.
        progress: called about every two seconds while waiting; by default a dot on stderr when that is a terminal.
        server_args: any SGLang server argument, `model_path="..."`, `disable_radix_cache=True`, `tp_size=2`. True is
            the bare flag, None and False leave it out, a list becomes several values, a dict becomes JSON.

    Raises:
        ConfigError: an argument cannot be written as a flag.
        ServerUnavailable: the server ended or was not ready in time; the message ends with its last lines.
    """

    def __init__(
        self,
        *,
        off: bool = False,
        port: int | None = None,
        start_timeout: float = 900.0,
        log_path: Path | str | None = None,
        progress: Callable[[Waiting], None] | None = None,
        **server_args: Any,
    ) -> None:
        self.port = free_port() if port is None else port
        self.url = f"http://127.0.0.1:{self.port}"
        command = serve_command(self.port, off=off, server_args=server_args)
        self._own_log = log_path is None
        self.log_path = Path(log_path) if log_path is not None else _temporary_log()
        self._stopped, self._owner = False, os.getpid()
        self._stop_lock = threading.Lock()
        self._lines: queue.Queue[str] = queue.Queue()
        self._guard = _launch(command, self.log_path)
        atexit.register(self.stop)
        # The thread reads until the server ends: a full pipe would stall it.
        threading.Thread(target=_drain, args=(self._guard.stdout, self._lines, self.log_path), daemon=True).start()
        try:
            self._wait_until_ready(start_timeout, progress or _dots)
        except BaseException:
            self._own_log = False  # the log is what explains the failure
            self._end()
            raise

    @cached_property
    def endpoint(self) -> Endpoint:
        """An `Endpoint` of this server; SGLang also takes the Runtime itself as a backend.

        `runtime.endpoint(speculate=False)` makes another one, with other options and its own record of calls.
        """
        from sgl_spec.frontend.endpoint import Endpoint

        return Endpoint(self.url)

    def stop(self) -> None:
        """Ends the server and every process it started, and waits until the port is free. Safe to call again.

        Raises:
            ServerUnavailable: the port is still taken afterwards.
        """
        if not self._end():
            return
        if not wait_until_port_free(self.port, _STOP_SECONDS):
            raise ServerUnavailable(
                f"port {self.port} is still taken though our server has ended: something else listens there"
            )

    def _end(self) -> bool:
        """Ends the processes; whether there was anything to end."""
        with self._stop_lock:
            if self._stopped or os.getpid() != self._owner:  # a fork of our process has no say over the server
                return False
            self._stopped = True
        atexit.unregister(self.stop)
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        try:
            self._guard.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            end_tree(self._guard.pid, grace=1.0)
            self._guard.wait()
        if self._own_log:
            self.log_path.unlink(missing_ok=True)
        return True

    def __enter__(self) -> Runtime:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def _wait_until_ready(self, timeout: float, progress: Callable[[Waiting], None]) -> None:
        begin, reported = time.monotonic(), 0.0
        while True:
            if self._saw_ready_line():
                return
            seconds = time.monotonic() - begin
            if (status := self._guard.poll()) is not None and self._lines.empty():
                raise ServerUnavailable(self._obituary(f"the server ended with status {status} before it was ready"))
            if seconds > timeout:
                raise ServerUnavailable(self._obituary(f"the server was not ready after {timeout:g} s"))
            if seconds - reported >= _PROGRESS_SECONDS:
                reported = seconds
                progress(Waiting(seconds, (_tail(self.log_path, 1) or [""])[-1]))

    def _saw_ready_line(self) -> bool:
        try:
            return self._lines.get(timeout=_LOOK_SECONDS).startswith(READY_PREFIX)
        except queue.Empty:
            return False

    def _obituary(self, what: str) -> str:
        lines = "\n".join(f"  {line}" for line in _tail(self.log_path, _TAIL_LINES)) or "  (the log is empty)"
        return f"{what}; the end of its log ({self.log_path}):\n{lines}"


def serve_command(port: int, *, off: bool, server_args: Mapping[str, Any]) -> list[str]:
    """The command line of `sgl-spec serve` for these settings, run by this very interpreter."""
    command = [sys.executable, "-m", "sgl_spec.cli", "serve", "--port", str(port)]
    if off:
        command.append("--off")
    for name, value in server_args.items():
        command += _flag(name, value)
    return command


def _flag(name: str, value: Any) -> list[str]:
    flag = "--" + name.replace("_", "-")
    match value:
        case None | False:
            return []
        case True:
            return [flag]
        case Mapping():
            return [flag, json.dumps(value)]
        case list() | tuple():
            return [flag, *(str(item) for item in value)]
        case str() | int() | float() | Path():
            return [flag, str(value)]
    raise ConfigError(f"{name}: {value!r} cannot be written as a server flag; use a string, number, bool, list or dict")


def _launch(command: list[str], log_path: Path) -> subprocess.Popen[str]:
    guarded = [sys.executable, "-m", "sgl_spec.frontend.guard", str(os.getpid()), *command]
    with log_path.open("a", encoding="utf-8") as log:
        return subprocess.Popen(
            guarded,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,  # Ctrl-C in the terminal reaches us only, and we stop it in order
        )


def _drain(stdout: IO[str], lines: queue.Queue[str], log_path: Path) -> None:
    with stdout, log_path.open("a", encoding="utf-8") as log:
        for line in stdout:
            log.write(line)
            log.flush()
            if line.startswith(READY_PREFIX):
                lines.put(line)


def _temporary_log() -> Path:
    handle, name = tempfile.mkstemp(prefix="sgl-spec-serve-", suffix=".log")
    os.close(handle)
    return Path(name)


def _tail(path: Path, count: int) -> list[str]:
    """The last non-empty lines of a log, read from its last 64 KiB."""
    with path.open("rb") as log:
        log.seek(max(path.stat().st_size - 65536, 0))
        text = log.read().decode("utf-8", errors="replace")
    return [line for line in text.splitlines() if line.strip()][-count:]


def _dots(waiting: Waiting) -> None:
    del waiting
    if sys.stderr.isatty():
        print(".", end="", file=sys.stderr, flush=True)
