"""Several servers up together, so that requests of all modes can be interleaved prompt by prompt."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from sgl_spec.cli.bench.modes import Mode
from sgl_spec.cli.server_command import ServerCommand, ServerRequest, build_server_command
from sgl_spec.cli.server_process import ServerProcess, running


class FleetPlan(NamedTuple):
    """What all servers of a fleet share: the model, where they run, and SGLang flags from the user."""

    model: str
    on_cpu: bool
    cores: int
    user_flags: tuple[str, ...] = ()


class Server(NamedTuple):
    """A running server as one mode uses it; modes that differ by their hints alone have the same `command`."""

    mode: Mode
    command: ServerCommand

    @property
    def url(self) -> str:
        """Its address."""
        return self.command.url


@contextlib.contextmanager
def open_fleet(modes: Sequence[Mode], plan: FleetPlan) -> Iterator[tuple[Server, ...]]:
    """Starts the servers the modes run on, each once the one before it answers; stops them all on the way out.

    Yields a `Server` per mode, in the modes' order. The servers do not start all at once: a starting one takes the fall
    of free memory while it loads for its own use, and gives up when a neighbour's loading leaves "no memory" for its
    cache.

    Raises:
        ServerUnavailable: one of them did not come up; the message holds the end of its log.
    """
    launched_as = {mode.server: mode for mode in modes}
    commands = {name: _command(mode, plan) for name, mode in launched_as.items()}
    with tempfile.TemporaryDirectory(prefix="sgl-spec-") as logs, contextlib.ExitStack() as stack:
        for name, command in commands.items():
            process = ServerProcess(command, Path(logs) / f"{name}.log")
            stack.enter_context(running(process))
            _wait(name, process)
        yield tuple(Server(mode, commands[mode.server]) for mode in modes)


def _command(mode: Mode, plan: FleetPlan) -> ServerCommand:
    request = ServerRequest(mode.algorithm, None, (*mode.flags, *plan.user_flags), plan.model, plan.on_cpu, plan.cores)
    return build_server_command(request, dict(os.environ))


def _wait(name: str, process: ServerProcess) -> None:
    shown = 0.0

    def waiting(seconds: float) -> None:
        nonlocal shown
        if seconds - shown >= 10:
            shown = seconds
            print(f"waiting for the server '{name}' ({seconds:.0f} s) ...", file=sys.stderr, flush=True)

    process.wait_ready(waiting=waiting)
    print(f"server '{name}' is ready at {process.command.url}", file=sys.stderr, flush=True)
