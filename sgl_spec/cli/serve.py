"""`sgl-spec serve`: an SGLang server with our speculation, for the bundled model or any other, until it is stopped."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from sgl_spec.cli.server_command import (
    OUR_ALGORITHM,
    ServerCommand,
    ServerRequest,
    build_server_command,
    has_flag,
    parse_flags,
)
from sgl_spec.errors import ConfigError, ServerUnavailable

DESCRIPTION = """Starts an SGLang server and prints one line on stdout when it is ready.
Any flag of SGLang's own server may be added; it overrides the default chosen here."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `serve`."""
    parser = subparsers.add_parser(
        "serve", help="start a server", description=DESCRIPTION, allow_abbrev=False,
        usage="sgl-spec serve [--off] [--algorithm NAME] [--memory FILE] [--port N] [--log-file FILE] [--dry-run] "
        "[any SGLang flag]",
    )  # fmt: skip
    parser.add_argument("--off", action="store_true", help="the same server without speculation")
    parser.add_argument("--algorithm", metavar="NAME", help=f"speculative algorithm (default: {OUR_ALGORITHM})")
    parser.add_argument(
        "--memory", type=Path, metavar="FILE", help="file that keeps the memory of past outputs between starts"
    )
    parser.add_argument("--port", type=int, metavar="N", help="port to listen on (default: a free one)")
    parser.add_argument("--log-file", type=Path, metavar="FILE", help="the server's log (default: stderr)")
    parser.add_argument("--dry-run", action="store_true", help="print the command and start nothing")
    parser.set_defaults(run=run, takes_server_flags=True)


def run(args: argparse.Namespace) -> int:
    """Runs the server until it ends or we are told to stop. 0 after a dry run."""
    check_flags(args)
    if args.dry_run:
        print(server_command(args, prepare_model=False).as_shell())
        return 0
    return _serve(server_command(args, prepare_model=True), args.log_file)


def check_flags(args: argparse.Namespace) -> None:
    """Raises ConfigError when two flags say opposite things."""
    typed = [flag for flag in parse_flags(args.server_flags) if flag.name == "--speculative-algorithm"]
    asked = [f"--algorithm {args.algorithm}"] if args.algorithm else []
    asked += [" ".join(flag.words) for flag in typed]
    if args.off and asked:
        raise ConfigError(f"--off and {asked[0]} contradict each other; give one of them.")
    if args.algorithm and typed and typed[-1].value != args.algorithm:
        raise ConfigError(f"{asked[0]} and {asked[-1]} contradict each other; give one of them.")


def server_command(args: argparse.Namespace, prepare_model: bool) -> ServerCommand:
    """The command for the typed flags. With `prepare_model` false the bundled model's folder is only named."""
    from sgl_spec.cli.machine import accelerator_name, physical_cores

    request = ServerRequest(
        algorithm=None if args.off else args.algorithm or OUR_ALGORITHM,
        port=args.port,
        user_flags=args.server_flags,
        model="" if has_flag(args.server_flags, "--model-path") else _bundled_model(prepare_model),
        on_cpu=accelerator_name() is None,
        cores=physical_cores(),
        memory=args.memory,
    )
    return build_server_command(request, dict(os.environ))


def _bundled_model(prepare_model: bool) -> str:
    from sgl_spec import bundled_model

    if prepare_model:
        return str(bundled_model.prepare())
    folder = bundled_model.cache_dir() / bundled_model.FOLDER_NAME
    if not bundled_model.folder_is_sound(folder):
        print("The bundled model is not prepared yet; `sgl-spec model` makes its folder.", file=sys.stderr)
    return str(folder)


def _serve(command: ServerCommand, log_file: Path | None) -> int:
    from sgl_spec.cli.server_process import ServerProcess, running

    server = ServerProcess(command, log_file)
    with running(server):
        server.wait_ready()
        print(ready_line(command, server.pid), flush=True)
        code = server.wait()
    raise ServerUnavailable(f"The server ended by itself (exit code {code}).")


def ready_line(command: ServerCommand, pid: int) -> str:
    """The one line on stdout: where the server is, what it serves, whether it speculates, its process id."""
    speculation = "off" if command.algorithm is None else "on"
    return f"sgl-spec ready {command.url} model={command.model} speculation={speculation} pid={pid}"
