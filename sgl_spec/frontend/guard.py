"""A small process between a client and the server it launched: the server does not outlive the client.

`python -m sgl_spec.frontend.guard PARENT_PID COMMAND...` runs COMMAND, passes its exit status on, and ends COMMAND's
whole process tree as soon as PARENT_PID is gone, however it died, or closes our standard input, which is how it says
stop. A death signal on the server alone would not do: it reaches one process, and fires when the launching *thread*
ends.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys

from sgl_spec.frontend.process_tree import adopt_orphans, die_with_parent, end_tree, parent_is

_LOOK_SECONDS = 0.5
_GRACE_SECONDS = 2.0


def main(argv: list[str]) -> int:
    parent, command = int(argv[0]), argv[1:]
    adopt_orphans()
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # This process has one thread, for as long as it lives: here a death signal and a preexec_fn are safe.
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=die_with_parent)
    try:
        _watch(server, parent)
    finally:
        end_tree(os.getpid(), grace=_GRACE_SECONDS, itself=False)
        status = server.wait()
    return status if status >= 0 else 128 - status


def _watch(server: subprocess.Popen[bytes], parent: int) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(sys.stdin.buffer, selectors.EVENT_READ)
        while server.poll() is None and parent_is(parent):
            if selector.select(_LOOK_SECONDS):
                return  # nobody writes to us, so readable means closed


def _leave(number: int, frame: object) -> None:
    del frame
    raise SystemExit(128 + number)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
