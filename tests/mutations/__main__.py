"""Break the code on purpose and see the tests fail: `python tests/mutations [--server] [--jobs N] [name ...]`.

Every treatment of a parameter in `sgl_spec.server.parameter_table` has a mutation in the catalogue that drops it. For
each one the working tree is copied, the mutation applied, and the tests it names are run in the copy. It is caught when
all of them fail. Exit code 1: one survived, no longer fits the source, or kept its tests from running.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import NamedTuple

from catalogue import MUTATIONS
from mutation import Mutation, apply, misfit
from workspace import TestRun, WarmProcess, copy_working_tree, run_tests

CAUGHT, SURVIVED, BROKEN = "caught", "SURVIVED", "BROKEN"
QUICK_SECONDS, SERVER_SECONDS = 900.0, 1800.0


class Outcome(NamedTuple):
    """verdict: CAUGHT, SURVIVED or BROKEN; detail: the tests that failed, or what is wrong."""

    verdict: str
    detail: str


class Bench:
    """Where mutations are tried: a copy of the tree as it is now, and places for copies to break.

    original is left as it is. What numba compiles while tests run there, the copies inherit: they keep files' times.
    """

    def __init__(self, folder: Path, jobs: int) -> None:
        self.original = folder / "original"
        copy_working_tree(self.original)
        self._places = [folder / f"copy-{number}" for number in range(jobs)]
        self._warm: dict[Path, WarmProcess] = {}
        self._free: Queue[Path] = Queue()
        for place in self._places:
            self._free.put(place)

    def judge(self, mutation: Mutation) -> Outcome:
        place = self._free.get()
        try:
            shutil.copytree(self.original, place)
            wrong = misfit(mutation, place)
            if wrong is not None:
                return Outcome(BROKEN, wrong)
            apply(mutation, place)
            return _verdict(mutation, self._run(mutation, place))
        finally:
            shutil.rmtree(place, ignore_errors=True)
            self._free.put(place)

    def _run(self, mutation: Mutation, place: Path) -> TestRun:
        if mutation.needs_server:
            return run_tests(place, mutation.tests, SERVER_SECONDS)
        if place not in self._warm:
            self._warm[place] = WarmProcess(self.original)
        return self._warm[place].run_tests(place, mutation.tests, QUICK_SECONDS, mutation.file)

    def unbroken(self, mutations: Sequence[Mutation]) -> str:
        """What fails already without a mutation, or the empty string: a test that always fails catches nothing."""
        quick = sorted({test for m in mutations if not m.needs_server for test in m.tests})
        served = sorted({test for m in mutations if m.needs_server for test in m.tests})
        for tests, seconds in ((quick, QUICK_SECONDS), (served, SERVER_SECONDS)):
            run = run_tests(self.original, tests, seconds) if tests else None
            if run is not None and (run.failed or run.broken):
                return run.broken or "these fail without any mutation: " + ", ".join(sorted(run.failed))
        return ""

    def close(self) -> None:
        for process in self._warm.values():
            process.close()


def _verdict(mutation: Mutation, run: TestRun) -> Outcome:
    if run.broken:
        return Outcome(BROKEN, run.broken)
    missed = sorted(set(mutation.tests) - run.failed)
    return Outcome(SURVIVED, "passed: " + ", ".join(missed)) if missed else Outcome(CAUGHT, ", ".join(mutation.tests))


def _chosen(arguments: argparse.Namespace) -> list[Mutation]:
    if not arguments.names:
        return [m for m in MUTATIONS if m.needs_server == arguments.server]
    unknown = set(arguments.names) - {m.name for m in MUTATIONS}
    if unknown:
        raise SystemExit(f"no mutation is called {', '.join(sorted(unknown))}; --list shows their names")
    return [m for m in MUTATIONS if m.name in arguments.names]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python tests/mutations", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="mutations to try (default: all that need no server)")
    parser.add_argument("--server", action="store_true", help="those that need the bundled model instead")
    parser.add_argument("--jobs", type=int, default=2, help="how many to try at once (default 2)")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    return parser.parse_args()


def _try_all(mutations: Sequence[Mutation], bench: Bench, jobs: int) -> int:
    wrong = bench.unbroken(mutations)
    if wrong:
        print(f"nothing can be judged: {wrong}")
        return 1
    started, caught = time.monotonic(), 0
    with ThreadPoolExecutor(jobs) as pool:
        for mutation, outcome in zip(mutations, pool.map(bench.judge, mutations), strict=True):
            print(f"{outcome.verdict:8} {mutation.name:38} {outcome.detail}", flush=True)
            caught += outcome.verdict == CAUGHT
    print(f"{caught} of {len(mutations)} mutations caught in {time.monotonic() - started:.0f} s")
    return 0 if caught == len(mutations) else 1


def main() -> int:
    arguments = _arguments()
    mutations = _chosen(arguments)
    if arguments.list:
        print("\n".join(f"{m.name:38} {', '.join(m.parameters)}" for m in mutations))
        return 0
    # Servers measure free memory while they start: one at a time.
    jobs = 1 if any(m.needs_server for m in mutations) else arguments.jobs
    with tempfile.TemporaryDirectory(prefix="sgl_spec-mutations-") as folder:
        bench = Bench(Path(folder), jobs)
        try:
            return _try_all(mutations, bench, jobs)
        finally:
            bench.close()


if __name__ == "__main__":
    sys.exit(main())
