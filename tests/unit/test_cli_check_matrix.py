"""The matrix covers what it says, evenly, and is the same for the same seed; the runner keeps a batch full."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgl_spec.cli.check.answer import Answer, Reply
from sgl_spec.cli.check.matrix import Cell, Plan, cells, picks
from sgl_spec.cli.check.prompts import NAMES, Prompt
from sgl_spec.cli.check.rows import ROWS, row_source
from sgl_spec.cli.check.runner import run_cells, shuffled
from sgl_spec.cli.check.source import PROGRAM, ROW, Call, Source
from sgl_spec.drafting.hint import decode_hint

PLAN = Plan(60, (0.0, 0.7, 1.2), (1, 8), 0, "key")
HINT = {"version": 1, "program": "p", "slot": "s", "predict": "x", "origins": ["lookup"]}


def source(name: str, kind: Any = ROW, calls: int = 1, **more: Any) -> Source:
    params = {"max_new_tokens": 50, "custom_params": {"sgl_spec": HINT, "other": 1}}
    made = [Call(f"call{n}", {"text": f"{name}{n}", "sampling_params": params}) for n in range(calls)]
    return Source(name, kind, tuple(made), **more)


def made(names: list[str], plan: Plan, **more: Any) -> tuple[Cell, ...]:
    return cells(names, {name: source(name, **more) for name in names}, plan)


@given(st.integers(0, 12), st.integers(0, 40), st.integers(1, 120), st.integers(0, 5))
def test_everyone_is_picked_once_before_anyone_is_picked_twice(
    programs: int, rows: int, requests: int, seed: int
) -> None:
    names = [[f"p{n}" for n in range(programs)], [f"r{n}" for n in range(rows)]]
    chosen = picks(*names, PLAN._replace(requests=requests, seed=seed))
    everyone = programs + rows
    assert len(chosen) == (requests if everyone else 0)
    assert len(set(chosen[:everyone])) == min(everyone, requests)
    assert chosen == picks(*names, PLAN._replace(requests=requests, seed=seed))
    counts = Counter(chosen)
    for side in names:
        assert not side or max(counts[name] for name in side) - min(counts[name] for name in side) <= 1
    if programs and rows and requests > everyone:
        further = Counter(name[0] for name in chosen[everyone:])
        assert abs(further["p"] - further["r"]) <= 1


def test_few_picks_are_spread_over_programs_and_rows() -> None:
    chosen = picks([f"p{n}" for n in range(10)], [f"r{n}" for n in range(37)], PLAN._replace(requests=16))
    assert 2 <= sum(name.startswith("p") for name in chosen) <= 5


@given(st.integers(1, 40), st.integers(1, 3), st.integers(0, 9))
def test_a_source_has_all_its_variants_before_any_twice(requests: int, calls: int, seed: int) -> None:
    found = made(["a"] * requests, PLAN._replace(seed=seed), calls=calls)
    variants = Counter((cell.call, cell.temperature, cell.batch, cell.memory) for cell in found)
    every = calls * 3 * 2 * 2
    assert len(variants) == min(requests, every)
    assert max(variants.values()) == -(-requests // every)
    assert len({cell.sampling_seed for cell in found}) == requests


def test_values_are_had_evenly() -> None:
    found = made([f"s{n}" for n in range(24)] * 2, PLAN)
    for value in (lambda c: c.temperature, lambda c: c.batch, lambda c: c.memory):
        counts = Counter(value(cell) for cell in found)
        assert max(counts.values()) - min(counts.values()) <= 4
    per_source = Counter((cell.source, cell.batch) for cell in found)
    assert set(per_source.values()) == {1}


def test_the_seed_decides_and_nothing_else_does() -> None:
    names = [f"s{n}" for n in range(9)]
    assert made(names, PLAN) == made(names, PLAN)
    assert made(names, PLAN) != made(names, PLAN._replace(seed=1))


def test_a_source_without_requests_has_no_cell() -> None:
    assert cells(["a"], {"a": Source("a", PROGRAM, (), failure="x")}, PLAN) == ()


def test_what_only_sampling_shows_is_never_greedy() -> None:
    assert {cell.temperature for cell in made(["a"] * 20, PLAN, sampled_only=True)} == {0.7, 1.2}
    assert {cell.temperature for cell in made(["a"], PLAN._replace(temperatures=(0.0,)), sampled_only=True)} == {0.0}


def test_both_requests_differ_by_the_hint_alone() -> None:
    for cell in made(["a"] * 24, PLAN):
        on, off = cell.on["sampling_params"], cell.off["sampling_params"]
        assert {**on, "custom_params": None} == {**off, "custom_params": None}
        assert on["temperature"] == cell.temperature
        assert on["sampling_seed"] == cell.sampling_seed
        assert cell.on["extra_key"] == cell.off["extra_key"] == "key"
        assert on["custom_params"]["other"] == off["custom_params"]["other"] == 1
        hints = [decode_hint(params["custom_params"]["sgl_spec"]).hint for params in (on, off)]
        assert [hint and hint.off for hint in hints] == [False, True]
        assert {hint and hint.slot for hint in hints} == {"s"}
        assert {hint and hint.memory for hint in hints} == {"off" if cell.memory == "cold" else "read-write"}


def test_lengths_are_bounded_and_a_stream_has_a_whole_twin() -> None:
    body = {"text": "t", "sampling_params": {"max_new_tokens": 50, "min_new_tokens": 40}, "stream": True}
    streamed = Source("a", ROW, (Call("c", body),))
    cell = cells(["a"], {"a": streamed}, PLAN._replace(longest=16))[0]
    assert cell.on["sampling_params"]["max_new_tokens"] == cell.on["sampling_params"]["min_new_tokens"] == 16
    assert cell.on["stream"] is True
    assert "stream" not in cell.off
    assert body["sampling_params"] == {"max_new_tokens": 50, "min_new_tokens": 40}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
@pytest.mark.parametrize(
    "answer", ["A", "A reader may borrow up to eight books at a time, and keep each for a while. " * 2]
)
def test_every_row_makes_requests_of_any_answer(row: Any, answer: str) -> None:
    ids = tuple(range(100, 100 + len(answer) // 4 + 1))
    made = row_source(row, {name: Prompt(name, f"{name}?", ids, answer) for name in NAMES})
    assert [call.name for call in made.calls] == list(row.prompts)
    for call in made.calls:
        params = call.body["sampling_params"]
        assert params["max_new_tokens"] == row.tokens >= params.get("min_new_tokens", 0)
        assert all(params.get("stop", ["x"]))


def test_rows_have_names_of_their_own() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)


class Recorder:
    """Answers at once or slowly, and knows how many requests were under way, and in which order they came."""

    def __init__(self) -> None:
        self.most, self._now, self._lock = 0, 0, threading.Lock()
        self.bodies: list[Any] = []

    def __call__(self, body: Any) -> Reply:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
            self.bodies.append(body)
        time.sleep(0.002 * (body["sampling_params"]["sampling_seed"] % 3))
        with self._lock:
            self._now -= 1
        return Reply((Answer((1,), body["text"], {}),), 0.0)


@pytest.mark.parametrize("batch", [1, 4])
def test_as_many_are_under_way_as_the_batch_is_large(batch: int) -> None:
    found = made([f"s{n}" for n in range(20)], PLAN._replace(batches=(batch,)))
    send, steps = Recorder(), []
    outcomes = run_cells(found, send, 0, lambda: steps.append(1))
    assert send.most == batch
    assert len(steps) == len(send.bodies) == 40
    assert [one.cell for one in outcomes] == list(found)
    assert all(one.differences.none and one.on.answers[0].text == one.cell.on["text"] for one in outcomes)


def test_large_batches_come_first_and_then_one_by_one() -> None:
    found = made(["a"] * 24, PLAN._replace(batches=(1, 3)))
    send = Recorder()
    run_cells(found, send, 0, lambda: None)
    batch_of = {cell.sampling_seed: cell.batch for cell in found}
    order = [batch_of[body["sampling_params"]["sampling_seed"]] for body in send.bodies]
    assert order == sorted(order, reverse=True)


@given(st.integers(1, 30), st.integers(0, 5))
def test_a_warm_request_follows_its_twin_and_a_cold_one_may_do_as_it_likes(requests: int, seed: int) -> None:
    found = made(["a"] * requests, PLAN)
    jobs = shuffled(found, seed)
    assert sorted((job.cell.number, job.speculate) for job in jobs) == [
        (number, speculate) for number in range(requests) for speculate in (False, True)
    ]
    for cell in found:
        if cell.memory == "warm":
            assert [job.speculate for job in jobs if job.cell is cell] == [False, True]


def test_cold_requests_come_in_both_orders_and_others_come_between() -> None:
    found = made(["a"] * 30, PLAN)
    jobs = shuffled(found, 0)
    first = {job.cell.number: job.speculate for job in reversed(jobs) if job.cell.memory == "cold"}
    assert set(first.values()) == {True, False}
    apart = [jobs[n].cell is not jobs[n + 1].cell for n in range(len(jobs) - 1)]
    assert sum(apart) > 50
