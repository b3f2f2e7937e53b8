"""Runs one SGLang server as a child: start, wait until it answers, stop it with everything it started.

The child gets its own process group, so a Ctrl-C in the terminal reaches only us and we decide the order of things.
On Linux the kernel also ends it when we are killed without a chance to clean up.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
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
PR_SET_PDEATHSIG = 1

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
        """The server's main process. Raises ServerUnavailable when it was never started."""
        return self._started().pid

    def start(self) -> None:
        """Starts the child and returns at once. Call it from the main thread (see `_die_with_parent`)."""
        with signals_held(), self._output() as output:
            self._process = subprocess.Popen(
                self.command.argv,
                env={**os.environ, **self.command.env},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_child_setup(),
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
def running(servers: list[ServerProcess]) -> Iterator[None]:
    """Starts the servers together and stops them all on the way out, however that comes about."""
    try:
        for server in servers:
            server.start()
        yield
    finally:
        with signals_held():
            for server in servers:
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


def _end_tree(process: subprocess.Popen[bytes]) -> None:
    from sgl_spec.frontend.process_tree import end_tree

    end_tree(process.pid, grace=STOP_GRACE_S)
    # When the server's main process died first, its children belong to init and only the group still names them.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _child_setup() -> Callable[[], None] | None:
    """What the child does before it becomes the server; None where the system offers no such thing."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl  # looked up before the fork: the child must not load anything

    def setup() -> None:
        # The kernel ties this to the *thread* that started the child, hence "from the main thread".
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    return setup
