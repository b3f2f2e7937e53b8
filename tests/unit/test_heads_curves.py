"""Curves as SVG, and the training log they are drawn from."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgl_spec.heads.curves import HEIGHT, WIDTH, Curve, draw_curves, smooth
from sgl_spec.heads.train_log import TrainLog, loss_curve, right_curve

SVG = "{http://www.w3.org/2000/svg}"
numbers = st.floats(allow_nan=True, allow_infinity=True, width=32)


def _points(svg: str) -> list[list[tuple[float, float]]]:
    lines = ElementTree.fromstring(svg).iter(f"{SVG}polyline")
    return [[tuple(map(float, pair.split(","))) for pair in line.attrib["points"].split()] for line in lines]  # type: ignore[misc]


names = st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=0x2FFF))


@given(st.lists(st.lists(numbers, max_size=20), max_size=4), names)
def test_any_curves_give_a_picture_with_everything_inside(ys: list[list[float]], name: str) -> None:
    curves = [Curve(name, [float(at) for at in range(len(values))], values) for values in ys]
    drawn = _points(draw_curves("a < b", name, curves))
    assert [len(line) for line in drawn] == [sum(map(math.isfinite, values)) for values in ys]
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for line in drawn for x, y in line)


def test_larger_is_higher_and_later_is_further_right() -> None:
    (line,) = _points(draw_curves("t", "x", [Curve("c", [0, 1, 2], [5.0, 1.0, 3.0])]))
    assert line[0][0] < line[1][0] < line[2][0]
    assert line[0][1] < line[2][1] < line[1][1]


@given(st.lists(st.floats(-1e6, 1e6), max_size=40), st.integers(1, 10))
def test_smoothing_is_a_running_mean(values: list[float], window: int) -> None:
    slow = [sum(values[max(0, at - window + 1) : at + 1]) / min(at + 1, window) for at in range(len(values))]
    assert smooth(values, window) == pytest.approx(slow, rel=1e-6, abs=1e-6)


def _log(folder: Path, steps: int) -> TrainLog:
    log = TrainLog(folder)
    log.begin_at(0)
    for step in range(steps):
        if step % 4 == 0:
            log.add(step, held_out={"loss": 9.0 - step, "losses": [1.0, 2.0], "right": [0.1 * step, 0.05 * step]})
        log.add(step, loss=8.0 - step, losses=[4.0 - step, 5.0 - step], right=[0.1, 0.2])
    return log


def test_a_log_is_cut_back_to_where_a_run_goes_on(tmp_path: Path) -> None:
    log = _log(tmp_path, 7)
    log.begin_at(5)
    assert [entry["step"] for entry in log.entries()] == [0, 0, 1, 2, 3, 4, 4]
    log.begin_at(0)
    assert log.entries() == []


def test_a_line_cut_off_by_a_crash_is_left_out(tmp_path: Path) -> None:
    log = _log(tmp_path, 2)
    with (tmp_path / "log.jsonl").open("a") as stream:
        stream.write('{"step": 2, "lo')
    assert [entry["step"] for entry in log.entries()] == [0, 0, 1]


def test_pictures_of_a_run(tmp_path: Path) -> None:
    entries = _log(tmp_path, 9).entries()
    loss, right = _points(loss_curve(entries)), _points(right_curve(entries))
    assert [len(line) for line in loss] == [9, 9, 3]
    assert [len(line) for line in right] == [3, 3]
    assert right[0][0][1] > right[0][-1][1], "more right guesses are drawn higher"
    assert _points(loss_curve([])) == [[]]
