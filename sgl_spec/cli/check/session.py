"""One check from beginning to end: look at the server, gather the requests, run the matrix, say what came of it.

Stands outside a round.
"""

from __future__ import annotations

import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from sgl_spec.cli.check import matrix, result_file, verdict
from sgl_spec.cli.check.answer import Sender
from sgl_spec.cli.check.prompts import Chat, learn
from sgl_spec.cli.check.report import difference_texts, tables
from sgl_spec.cli.check.rows import ROWS, Row, row_source
from sgl_spec.cli.check.runner import Outcome, run_cells
from sgl_spec.cli.check.served import Served, look_at
from sgl_spec.cli.check.source import ROW, Source
from sgl_spec.cli.json_file import check_writable
from sgl_spec.cli.machine import describe_machine, versions
from sgl_spec.cli.program_tasks import default_programs
from sgl_spec.errors import ConfigError
from sgl_spec.frontend.http_client import HttpClient
from sgl_spec.frontend.program_file import LoadedProgram, load_program

EXIT_PASSED, EXIT_FAILED = 0, 1


@dataclass(frozen=True)
class Options:
    """What the command line asks for (see its help). `programs` and `only` hold several names with commas between."""

    url: str
    api_key: str | None = None
    requests: int = 60
    longest: int | None = None
    batches: tuple[int, ...] = (1, 8)
    temperatures: tuple[float, ...] = (0.0, 0.7, 1.2)
    seed: int = 0
    programs: str | None = None
    inputs: int = 1
    only: str | None = None
    out: Path | None = None


class _Ran(NamedTuple):
    """What was run, and how long the matrix took, in seconds."""

    sources: tuple[Source, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    seconds: float = 0.0


class _Session(NamedTuple):
    """What the steps of a check share."""

    options: Options
    plan: matrix.Plan
    client: HttpClient
    served: Served


def check(options: Options) -> int:
    """Runs the check, prints its result and returns the exit code.

    Raises:
        ConfigError: an option is not usable, or there are no programs.
        ServerUnavailable: nothing answers at the address.
    """
    if options.out is not None:
        check_writable(options.out)
    started = datetime.now(UTC).isoformat(timespec="seconds")
    client = HttpClient(options.url, api_key=options.api_key)
    session = _Session(options, _plan(options), client, look_at(client))
    refusal = session.served.refusal
    ran = _run(session, _wanted(options)) if refusal is None else _Ran()
    problems = verdict.problems(ran.outcomes, ran.sources) if refusal is None else (refusal,)
    _print(ran, problems, client.url)
    if options.out is not None:
        result_file.write(options.out, _checked(session, started, ran, problems))
    return EXIT_FAILED if problems else EXIT_PASSED


def _plan(options: Options) -> matrix.Plan:
    # A new key every time: a server that outlives this check still knows what it remembered for the last one.
    key = f"check-{secrets.token_hex(4)}"
    return matrix.Plan(
        options.requests, options.temperatures, options.batches, options.seed, key, options.longest
    )  # fmt: skip


def _checked(session: _Session, started: str, ran: _Ran, problems: tuple[str, ...]) -> result_file.Checked:
    info = session.served.info
    machine = describe_machine(str(info.get("device", "unknown")))
    return result_file.Checked(
        started, ran.seconds, tuple(sys.argv), machine, versions(), session.client.url, info, session.plan,
        ran.sources, ran.outcomes, problems,
    )  # fmt: skip


class _Wanted(NamedTuple):
    programs: tuple[LoadedProgram, ...]
    rows: tuple[Row, ...]


def _wanted(options: Options) -> _Wanted:
    """The programs and rows that the options leave."""
    words = _names(options.only or "")
    specs = all_programs() if options.programs is None else _names(options.programs)
    programs = tuple(load_program(spec) for spec in specs if _named(Path(spec).name, words))
    rows = tuple(row for row in ROWS if _named(row.name, words))
    if not programs and not rows:
        raise ConfigError(f"--only is {options.only!r}; no program and no row has such a word in its name")
    names = [*(one.name for one in programs), *(row.name for row in ROWS)]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"--programs holds two programs named {name!r}, or one named like a row; rename one")
    return _Wanted(programs, rows)


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (name.strip() for name in text.split(","))))


def _named(name: str, words: Sequence[str]) -> bool:
    return not words or any(word in name for word in words)


def all_programs() -> tuple[str, ...]:
    """All programs of this project's repository.

    Raises:
        ConfigError: there is no repository here.
    """
    try:
        folder = Path(default_programs()[0]).parent
    except ConfigError as error:
        raise ConfigError(f"{error} Or name --programs, or leave them out with --programs ''.") from error
    return tuple(str(path) for path in sorted(folder.glob("*.py")))


def _run(session: _Session, wanted: _Wanted) -> _Ran:
    plan = session.plan
    chosen = matrix.picks([one.name for one in wanted.programs], [one.name for one in wanted.rows], plan)
    send = Sender(session.client, session.served.incremental)
    sources = (
        *_row_sources([row for row in wanted.rows if row.name in chosen], send, session),
        *_program_sources([one for one in wanted.programs if one.name in chosen], session),
    )
    cells = matrix.cells(chosen, {source.name: source for source in sources}, plan)
    began = time.perf_counter()
    with _progress("requests", 2 * len(cells)) as step:
        outcomes = run_cells(cells, send, plan.seed, step)
    return _Ran(sources, outcomes, time.perf_counter() - began)


def _row_sources(rows: Sequence[Row], send: Sender, session: _Session) -> list[Source]:
    if not rows:
        return []
    learned = learn(send, chat_of(session.client), session.plan.extra_key)
    if learned.failure is not None:
        return [Source(row.name, ROW, (), row.sampled_only, learned.failure) for row in rows]
    return [row_source(row, learned.prompts) for row in rows]


def chat_of(client: HttpClient) -> Chat:
    """Makes a user's message a prompt, in the chat format of the served model."""
    from sgl_spec.frontend.served_model import model_info, resolve_template

    template = resolve_template(None, model_info(client), client)

    def chat(message: str) -> str:
        messages = [{"role": "user", "content": message}]
        opening, _ = template.get_prefix_and_suffix("assistant", messages)
        return str(template.get_prompt(messages)) + str(opening)

    return chat


def _program_sources(programs: Sequence[LoadedProgram], session: _Session) -> tuple[Source, ...]:
    if not programs:
        return ()
    from sgl_spec.cli.check.recorded import record

    options, plan = session.options, session.plan
    endpoint = {"api_key": options.api_key, "extra_key": plan.extra_key}
    with _progress("programs", len(programs)) as step:
        return record(programs, options.url, endpoint, inputs=options.inputs, at_once=max(plan.batches), done=step)


@contextmanager
def _progress(what: str, total: int) -> Iterator[Callable[[], None]]:
    """A bar on stderr, and what moves it on by one, from any thread."""
    from tqdm import tqdm

    lock = threading.Lock()
    with tqdm(total=total, desc=what, file=sys.stderr) as bar:

        def step() -> None:
            with lock:
                bar.update()

        yield step


def _print(ran: _Ran, problems: Sequence[str], url: str) -> None:
    if ran.outcomes:
        print(f"{tables(ran.outcomes)} ({ran.seconds:.0f} s)")
    for text in difference_texts(ran.outcomes, url):
        print(f"\n{text}")
    print()
    for problem in problems:
        print(f"FAILED: {problem}")
    if not problems:
        print(f"passed: all {len(ran.outcomes)} comparisons agree")
