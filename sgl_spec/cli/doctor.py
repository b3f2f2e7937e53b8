"""`sgl-spec doctor`: what is installed, what this machine is, and whether SGLang still has the names we build on."""

from __future__ import annotations

import argparse
import contextlib
import io
import warnings
from collections.abc import Iterable
from typing import Any

from sgl_spec.cli.text_table import render
from sgl_spec.errors import ConfigError


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `doctor`."""
    parser = subparsers.add_parser(
        "doctor",
        help="check the installation",
        description="Prints versions, the device, and each SGLang name this package relies on. "
        "Exit code 1 when one of them is missing or has another shape.",
        allow_abbrev=False,
    )
    parser.set_defaults(run=run, takes_server_flags=False)


def run(args: argparse.Namespace) -> int:
    """0 when everything checked holds, else 1."""
    from sgl_spec.cli import machine

    for name, version in machine.versions().items():
        print(f"{name:13} {version}")
    sound = _print_device()
    return 0 if _print_contract() and sound else 1


def _print_device() -> bool:
    from sgl_spec.cli.machine import accelerator_name, physical_cores

    try:
        print(f"{'device':13} {accelerator_name() or 'cpu'}, {physical_cores()} physical cores")
    except ConfigError as error:
        print(f"{'device':13} unknown: {error}")
        return False
    from sgl_spec.platform_cpu.activate import wanted

    reason = wanted()
    print(f"{'CPU platform':13} {'active in servers here' if reason is None else 'stays out of the way: ' + reason}")
    return True


def _print_contract() -> bool:
    try:
        rows = _contract_rows()
    except Exception as error:  # whatever breaks here is the very thing to report
        print(f"\nThe installed SGLang cannot be checked: {type(error).__name__}: {error}")
        return False
    print("\n" + contract_table(rows))
    broken = sum(not row.ok for row in rows)
    print(f"\n{len(rows) - broken} of {len(rows)} SGLang names are as expected.")
    return broken == 0


def _contract_rows() -> list[Any]:
    """The rows, without what SGLang's modules say about missing accelerators while they are imported."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        from sgl_spec.server.sglang_contract import check_contract

        return list(check_contract())


def contract_table(rows: Iterable[Any]) -> str:
    """Rows (name, where, ok, detail) as text, broken ones marked; `where` only when it tells more than the name."""
    body = [
        [
            "ok" if row.ok else "BROKEN",
            row.name,
            " ".join(filter(None, [row.where != row.name and row.where, row.detail])),
        ]
        for row in rows
    ]
    return render(["", "name", "detail"], body, align="<<<")
