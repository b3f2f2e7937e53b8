"""Runs generated code and its tests, for self_repair.py, in a process that can do little harm.

Reads `[code, [[call, wanted], ...]]` as JSON on stdin, and writes `passed` or the first failure, one line, on stderr.
Limits hold the process to 2 s of CPU time, 512 MiB of memory and 4 KiB of output, and it can open no file and no
socket. That stops a model's blunders; to run code that somebody means to do harm with, use a real sandbox.
"""

import collections  # noqa: F401  what a function may want to import: nothing can be loaded later
import itertools  # noqa: F401
import json
import math  # noqa: F401
import re
import resource
import sys

LIMITS = {"RLIMIT_CPU": 2, "RLIMIT_AS": 1 << 29, "RLIMIT_FSIZE": 1 << 12, "RLIMIT_NOFILE": 0}
FORBIDDEN = ("open", "os.", "socket.", "subprocess.", "ctypes.", "shutil.", "signal.")


def watch(event, arguments):
    if event.startswith(FORBIDDEN):
        raise PermissionError(f"{event} is not allowed here")


def outcome(code, tests):
    names = {}
    try:
        exec(code, names)
        for call, wanted in tests:
            if (got := eval(call, names)) != wanted:
                return f"{call} gave {got!r:.60}, not {wanted!r}"
    except BaseException as error:
        return f"{type(error).__name__}: {error!s:.80}"
    return "passed"


if __name__ == "__main__":
    task = json.load(sys.stdin)
    report, sys.stderr = sys.stderr, sys.stdout
    for name, limit in LIMITS.items():
        resource.setrlimit(getattr(resource, name), (limit, limit))
    sys.addaudithook(watch)
    # Addresses differ from run to run, and what is printed here goes into a prompt.
    print(re.sub(" at 0x[0-9a-f]+", "", outcome(*task).partition("\n")[0]), file=report)
