"""The command line itself: fast and light help, one-sentence errors, exit codes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from sgl_spec import cli
from sgl_spec.cli import doctor, model
from sgl_spec.cli.signals import Terminated, raise_on_termination, signals_held
from sgl_spec.errors import ModelPreparationError

LIGHT = """
import sys
from sgl_spec.cli import main
try:
    main({argv})
except SystemExit:
    pass
heavy = [name for name in ("torch", "sglang", "transformers", "numpy", "requests") if name in sys.modules]
sys.exit("imported: " + " ".join(heavy) if heavy else 0)
"""


def run_cli(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "sgl_spec.cli", *argv], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("argv", [["--help"], ["serve", "--help"], ["bench", "--help"], ["run", "--help"]])
def test_help_imports_nothing_heavy(argv):
    done = subprocess.run([sys.executable, "-c", LIGHT.format(argv=argv)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "usage: sgl-spec" in done.stdout


def test_help_answers_at_once():
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        assert run_cli("--help").returncode == 0
        seconds.append(time.perf_counter() - began)
    assert min(seconds) < 0.3


def test_every_command_is_in_the_help():
    out = run_cli("--help").stdout
    for command in ("serve", "run", "demo", "bench", "model", "doctor"):
        assert f"\n    {command} " in out


def test_an_unknown_flag_is_refused_except_where_sglang_takes_it(capsys):
    with pytest.raises(SystemExit) as left:
        cli.main(["model", "--tp-size", "2"])
    assert left.value.code == 2
    assert "--tp-size 2" in capsys.readouterr().err


def outcome(monkeypatch, capsys, error: BaseException) -> tuple[int, str]:
    def fail(args):
        raise error

    monkeypatch.setattr(model, "run", fail)
    code = cli.main(["model"])
    captured = capsys.readouterr()
    assert captured.out == ""
    return code, captured.err


def test_our_errors_are_one_sentence(monkeypatch, capsys):
    assert outcome(monkeypatch, capsys, ModelPreparationError("No model.")) == (2, "sgl-spec model: No model.\n")


def test_ctrl_c_is_130(monkeypatch, capsys):
    code, err = outcome(monkeypatch, capsys, KeyboardInterrupt())
    assert code == 130
    assert "Traceback" not in err


def test_sigterm_runs_cleanup_and_is_143(monkeypatch):
    cleaned = []

    def terminated(args):
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)
        finally:
            cleaned.append(True)

    monkeypatch.setattr(model, "run", terminated)
    before = signal.getsignal(signal.SIGTERM)
    assert cli.main(["model"]) == 143
    assert cleaned == [True]
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_held_signal_arrives_afterwards_and_children_are_not_deaf():
    steps = []

    def work() -> None:
        with raise_on_termination():
            with signals_held():
                signal.raise_signal(signal.SIGTERM)
                child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
                child.terminate()
                steps.append(child.wait(20))
            steps.append("not reached")

    with pytest.raises(Terminated):
        work()
    assert steps == [-signal.SIGTERM]


class Row:
    def __init__(self, name: str, ok: bool) -> None:
        self.name, self.where, self.ok, self.detail = name, "sglang.x", ok, "as expected" if ok else "gone"


def test_contract_table_marks_what_is_broken():
    lines = doctor.contract_table([Row("here", True), Row("lost", False)]).splitlines()
    assert lines[2].split() == ["ok", "here", "sglang.x", "as", "expected"]
    assert lines[3].split() == ["BROKEN", "lost", "sglang.x", "gone"]
