"""`sgl-spec model`: prints the bundled model's folder, preparing it first when need be."""

from __future__ import annotations

import argparse


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `model`."""
    parser = subparsers.add_parser(
        "model",
        help="print the bundled model's folder, preparing it if need be",
        description="Prints the folder of the bundled model, converting it into the cache on first use.",
        allow_abbrev=False,
    )
    parser.set_defaults(run=run, takes_server_flags=False)


def run(args: argparse.Namespace) -> int:
    """Prints one path on stdout; progress goes to stderr."""
    from sgl_spec.bundled_model import prepare

    print(prepare())
    return 0
