"""`sgl-spec run`: runs one program over its inputs and shows what each call cost in model steps."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sgl_spec.cli.text_table import render

if TYPE_CHECKING:
    from sgl_spec.frontend.call_log import CallRecord
    from sgl_spec.frontend.program_main import RunResult

DESCRIPTION = """Runs the @sgl.function in PROGRAM.py once for each of the file's inputs() and prints the texts and a
table of the calls. Without --url it starts a server of its own and stops it afterwards."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `run`."""
    parser = subparsers.add_parser("run", help="run a program", description=DESCRIPTION, allow_abbrev=False)
    parser.add_argument("program", metavar="PROGRAM.py[:function]", help="the file; the function defaults to PROGRAM")
    parser.add_argument("--url", help="a running server (default: start one with the bundled model)")
    parser.add_argument("--model-path", metavar="MODEL", help="what the started server serves, instead")
    parser.add_argument("--off", action="store_true", help="without speculation")
    parser.add_argument("--limit", type=positive_int, metavar="N", help="only the first N inputs")
    parser.set_defaults(run=run, takes_server_flags=False)


def positive_int(text: str) -> int:
    """An argparse type: a whole number of at least 1."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """0 once every input ran."""
    from sgl_spec.frontend.program_file import load_program

    loaded = load_program(args.program)  # before the server: a typo must not cost a minute
    with _server_url(args) as url:
        from sgl_spec.frontend.endpoint import Endpoint
        from sgl_spec.frontend.program_main import run_inputs

        endpoint = Endpoint(url, speculate=not args.off)
        results = run_inputs(loaded, endpoint, limit=args.limit, on_result=_print_result)
    print("\n" + call_table([call for result in results for call in result.calls]))
    return 0


@contextlib.contextmanager
def _server_url(args: argparse.Namespace) -> Iterator[str]:
    if args.url is not None:
        yield args.url
        return
    from sgl_spec.frontend.runtime import Runtime

    print("starting a server (about a minute on a CPU) ...", file=sys.stderr, flush=True)
    with Runtime(off=args.off, model_path=args.model_path) as runtime:
        yield runtime.url


def _print_result(result: RunResult) -> None:
    print(f"--- input {result.index + 1}")
    print(result.text)
    if result.returned is not None:
        print(f"--- returned: {result.returned}")


def call_table(calls: Sequence[CallRecord]) -> str:
    """One row per call and a total: tokens, target forwards after prefill, tokens per step, drafts by origin."""
    from sgl_spec.cli.bench.stats import abstained, decode_steps, origin_totals, tokens_per_step
    from sgl_spec.cli.bench.summary import drafts_text, ratio, reasons_text

    def row(name: str, some: Sequence[CallRecord]) -> list[str]:
        return [
            name,
            str(sum(call.completion_tokens for call in some)),
            str(sum(decode_steps(call) for call in some)),
            ratio(tokens_per_step(some)),
            f"{sum(call.latency for call in some):.2f}",
            drafts_text(origin_totals(some)),
            reasons_text(abstained(some)),
        ]

    rows = [row(f"{number} {call.slot}", [call]) for number, call in enumerate(calls, 1)]
    header = ["call", "tokens", "steps", "tok/step", "seconds", "accepted/drafted", "abstained rounds"]
    return render(header, [*rows, row("all", calls)], align="<>>>><<")
