"""A process that has imported SGLang and becomes a test run of a copy of the tree whenever it is told to.

Importing SGLang takes most of the time of a run; a fork has it already. Of our own package it has imported only what
SGLang takes from it while it is imported (the CPU platform): the rest every run imports from its copy, and what is kept
may not be what a mutation changes. Orders and replies are lines of JSON on stdin and stdout.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

PACKAGE = "sgl_spec"
OUTPUT = "mutation-output.txt"


def import_the_slow() -> None:
    """As `tests/contract/conftest.py` and the test modules would, in this order."""
    from sgl_spec.platform_cpu.activate import activate

    activate()
    import sglang.srt.entrypoints.openai.serving_chat
    import sglang.srt.entrypoints.openai.serving_completions
    import sglang.srt.managers.scheduler  # noqa: F401


def ours() -> list[str]:
    return [name for name in sys.modules if name == PACKAGE or name.startswith(f"{PACKAGE}.")]


def forget_all_but(kept: set[str], changed: Path) -> None:
    """So that our package is imported from the folder we are in."""
    for name in ours():
        source = getattr(sys.modules[name], "__file__", None) or ""
        if name not in kept or name == PACKAGE:
            del sys.modules[name]
        elif source.endswith(str(changed)):
            raise SystemExit(f"{changed} was imported before it was changed")


def become_a_test_run(order: dict[str, Any], kept: set[str]) -> None:
    """In the child. Never returns."""
    os.chdir(order["root"])
    output = os.open(OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.path[:] = [order["root"], *(path for path in sys.path if path not in ("", order["original"]))]
    forget_all_but(kept, Path(order["changed"]))
    from run_here import main

    os._exit(main(order["arguments"]))


def reply(order: dict[str, Any], kept: set[str]) -> int | None:
    """The exit status of a test run, or None when it took too long."""
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            become_a_test_run(order, kept)
        finally:
            os._exit(70)
    end = time.monotonic() + order["seconds"]
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def main() -> None:
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what SGLang prints is no reply
    import_the_slow()
    kept = set(ours())
    for line in sys.stdin:
        print(json.dumps(reply(json.loads(line), kept)), file=replies, flush=True)


if __name__ == "__main__":
    main()
