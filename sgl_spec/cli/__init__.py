"""The command line. Where it stands in a round: outside; it starts servers, sends requests and reads what came back.

One module per subcommand, each with `add_parser(subparsers)` and a `run(args) -> int`. They import the standard
library only; torch, sglang and our own heavy layers are imported inside the functions that need them, so that
`sgl-spec --help` answers at once.

Exit codes: 0 success, 1 a check failed (an output differs, a contract row is broken), 2 a user's mistake or a
failure we can put in one sentence, 130 Ctrl-C, 143 SIGTERM.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from sgl_spec.cli import bench, check, demo, doctor, model, run, serve, trace, train_head
from sgl_spec.cli.signals import Terminated, raise_on_termination
from sgl_spec.errors import SglSpecError

EXIT_OK, EXIT_CHECK_FAILED, EXIT_ERROR, EXIT_INTERRUPTED, EXIT_TERMINATED = 0, 1, 2, 130, 143

DESCRIPTION = "Runs SGLang programs on the real SGLang server, several tokens per model step, with the same output."


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code; never lets a traceback out for a user's mistake."""
    parser = build_parser()
    args, server_flags = parser.parse_known_args(argv)
    if server_flags and not args.takes_server_flags:
        parser.error(f"unrecognized arguments: {' '.join(server_flags)}")
    args.server_flags = tuple(flag for flag in server_flags if flag != "--")
    try:
        with raise_on_termination():
            return int(args.run(args))
    except SglSpecError as error:
        print(f"sgl-spec {args.command}: {error}", file=sys.stderr)
        return EXIT_ERROR
    except KeyboardInterrupt:
        print(f"sgl-spec {args.command}: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except Terminated:
        return EXIT_TERMINATED
    except BrokenPipeError:  # the reader of our output went away (`| head`)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK


def build_parser() -> argparse.ArgumentParser:
    """The whole command line. Abbreviations are off: they would swallow SGLang's own flags."""
    parser = argparse.ArgumentParser(prog="sgl-spec", description=DESCRIPTION, allow_abbrev=False)
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in (serve, run, trace, demo, bench, check, train_head, model, doctor):
        command.add_parser(subparsers)
    return parser
