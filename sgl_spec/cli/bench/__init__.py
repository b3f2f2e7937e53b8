"""`sgl-spec bench`: measures ways of serving against each other on programs and on prompts from data files.

    modes (which servers and hints) -> fleet (up together) -> measure (interleaved) -> summary -> tables, JSON

This module is the command line; what it runs is imported only when it runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sgl_spec.errors import ConfigError

if TYPE_CHECKING:
    from sgl_spec.cli.bench.fleet import FleetPlan, Server
    from sgl_spec.cli.bench.measure import Sample, Workload
    from sgl_spec.cli.bench.modes import Mode
    from sgl_spec.cli.bench.summary import Row

DIFFERENCES_SHOWN = 10
# Written out for --help, which is to import nothing; a test holds them to the real lists.
ALL_MODES = "off,ngram,eagle3,full,cold,no-head,lookup,grammar,memory,template,eagle"
ALL_WORKLOADS = "react,chat,edit,rag,json,copy,character,bfcl"

DESCRIPTION = """Runs every task in every mode, in turns, compares each output with that of mode `off`, and prints
medians. Starts the servers that the modes need: one each for `off`, `ngram` and `eagle3`, and one that the modes of
ours share, which differ by what their requests ask for: `full`, `cold` (all but memory), and `lookup`, `grammar`,
`memory` and `template` (drafts of that origin alone). Exit code 1 when an output of one of ours differs from `off`.
Any flag of SGLang's own server may be added; all servers get it."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `bench`."""
    from sgl_spec.cli.run import positive_int

    parser = subparsers.add_parser("bench", help="measure", description=DESCRIPTION, allow_abbrev=False)
    add = parser.add_argument
    add("--modes", default="off,ngram,full", metavar="NAMES", help=f"which of {ALL_MODES} (default: %(default)s)")
    add("--programs", metavar="A.py,B.py", help="programs to run (default: the repository's three; '' for none)")
    add("--data", type=Path, metavar="DIR", help="folder of data files; adds the workloads built from them")
    add("--workloads", metavar="NAMES", help=f"which of {ALL_WORKLOADS} (default with --data: all)")
    add("--rounds", type=positive_int, default=3, metavar="N", help="passes over everything (default: %(default)s)")
    add("--limit", type=positive_int, default=10, metavar="N", help="tasks per workload (default: %(default)s)")
    add("--max-new-tokens", type=positive_int, default=256, metavar="N", help="per prompt (default: %(default)s)")
    add("--batch", default="1", metavar="SIZES", help="tasks side by side; each size apart (default: %(default)s)")
    add("--head", type=Path, metavar="DIR", help="the EAGLE-3 head of mode eagle3, and of ours")
    add("--out", type=Path, metavar="FILE", help="write the result and every raw sample as JSON")
    parser.set_defaults(run=run, takes_server_flags=True)


def run(args: argparse.Namespace) -> int:
    """0 when every mode that promises the baseline's outputs kept its word, else 1."""
    from sgl_spec.cli.bench import result_file
    from sgl_spec.cli.bench.batches import batched, parse_batches
    from sgl_spec.cli.bench.fleet import open_fleet
    from sgl_spec.cli.bench.measure import measure
    from sgl_spec.cli.bench.modes import parse_modes, with_head
    from sgl_spec.cli.bench.summary import summarise
    from sgl_spec.cli.json_file import check_writable

    modes, sizes = parse_modes(args.modes), parse_batches(args.batch)
    if args.out is not None:
        check_writable(args.out)
    plan, started = _plan(args), _now()
    modes = with_head(modes, args.head, plan.on_cpu)
    workloads = [batched(workload, size) for workload in _workloads(args, plan.model) for size in sizes]
    with open_fleet(modes, plan) as servers:
        samples = tuple(measure(workloads, servers, args.rounds, _say))
    rows = summarise(samples)
    if args.out is not None:
        result_file.write(args.out, _measurement(args, plan, started, servers, rows, samples))
    return _report(rows, samples, modes)


def _plan(args: argparse.Namespace) -> FleetPlan:
    from sgl_spec.bundled_model import prepare
    from sgl_spec.cli.bench.fleet import FleetPlan
    from sgl_spec.cli.machine import accelerator_name, physical_cores
    from sgl_spec.cli.server_command import parse_flags

    given = {flag.name: flag.value for flag in parse_flags(args.server_flags)}
    for name in ("--port", "--speculative-algorithm"):
        if name in given:
            raise ConfigError(f"{name} is {given[name]}; bench chooses it for each server itself (see --modes).")
    model = given.get("--model-path") or str(prepare())
    return FleetPlan(model, accelerator_name() is None, physical_cores(), args.server_flags)


def _workloads(args: argparse.Namespace, model: str) -> list[Workload]:
    from sgl_spec.cli.bench.measure import Workload, prompt_task
    from sgl_spec.cli.bench.prompts import BUILDERS, build_prompts
    from sgl_spec.cli.program_tasks import default_programs, program_workload

    programs = default_programs() if args.programs is None else _names(args.programs)
    found = [program_workload(program, args.limit) for program in programs]
    names = _names(args.workloads or ("" if args.data is None else ",".join(BUILDERS)))
    chat = _chat_template(model)
    for name in names:
        prompts = build_prompts(name, args.data, chat, args.limit)
        found.append(Workload(name, tuple(prompt_task(prompt, args.max_new_tokens) for prompt in prompts)))
    if not found:
        raise ConfigError("There is nothing to measure: name --programs, --workloads or --data.")
    return found


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _chat_template(model: str) -> Callable[[str], str]:
    """The served model's own template, so that `/generate` sees what a chat client would send."""

    @lru_cache(maxsize=1)
    def tokenizer() -> Any:  # loaded by the first workload that chats, which not all do
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(model)

    def chat(message: str) -> str:
        if tokenizer().chat_template is None:
            return message + "\n"  # a base model: it continues the text
        messages = [{"role": "user", "content": message}]
        return str(tokenizer().apply_chat_template(messages, tokenize=False, add_generation_prompt=True))

    return chat


def _measurement(
    args: argparse.Namespace,
    plan: FleetPlan,
    started: str,
    servers: Sequence[Server],
    rows: Sequence[Row],
    samples: Sequence[Sample],
) -> Any:
    from sgl_spec.cli.bench.result_file import Measurement
    from sgl_spec.cli.machine import accelerator_name, describe_machine, versions

    names = ("modes", "programs", "workloads", "rounds", "limit", "max_new_tokens", "batch", "server_flags")
    settings = {name: getattr(args, name) for name in names}
    settings |= {name: value and str(value) for name, value in (("data", args.data), ("head", args.head))}
    machine = describe_machine(accelerator_name() or "cpu")
    return Measurement(
        started, tuple(sys.argv), machine, versions(), plan.model, settings, tuple(servers), tuple(rows), tuple(samples)
    )


def _report(rows: Sequence[Row], samples: Sequence[Sample], modes: Sequence[Mode]) -> int:
    from sgl_spec.cli.bench.merged import merged_table
    from sgl_spec.cli.bench.summary import (
        abstained_table,
        difference_text,
        differences,
        failures,
        main_table,
        origin_table,
    )

    found = differences(samples)
    shown = [difference_text(one) for one in found[:DIFFERENCES_SHOWN]]
    parts = (main_table(rows), origin_table(rows), abstained_table(rows), merged_table(rows), "\n".join(shown))
    print("\n\n".join(filter(None, parts)))
    bad = failures(found, modes)
    if bad:
        print(f"{len(bad)} outputs of modes that promise the baseline's output differ from it.")
    return 1 if bad else 0


def _now() -> str:
    from datetime import UTC, datetime

    return datetime.now(UTC).isoformat(timespec="seconds")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
