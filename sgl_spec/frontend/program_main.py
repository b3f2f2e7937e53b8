"""Runs a loaded program over its inputs and tells what each call did: the `main()` of every file in `programs/`.

`run_inputs` is the part that `sgl-spec run`, the demo and the bench share; `run_program_file` is the command line.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sgl_spec.errors import SglSpecError
from sgl_spec.frontend.call_log import CallRecord
from sgl_spec.frontend.program_file import LoadedProgram, load_program

if TYPE_CHECKING:
    from sgl_spec.frontend.endpoint import Endpoint

DEFAULT_URL = "http://127.0.0.1:30000"


@dataclass(frozen=True)
class RunResult:
    """One run of a program: which input (from 0), the whole text, what the program returned, and its calls in order."""

    index: int
    text: str
    returned: Any
    calls: tuple[CallRecord, ...]


def run_inputs(
    loaded: LoadedProgram,
    endpoint: Endpoint,
    *,
    limit: int | None = None,
    on_result: Callable[[RunResult], None] | None = None,
) -> list[RunResult]:
    """Runs the program once for each input, one after another. Resets the endpoint's record of calls for each run.

    Raises:
        ServerError, ServerUnavailable: from the first call that fails.
    """
    results = []
    for index, arguments in enumerate(loaded.inputs[:limit]):
        endpoint.reset_calls()
        # SGLang's run() adds to the dict it is given, hence a copy.
        state = loaded.function.run(backend=endpoint, **dict(arguments))
        results.append(RunResult(index, state.text(), state.ret_value, endpoint.calls))
        if on_result is not None:
            on_result(results[-1])
    return results


def run_program_file(file: str, argv: Sequence[str] | None = None) -> int:
    """The command line of a program file. Returns the exit status.

    A user's mistake or a server that fails is one sentence on stderr.
    """
    options = _parser(file).parse_args(argv)
    try:
        loaded = load_program(file)
        from sgl_spec.frontend.endpoint import Endpoint

        endpoint = Endpoint(options.url, api_key=options.api_key, speculate=not options.off)
        results = run_inputs(loaded, endpoint, limit=options.limit, on_result=_print_result)
    except SglSpecError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    print(summary(loaded.name, results))
    return 0


def summary(name: str, results: Sequence[RunResult]) -> str:
    """One line: runs, calls, tokens, seconds and, where the server reports rounds, tokens per round."""
    calls = [call for result in results for call in result.calls]
    tokens = sum(call.completion_tokens for call in calls)
    first = [call for call in calls if call.answer == 0]  # the answers of one request share its latency
    seconds = sum(call.latency for call in first)
    line = f"{name}: {len(results)} runs, {len(first)} calls, {tokens} tokens, {seconds:.1f} s"
    reported = [call for call in calls if call.spec is not None and call.spec.get("rounds")]
    if reported:
        # Prefill gives each call its first token, so rounds account for the rest.
        in_rounds = sum(call.completion_tokens - 1 for call in reported)
        line += f", {in_rounds / sum(call.spec['rounds'] for call in reported if call.spec):.2f} tokens per round"
    return line


def _print_result(result: RunResult) -> None:
    print(f"--- run {result.index}")
    for call in result.calls:
        print(f"[{call.slot}] {call.text.strip()}")
    if result.returned is not None:
        print(f"returned: {result.returned}")


def _parser(file: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python {file}", description=f"Runs the program in {file} over its inputs.")
    parser.add_argument("--url", default=DEFAULT_URL, help="address of a running server (default: %(default)s)")
    parser.add_argument("--api-key", help="key of that server, when it asks for one")
    parser.add_argument("--off", action="store_true", help="ask the server not to speculate for these calls")
    parser.add_argument("--limit", type=_positive, help="run only the first LIMIT inputs")
    return parser


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return value
