"""The bench's arithmetic: steps, tokens per step, medians, speed, identity, tables."""

from __future__ import annotations

import pytest

from sgl_spec.cli.bench import ALL_MODES
from sgl_spec.cli.bench.measure import Sample, rotated
from sgl_spec.cli.bench.modes import MODES, parse_modes
from sgl_spec.cli.bench.stats import (
    OriginTotal,
    abstained,
    decode_steps,
    forced_share,
    origin_totals,
    spread,
    tokens_per_step,
)
from sgl_spec.cli.bench.summary import (
    abstained_table,
    difference_text,
    differences,
    drafts_text,
    failures,
    main_table,
    origin_table,
    summarise,
)
from sgl_spec.cli.demo import demo_table
from sgl_spec.cli.run import call_table
from sgl_spec.cli.text_table import render
from sgl_spec.errors import ConfigError
from sgl_spec.frontend.call_log import CallRecord


def call(ids=(1, 2, 3), verified=None, spec=None, text="abc") -> CallRecord:
    return CallRecord(
        kind="gen", program=None, slot="s", text=text, prompt_tokens=5, completion_tokens=len(ids), cached_tokens=0,
        latency=0.5, finish_reason="stop", spec=spec, spec_verify_ct=verified, output_ids=tuple(ids),
    )  # fmt: skip


def spec(rounds, drafted, accepted, gave_up=0, reached=None):
    return ({} if reached is None else {"reached": {"all": reached, "lookup": reached}}) | {
        "rounds": rounds,
        "drafted": {"all": drafted, "lookup": drafted},
        "accepted": {"all": accepted, "lookup": accepted},
        "abstained": {"no_match": gave_up} if gave_up else {},
        "tokens": 0,
    }


def sample(mode, seconds, *calls, task="t", number=0, workload="w") -> Sample:
    return Sample(workload, task, mode, number, seconds, calls or (call(),))


def test_plain_decoding_is_one_token_per_step():
    calls = [call(range(9)), call(range(4))]
    assert [decode_steps(one) for one in calls] == [8, 3]
    assert tokens_per_step(calls) == 1.0


def test_a_speculating_call_counts_its_rounds():
    # 13 tokens: one from prefill, twelve from four rounds.
    assert tokens_per_step([call(range(13), verified=4)]) == 3.0
    assert decode_steps(call(range(13), verified=4, spec=spec(6, 9, 8))) == 6, "undrafted rounds are steps too"
    # Sums, not a mean of ratios: (12 + 3) / (4 + 1).
    assert tokens_per_step([call(range(13), verified=4), call(range(4), verified=1)]) == 3.0


def test_calls_that_decode_nothing_have_no_ratio():
    assert tokens_per_step([]) is None
    assert tokens_per_step([call([7])]) is None
    assert decode_steps(call([])) == 0


def test_spread_is_median_and_quartiles():
    assert spread([5.0]) == (5.0, 5.0, 5.0)
    assert spread([4.0, 1.0, 2.0, 3.0, 100.0]) == (3.0, 2.0, 4.0)
    with pytest.raises(ValueError, match="No values"):
        spread([])


def test_origins_are_summed_and_the_total_is_no_origin():
    calls = [call(spec=spec(3, 10, 4)), call(spec=spec(2, 5, 5, gave_up=2)), call()]
    assert origin_totals(calls) == (OriginTotal("lookup", 15, 9),)
    assert abstained(calls) == {"no_match": 2}


def test_speed_is_from_medians_over_rounds():
    samples = [
        *(sample("off", seconds, number=number) for number, seconds in enumerate([2.0, 2.2, 50.0])),
        *(sample("full", seconds, number=number) for number, seconds in enumerate([1.1, 1.0, 1.2])),
    ]
    off, full = summarise(samples)
    assert (off.mode, full.mode) == ("off", "full")
    assert full.speedup == pytest.approx(2.2 / 1.1)
    assert off.speedup == 1.0
    assert (full.tasks, full.samples, full.identical) == (1, 3, 3)


def test_baseline_comes_first_whatever_the_order_of_samples():
    rows = summarise([sample("full", 1.0), sample("off", 1.0)])
    assert [row.mode for row in rows] == ["off", "full"]


def test_a_differing_output_is_found_and_told_and_only_ours_fails():
    samples = [
        sample("off", 1.0, call([1, 2], text="same old")),
        sample("full", 1.0, call([1, 9], text="same new")),
        sample("ngram", 1.0, call([1, 8], text="same odd")),
    ]
    found = differences(samples)
    assert {one.sample.mode for one in found} == {"full", "ngram"}
    (bad,) = failures(found, parse_modes("off,ngram,full"))
    text = difference_text(bad)
    assert "character 5" in text
    assert "'new' against 'old'" in text
    assert [row.identical for row in summarise(samples)] == [1, 0, 0]


def test_token_ids_decide_even_where_texts_agree():
    assert differences([sample("off", 1.0, call([1, 2])), sample("full", 1.0, call([3, 2]))])


def test_another_number_of_calls_is_a_difference():
    (found,) = differences([sample("off", 1.0, call(), call()), sample("full", 1.0, call())])
    assert difference_text(found).endswith("'full' made 1 calls, 'off' 2.")


def test_same_task_name_in_two_workloads_is_not_mixed_up():
    samples = [
        sample("off", 1.0, call([1, 2]), workload="a"), sample("full", 1.0, call([1, 2]), workload="a"),
        sample("off", 1.0, call([3, 4]), workload="b"), sample("full", 1.0, call([3, 4]), workload="b"),
    ]  # fmt: skip
    assert differences(samples) == ()


def test_tables_show_what_was_measured():
    samples = [sample("off", 2.0, call(range(13))), sample("full", 1.0, call(range(13), 4, spec(4, 20, 8, 1)))]
    rows = summarise(samples)
    full = main_table(rows).splitlines()[3].split()
    assert full == ["w", "full", "1", "1.00", "(1.00-1.00)", "2.00x", "13", "4", "3.00", "-", "0.0", "%", "1/1"]
    origins = origin_table(rows).splitlines()
    assert len(origins) == 3, "a mode that reports no drafts has no line"
    assert origins[2].split() == ["w", "full", "lookup", "20", "-", "8", "-"]
    assert abstained_table(rows).splitlines()[2].split() == ["w", "full", "no_match", "1"]
    (line,) = demo_table(rows).splitlines()[2:]
    assert line.split() == ["w", "1", "2.00", "1.00", "2.00x", "13", "4", "3.00", "lookup", "8/20", "yes"]


def test_demo_table_says_no():
    rows = summarise([sample("off", 1.0, call([1, 2])), sample("full", 1.0, call([1, 3]))])
    assert "NO (1 of 1 differ)" in demo_table(rows)


def test_tables_of_drafts_are_empty_without_reports():
    rows = summarise([sample("off", 1.0)])
    assert origin_table(rows) == abstained_table(rows) == ""
    assert rows[0].forced_share is None
    assert main_table(rows).splitlines()[2].split()[-3:] == ["-", "-", "1/1"]


def test_origins_tell_how_many_of_the_reached_were_accepted():
    calls = [call(range(13), 4, spec(4, 20, 8, reached=10)), call(range(13), 4, spec(4, 5, 1, reached=2))]
    (total,) = origin_totals(calls)
    assert (total.reached, total.accepted_of_reached) == (12, 0.75)
    rows = summarise([sample("off", 1.0), sample("full", 1.0, *calls)])
    assert origin_table(rows).splitlines()[2].split() == ["w", "full", "lookup", "25", "12", "9", "75.0", "%"]


def test_one_call_that_does_not_tell_makes_the_reached_unknown():
    (total,) = origin_totals([call(spec=spec(4, 20, 8, reached=10)), call(spec=spec(4, 20, 8))])
    assert (total.reached, total.accepted_of_reached) == (None, None)
    (never,) = origin_totals([call(spec=spec(1, 3, 0, reached=0))])
    assert (never.reached, never.accepted_of_reached) == (0, None)


def forced(**accepted: int):
    return {"rounds": 2, "accepted": {f"grammar.{origin}": count for origin, count in accepted.items()}}


def test_forced_share_is_of_all_tokens_that_could_tell():
    calls = [
        call(range(10), spec=forced(forced=3, text=2, branch=4)),
        call(range(10), spec=forced(edge=5)),
        call(range(50)),
    ]
    assert forced_share(calls) == 5 / 20
    assert forced_share([call()]) is None
    assert forced_share([call([], spec=forced())]) is None


def tasks_of(mode, *steps, number=0):
    """One sample per task, each of 13 tokens, in so many steps."""
    return [sample(mode, 1.0, call(range(13), count), task=f"t{at}", number=number) for at, count in enumerate(steps)]


def test_tokens_per_step_once_memory_is_filled_are_of_the_seventh_task_on_in_each_pass():
    passes = [
        *tasks_of("off", *[12] * 8, number=0), *tasks_of("off", *[12] * 8, number=1),
        *tasks_of("full", *[12] * 6, 4, 3, number=0), *tasks_of("full", *[12] * 6, 2, 3, number=1),
    ]  # fmt: skip
    off, full = summarise(passes)
    assert off.filled_tokens_per_step == 1.0
    assert full.filled_tokens_per_step == 48 / 12
    assert full.tokens_per_step == 16 * 12 / (12 * 12 + 12)
    assert main_table([full]).splitlines()[2].split()[9] == "4.00"
    assert summarise(tasks_of("off", *[12] * 6))[0].filled_tokens_per_step is None


def test_call_table_has_a_row_per_call_and_a_total():
    lines = call_table([call(range(5), 2, spec(2, 6, 2)), call(range(3))]).splitlines()
    assert lines[2].split() == ["1", "s", "5", "2", "2.00", "0.50", "lookup", "2/6", "-"]
    assert lines[4].split() == ["all", "8", "4", "1.50", "1.00", "lookup", "2/6", "-"]


def test_render_refuses_ragged_rows():
    with pytest.raises(ValueError, match="2 columns"):
        render(["a", "b"], [["1"]], "<<")
    assert render(["a", "bb"], [["xyz", "1"]], "<>") == "a    bb\n---  --\nxyz   1"


def test_the_order_of_modes_turns():
    assert [rotated("abc", turns) for turns in range(4)] == [tuple("abc"), tuple("bca"), tuple("cab"), tuple("abc")]


def test_modes_are_checked():
    assert [mode.name for mode in parse_modes("full, off")] == ["off", "full"]
    assert MODES["full"].must_match
    assert not MODES["ngram"].must_match
    assert ",".join(MODES) == ALL_MODES
    for text, message in [("full", "must contain 'off'"), ("off,turbo", "'turbo'"), ("off,full,full", "2 times")]:
        with pytest.raises(ConfigError, match=message):
            parse_modes(text)


def test_many_origins_are_told_in_one_line():
    drafts = [OriginTotal(origin, 9, 4) for origin in ("lookup", "memory", "template")]
    assert drafts_text(drafts) == "lookup 4/9, memory 4/9, template 4/9"
    assert drafts_text(drafts, 2) == "lookup 4/9, memory 4/9, 1 more"
    assert drafts_text(drafts, 3) == drafts_text(drafts)
    assert drafts_text([], 2) == "-"
