"""`sgl-spec trace`: what a program says about its own output, as a graph with each hole's template beside it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sgl_spec.cli.run import positive_int
from sgl_spec.errors import ConfigError, TraceError

if TYPE_CHECKING:
    from sgl_spec.frontend.endpoint import Endpoint
    from sgl_spec.frontend.program_file import LoadedProgram
    from sgl_spec.program.graph import ProgramGraph

DESCRIPTION = """Reads the @sgl.function in PROGRAM.py without a model, with stand-ins for all values, and draws its
graph. A program whose next step depends on a value cannot be read; with --record it is run over the file's inputs()
instead, and watched. Exit code 1 when the program cannot be read and is not recorded."""

_DRAWINGS = {"text": "drawing:draw_text", "mermaid": "drawing:draw_mermaid", "html": "svg_page:draw_html"}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `trace`."""
    parser = subparsers.add_parser("trace", help="draw a program's graph", description=DESCRIPTION, allow_abbrev=False)
    parser.add_argument("program", metavar="PROGRAM.py[:function]", help="the file; the function defaults to PROGRAM")
    parser.add_argument("--format", choices=sorted(_DRAWINGS), default="text", help="default: %(default)s")
    parser.add_argument("--out", metavar="FILE", type=Path, help="where to write it (default: standard output)")
    parser.add_argument(
        "--chat-template", metavar="NAME", help="SGLang's name for what roles become (default: chatml, or the server's)"
    )
    parser.add_argument("--record", action="store_true", help="run a program that cannot be read; needs --url")
    parser.add_argument("--url", help="a running server, for --record")
    parser.add_argument("--limit", type=positive_int, metavar="N", help="record only the first N inputs")
    parser.set_defaults(run=run, takes_server_flags=False)


def run(args: argparse.Namespace) -> int:
    """0 once the graph is drawn, 1 when the program refuses to be read."""
    if args.record and args.url is None:
        raise ConfigError("--record runs the program: give it a server with --url http://127.0.0.1:30000")
    from sgl_spec.frontend.program_file import load_program

    loaded = load_program(args.program)
    template = _chat_template(args.chat_template or "chatml")
    try:
        graph = _read(loaded)
    except TraceError as refusal:
        print(f"sgl-spec trace: {loaded.name} cannot be read without running it: {refusal}", file=sys.stderr)
        if not args.record:
            print("Run it over its inputs instead: add --record --url URL of a running server.", file=sys.stderr)
            return 1
        from sgl_spec.frontend.endpoint import Endpoint

        endpoint = Endpoint(args.url, chat_template=args.chat_template)
        graph, template = _record(loaded, endpoint, args.limit), endpoint.get_chat_template()
    _write(_draw(graph, args.format, template), args.out)
    return 0


def _chat_template(name: str) -> Any:
    from sglang.lang.chat_template import chat_template_registry

    if name not in chat_template_registry:
        known = ", ".join(sorted(chat_template_registry))
        raise ConfigError(f"--chat-template: SGLang has none called {name!r}; it has {known}")
    return chat_template_registry[name]


def _read(loaded: LoadedProgram) -> ProgramGraph:
    from sgl_spec.frontend.read_function import read_function

    return read_function(loaded.function)


def _record(loaded: LoadedProgram, endpoint: Endpoint, limit: int | None) -> ProgramGraph:
    from sgl_spec.frontend.record_runs import record

    inputs = loaded.inputs[:limit]
    print(f"Recording {len(inputs)} runs on {endpoint.base_url} ...", file=sys.stderr, flush=True)
    return record(loaded.function, inputs, endpoint, fold=True)


def _draw(graph: ProgramGraph, how: str, chat_template: Any) -> str:
    from importlib import import_module

    from sgl_spec.frontend.role_texts import role_texts

    module, _, name = _DRAWINGS[how].partition(":")
    drawing: str = getattr(import_module(f"sgl_spec.program.{module}"), name)(graph, role_texts(chat_template))
    return drawing


def _write(drawing: str, out: Path | None) -> None:
    if out is None:
        print(drawing, end="")
        return
    try:
        out.write_text(drawing, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--out: cannot write {str(out)!r}: {error.strerror}") from error
    print(f"wrote {out}", file=sys.stderr)
