"""Copies of the working tree, and tests run in them against the copy's package."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from mutation import ROOT
from warm import OUTPUT

HERE = Path(__file__).parent
REPORT = "mutation-report.xml"
QUIET = ("-q", "--no-header", "-p", "no:cacheprovider", "--tb=line", f"--junitxml={REPORT}")


class TestRun(NamedTuple):
    """failed, passed: test ids, with their parameters and without them, where one failure makes a failed test. broken:
    what kept tests from being run at all, or the empty string."""

    failed: frozenset[str]
    passed: frozenset[str]
    broken: str


def copy_working_tree(target: Path) -> None:
    """The files git tracks or would track, as they are now."""
    listed = subprocess.run(
        ["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def run_tests(root: Path, tests: Sequence[str], seconds: float) -> TestRun:
    """Run `tests` (path::name) in the copy at `root` in a process of their own, for at most `seconds`."""
    command = [sys.executable, str(HERE / "run_here.py"), *QUIET, *tests]
    with open(root / OUTPUT, "wb") as output:
        try:
            status = subprocess.run(
                command, cwd=root, env=_environment(root), stdout=output, stderr=output, timeout=seconds
            ).returncode
        except subprocess.TimeoutExpired:
            status = None
    return _outcome(root, status)


class WarmProcess:
    """Runs tests in copies of `original`, much faster (see `warm`), one run at a time. Ended by `close`."""

    def __init__(self, original: Path) -> None:
        self._original = original
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "warm.py")], cwd=original, env=_environment(original), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def run_tests(self, root: Path, tests: Sequence[str], seconds: float, changed: str) -> TestRun:
        """As the function `run_tests`, in a copy of which one file was changed."""
        order = {
            "root": str(root), "original": str(self._original), "changed": changed, "seconds": seconds,
            "arguments": [*QUIET, *tests],
        }  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(order), file=self._process.stdin, flush=True)
        return _outcome(root, json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def _environment(root: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}


def _outcome(root: Path, status: int | None) -> TestRun:
    if status in (0, 1):  # 1: tests failed
        return _read(root / REPORT)
    output = root / OUTPUT
    lines = [line for line in (output.read_text() if output.exists() else "").splitlines() if line.strip()]
    what = "no end in time" if status is None else f"exit status {status}"
    return TestRun(frozenset(), frozenset(), " / ".join([what, *lines[-3:]]))


def _read(report: Path) -> TestRun:
    failed, ran, errors = set(), set(), set()
    for case in ElementTree.parse(report).iter("testcase"):
        whole = case.get("classname", "").replace(".", "/") + ".py::" + case.get("name", "")
        names = {whole, whole.partition("[")[0]}
        ran |= names
        if case.find("failure") is not None:
            failed |= names
        if case.find("error") is not None:
            errors |= names
    return TestRun(frozenset(failed), frozenset(ran - failed), f"errors in {sorted(errors)}" if errors else "")
