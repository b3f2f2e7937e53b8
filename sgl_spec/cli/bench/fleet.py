"""Several servers up together, one per mode, so that their requests can be interleaved prompt by prompt."""

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
    """One running server of a fleet."""

    mode: Mode
    command: ServerCommand

    @property
    def url(self) -> str:
        """Its address."""
        return self.command.url


@contextlib.contextmanager
def open_fleet(modes: Sequence[Mode], plan: FleetPlan) -> Iterator[tuple[Server, ...]]:
    """Starts a server per mode, each once the one before it answers, and stops them all on the way out.

    Not all at once: a starting server takes the fall of free memory while it loads for its own use, and gives up when
    a neighbour's loading leaves "no memory" for its cache.

    Raises:
        ServerUnavailable: one of them did not come up; the message holds the end of its log.
    """
    servers = tuple(Server(mode, _command(mode, plan)) for mode in modes)
    with tempfile.TemporaryDirectory(prefix="sgl-spec-") as logs, contextlib.ExitStack() as stack:
        for server in servers:
            process = ServerProcess(server.command, Path(logs) / f"{server.mode.name}.log")
            stack.enter_context(running(process))
            _wait(server, process)
        yield servers


def _command(mode: Mode, plan: FleetPlan) -> ServerCommand:
    request = ServerRequest(mode.algorithm, None, (*mode.flags, *plan.user_flags), plan.model, plan.on_cpu, plan.cores)
    return build_server_command(request, dict(os.environ))


def _wait(server: Server, process: ServerProcess) -> None:
    shown = 0.0

    def waiting(seconds: float) -> None:
        nonlocal shown
        if seconds - shown >= 10:
            shown = seconds
            print(f"waiting for the server '{server.mode.name}' ({seconds:.0f} s) ...", file=sys.stderr, flush=True)

    process.wait_ready(waiting=waiting)
    print(f"server '{server.mode.name}' is ready at {server.url}", file=sys.stderr, flush=True)
