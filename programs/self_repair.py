"""Self-repair: the model writes a function, its tests run, a failure goes back to the model, and it tries again.

What speculation profits from: each repair copies most of the code before it, and the first line follows from the task.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import sglang as sgl

HERE = Path(__file__).parent
EXAMPLES = (HERE / "self_repair_examples.txt").read_text(encoding="utf-8")
ROUNDS = 3
UNFINISHED = "the code did not come to an end"


def run_tests(code, tests):
    """`passed` or the first failure, in one line. Generated code never runs in this process."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as report:
        try:
            subprocess.run(
                [sys.executable, "-P", "-s", HERE / "sandbox" / "run_tests.py"],
                input=json.dumps([code, tests]).encode(),
                stdout=subprocess.DEVNULL,
                stderr=report,
                cwd=folder,
                env={"PYTHONHASHSEED": "0"},  # a set may go back to the model: in the same order in every run
                timeout=10,
                check=True,
            )
        except subprocess.SubprocessError:
            return UNFINISHED
        report.seek(0)
        return report.read().decode(errors="replace").strip() or UNFINISHED


@sgl.function
def self_repair(s, task, tests):
    s += EXAMPLES + f"Task: Write a function {task}\n"
    for _ in range(ROUNDS):
        s += "Code:\n" + sgl.gen("code", max_tokens=96, temperature=0, stop=["\nResult:", "\n\n"])
        result = run_tests(s["code"], tests)
        s += f"\nResult: {result}\n"
        if result == "passed":
            return s["code"]
    return None


PROGRAM = self_repair


def inputs():
    tasks = [
        ("is_even(number) that tells whether a number is even.", [("is_even(4)", True), ("is_even(7)", False)]),
        ("join_words(words) that joins the words with spaces.", [("join_words(['a','b'])", "a b")]),
        ("difference(numbers) that returns the largest minus the smallest.", [("difference([2, 7, 3])", 5)]),
        ("add_positive(numbers) that returns the sum of the positive numbers.", [("add_positive([2, -3])", 2)]),
        ("to_fahrenheit(celsius) that returns the temperature.", [("to_fahrenheit(100)", 212)]),
        ("last_word(text) that returns the last word.", [("last_word('ab cd')", "cd")]),
    ]
    return [{"task": task, "tests": tests} for task, tests in tasks]


if __name__ == "__main__":
    from sgl_spec.frontend.program_main import run_program_file

    raise SystemExit(run_program_file(__file__))
