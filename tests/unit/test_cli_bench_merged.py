"""The merged tree against single origins: which is best, by how much, and silence where there is nothing to say."""

from __future__ import annotations

import pytest

from sgl_spec.cli.bench.measure import Sample
from sgl_spec.cli.bench.merged import merged_results, merged_table
from sgl_spec.cli.bench.summary import summarise
from sgl_spec.frontend.call_log import CallRecord


def sample(workload: str, mode: str, steps: int, tokens: int = 13) -> Sample:
    call = CallRecord(
        kind="gen", program=None, slot="s", text="t", prompt_tokens=1, completion_tokens=tokens, cached_tokens=0,
        latency=0.1, spec_verify_ct=steps, output_ids=(),
    )  # fmt: skip
    return Sample(workload, "task", mode, 0, 1.0, (call,))


def rows(**steps: dict[str, int]):
    """Rows of workloads whose modes needed so many steps for 12 tokens."""
    return summarise([sample(name, mode, count) for name, modes in steps.items() for mode, count in modes.items()])


def test_the_merged_tree_is_held_against_the_best_single_origin():
    win, loss = merged_results(
        rows(
            react={"off": 12, "full": 3, "lookup": 4, "memory": 6},
            bfcl={"off": 12, "full": 4, "lookup": 12, "grammar": 3, "cold": 1, "ngram": 1},
        )
    )
    assert (win.workload, win.best.origin, win.margin, win.holds) == ("react", "lookup", 1.0, True)
    assert (loss.best.origin, loss.margin, loss.holds) == ("grammar", -1.0, False)


def test_equal_holds_and_names_the_first_of_equals():
    (same,) = merged_results(rows(w={"off": 12, "full": 4, "template": 4, "grammar": 4}))
    assert (same.best.origin, same.margin, same.holds) == ("grammar", 0.0, True)


@pytest.mark.parametrize("steps", [{"off": 12, "full": 3}, {"off": 12, "lookup": 3}, {"off": 12, "full": 3, "cold": 4}])
def test_without_both_sides_there_is_nothing_to_hold(steps):
    assert merged_results(rows(w=steps)) == ()
    assert merged_table(rows(w=steps)) == ""


def test_a_mode_that_decoded_nothing_is_left_out():
    samples = [sample("w", "off", 0, 1), sample("w", "full", 0, 1), sample("w", "lookup", 0, 1)]
    assert merged_results(summarise(samples)) == ()


def test_the_table_has_a_line_per_workload():
    table = merged_table(
        rows(react={"off": 12, "full": 3, "lookup": 4}, bfcl={"off": 12, "full": 4, "lookup": 12, "grammar": 3})
    )
    _, _, react, bfcl = (line.split() for line in table.splitlines())
    assert react == ["react", "4.00", "3.00", "-", "lookup", "+1.000", "yes"]
    assert bfcl == ["bfcl", "3.00", "1.00", "4.00", "grammar", "-1.000", "NO"]
