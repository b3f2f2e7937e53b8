"""`sgl-spec demo`: three real programs on two real servers, without and with speculation, side by side."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sgl_spec.cli.run import positive_int
from sgl_spec.cli.text_table import render

if TYPE_CHECKING:
    from sgl_spec.cli.bench.measure import Sample
    from sgl_spec.cli.bench.modes import Mode
    from sgl_spec.cli.bench.summary import Row

DESCRIPTION = """Prepares the bundled model, starts two servers, one of them speculating, runs three programs on both in
turns and prints a table. Exit code 1 when an output differs."""

HEADER = (
    "program", "calls", "s off", "s on", "speedup",
    "tokens", "steps", "tok/step", "accepted/drafted", "identical",
)  # fmt: skip


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `demo`."""
    parser = subparsers.add_parser("demo", help="see it work", description=DESCRIPTION, allow_abbrev=False)
    parser.add_argument("--rounds", type=positive_int, default=1, metavar="N", help="passes over all inputs")
    parser.set_defaults(run=run, takes_server_flags=False)


def run(args: argparse.Namespace) -> int:
    """0 when every output is identical, else 1."""
    from sgl_spec.cli.bench.modes import parse_modes

    modes = parse_modes("off,full")
    samples = _measured(modes, args.rounds)
    _say("4/4 servers are down")
    return _report(samples, modes)


def _measured(modes: Sequence[Mode], rounds: int) -> tuple[Sample, ...]:
    from sgl_spec.bundled_model import prepare
    from sgl_spec.cli.bench.fleet import FleetPlan, open_fleet
    from sgl_spec.cli.bench.measure import measure
    from sgl_spec.cli.machine import accelerator_name, physical_cores
    from sgl_spec.cli.program_tasks import default_programs, program_workload

    workloads = [program_workload(program) for program in default_programs()]
    accelerator = accelerator_name()
    _say("1/4 the bundled model")
    plan = FleetPlan(str(prepare()), accelerator is None, physical_cores())
    _say(f"2/4 starting two servers on the {accelerator or 'CPU (a minute or two)'}: one without speculation, one with")
    with open_fleet(modes, plan) as servers:
        _say(f"3/4 running {len(workloads)} programs, each input on both servers in turns")
        return tuple(measure(workloads, servers, rounds, lambda text: _say(f"    {text}")))


def _report(samples: Sequence[Sample], modes: Sequence[Mode]) -> int:
    from sgl_spec.cli.bench.summary import difference_text, differences, failures, summarise

    print(demo_table(summarise(samples)))
    bad = failures(differences(samples), modes)
    for difference in bad:
        print(difference_text(difference))
    return 1 if bad else 0


def demo_table(rows: Sequence[Row]) -> str:
    """One line per program: time off and on, what a step yielded, and whether the outputs are the same."""
    from sgl_spec.cli.bench.modes import BASELINE
    from sgl_spec.cli.bench.summary import drafts_text, ratio

    off = {row.workload: row for row in rows if row.mode == BASELINE}
    body = [
        [
            on.workload, str(on.calls), f"{off[on.workload].total_seconds:.2f}", f"{on.total_seconds:.2f}",
            f"{on.speedup:.2f}x", str(on.tokens), str(on.steps), ratio(on.tokens_per_step), drafts_text(on.drafts, 2),
            "yes" if on.identical == on.samples else f"NO ({on.samples - on.identical} of {on.samples} differ)",
        ]
        for on in rows
        if on.mode != BASELINE
    ]  # fmt: skip
    return render(HEADER, body, align="<>>>>>>><<")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
