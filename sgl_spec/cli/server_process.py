"""Runs one SGLang server as a child: start, wait until it answers, stop it with everything it started.

The server runs under `frontend.guard`, in its own process group: a Ctrl-C in the terminal then reaches only us and we
decide the order of things, and when we are killed without a chance to clean up, the guard ends the server's whole tree.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from sgl_spec.cli.server_command import ServerCommand
from sgl_spec.cli.signals import signals_held
from sgl_spec.errors import ServerUnavailable

START_TIMEOUT_S = 600.0
STOP_GRACE_S = 1.0
POLL_S = 0.25
LOG_LINES = 20

Waiting = Callable[[float], None]


class ServerProcess:
    """A server that may be starting, ready or stopped.

    Args:
        command: what to run.
        log_file: where its output goes; None sends it to our stderr.
    """

    def __init__(self, command: ServerCommand, log_file: Path | None = None) -> None:
        self.command = command
        self.log_file = log_file
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The server's main process, below its guard. Raises ServerUnavailable when there is none."""
        from sgl_spec.frontend.process_tree import descendants

        family = descendants(self._started().pid)
        if not family:
            raise ServerUnavailable(self._told("The server is not running"))
        return int(family[0].pid)

    def start(self) -> None:
        """Starts the server and returns at once."""
        with signals_held(), self._output() as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "sgl_spec.frontend.guard", str(os.getpid()), *self.command.argv],
                env={**os.environ, **self.command.env},
                stdin=subprocess.PIPE,  # its end of file tells the guard to stop
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_ready(self, timeout_s: float = START_TIMEOUT_S, waiting: Waiting | None = None) -> None:
        """Returns once the server answers its health check.

        Args:
            timeout_s: seconds to wait at most.
            waiting: called at each poll with the seconds waited so far.

        Raises:
            ServerUnavailable: it stopped or took too long; the message holds the end of its log.
        """
        began = time.monotonic()
        while not _answers(self.command.url + "/health"):
            waited = time.monotonic() - began
            self._check_alive("while starting")
            if waited > timeout_s:
                raise ServerUnavailable(self._told(f"The server did not answer within {timeout_s:.0f} s"))
            if waiting is not None:
                waiting(waited)
            time.sleep(POLL_S)

    def wait(self) -> int:
        """Blocks until the server ends by itself and returns its exit code."""
        return self._started().wait()

    def stop(self) -> None:
        """Ends the server and all its descendants; returns when none is left. Safe to call twice."""
        if self._process is None:
            return
        with signals_held():
            _end_tree(self._process)

    def _check_alive(self, when: str) -> None:
        code = self._started().poll()
        if code is not None:
            raise ServerUnavailable(self._told(f"The server stopped {when} (exit code {code})"))

    def _told(self, what: str) -> str:
        if self.log_file is None:
            return f"{what}. Its log is above."
        return f"{what}. The end of its log ({self.log_file}):\n{tail(self.log_file)}"

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise ServerUnavailable("The server was not started.")
        return self._process

    @contextlib.contextmanager
    def _output(self) -> Iterator[IO[Any]]:
        if self.log_file is None:
            yield sys.stderr
            return
        try:
            stream = self.log_file.open("wb")
        except OSError as error:
            raise ServerUnavailable(f"The log file {self.log_file} cannot be written: {error.strerror}.") from error
        with stream:
            yield stream


@contextlib.contextmanager
def running(server: ServerProcess) -> Iterator[None]:
    """Starts the server and stops it on the way out, however that comes about."""
    try:
        server.start()
        yield
    finally:
        server.stop()


def tail(path: Path, lines: int = LOG_LINES) -> str:
    """The last lines of a text file, indented; empty when it cannot be read."""
    try:
        text = path.read_bytes()[-64 * 1024 :].decode(errors="replace")
    except OSError:
        return ""
    return "\n".join("  " + line for line in text.splitlines()[-lines:])


def _answers(url: str) -> bool:
    import urllib.request

    try:
        # A proxy set in the environment must not be asked for a server on this machine.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(url, timeout=30) as reply:
            return bool(reply.status == 200)
    except OSError:  # refused, reset, timed out, or answered 503: all mean "not yet"
        return False


def _end_tree(guard: subprocess.Popen[bytes]) -> None:
    from sgl_spec.frontend.process_tree import end_tree

    # The guard stays until its tree is gone: processes that lose their parent become its children, so all are found.
    end_tree(guard.pid, grace=STOP_GRACE_S, itself=False)
    assert guard.stdin is not None
    guard.stdin.close()
    guard.wait()
