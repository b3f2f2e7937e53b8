"""`sgl-spec check`: a self-test of any server of ours: the same requests with speculation and without must agree.

    served (is it ours?) -> recorded, prompts, rows (requests) -> matrix -> runner -> compare -> verdict -> report, JSON

This module is the command line; what it runs is imported only when it runs.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from sgl_spec.cli.run import positive_int

REQUESTS, QUICK_REQUESTS, QUICK_TOKENS = 60, 16, 32

DESCRIPTION = """Sends a matrix of requests to a running server, each with speculation and again without
(custom_params.sgl_spec.off), and compares token ids, texts, finish reasons, logprobs and usage. The requests are
those of the repository's programs and a list of parameter rows. Exit code 0 only if all agree and the server did
speculate, 1 if not, 2 if there is no server."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `check`."""
    parser = subparsers.add_parser("check", help="test a server", description=DESCRIPTION, allow_abbrev=False)
    add = parser.add_argument
    add("url", metavar="URL", help="a running server, such as http://127.0.0.1:30000")
    add("--requests", type=positive_int, metavar="N", help=f"comparisons, two requests each (default: {REQUESTS})")
    add("--batch", type=batches, default=(1, 8), metavar="LIST", help="requests under way at once (default: 1,8)")
    add("--temperatures", type=temperatures, default=(0.0, 0.7, 1.2), metavar="LIST", help="(default: 0,0.7,1.2)")
    add("--programs", metavar="A.py,B.py", help="programs to run (default: all of the repository's; '' for none)")
    add("--inputs", type=positive_int, default=1, metavar="N", help="inputs of each program (default: %(default)s)")
    add("--only", metavar="WORDS", help="only programs and rows with one of these words (with commas) in their name")
    add("--max-new-tokens", type=positive_int, metavar="N", help="no request is longer (default: as they come)")
    add("--seed", type=int, default=0, metavar="S", help="of the choice, the order and the samples (default: 0)")
    add("--quick", action="store_true", help=f"{QUICK_REQUESTS} comparisons of {QUICK_TOKENS} tokens")
    add("--api-key", metavar="KEY", help="key of the server, when it asks for one")
    add("--out", type=Path, metavar="FILE.json", help="write everything that was sent and received as JSON")
    parser.set_defaults(run=run, takes_server_flags=False)


def run(args: argparse.Namespace) -> int:
    """0 when all comparisons agree and the server speculated, else 1."""
    from sgl_spec.cli.check.session import Options, check

    options = Options(
        url=args.url,
        api_key=args.api_key,
        requests=args.requests or (QUICK_REQUESTS if args.quick else REQUESTS),
        longest=args.max_new_tokens or (QUICK_TOKENS if args.quick else None),
        batches=args.batch,
        temperatures=args.temperatures,
        seed=args.seed,
        programs=args.programs,
        inputs=args.inputs,
        only=args.only,
        out=args.out,
    )
    return check(options)


def batches(text: str) -> tuple[int, ...]:
    """An argparse type: whole numbers of at least 1, each once."""
    return tuple(dict.fromkeys(positive_int(part.strip()) for part in text.split(",")))


def temperatures(text: str) -> tuple[float, ...]:
    """An argparse type: finite numbers of at least 0, each once."""
    try:
        values = tuple(dict.fromkeys(float(part) for part in text.split(",")))
    except ValueError:
        values = ()
    if not values or not all(math.isfinite(value) and value >= 0 for value in values):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers of at least 0, such as 0,0.7,1.2")
    return values
