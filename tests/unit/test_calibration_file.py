"""Calibration tables on disk: the same after a load, and whatever is no such file is refused and says why."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgl_spec.drafting.calibration import calibration_file
from sgl_spec.drafting.calibration.calibration_file import load, save
from sgl_spec.drafting.calibration.tables import Calibration
from sgl_spec.drafting.memory.slot_key import SlotKey
from sgl_spec.drafting.tree import Chain
from sgl_spec.drafting.tree_merge import gather
from sgl_spec.errors import CalibrationFileError

MODEL = "a model"
KEY = SlotKey("owner", "program", "slot")


def taught(slots: int = 3, rounds: int = 20) -> Calibration:
    calibration = Calibration()
    random = np.random.default_rng(7)
    for number in range(slots * rounds):
        key = KEY._replace(slot=f"slot {number % slots}")
        situation = calibration.situation(key, float(number % 3) / 2)
        q = random.uniform(0.02, 0.99, 3).tolist()
        chains = [Chain((1, 2), (q[0], q[1]), "lookup"), Chain((1,), (q[2],), "memory")]
        weighed = calibration.weigh(gather([chains], 0, 8), situation, 8, 0.0)
        calibration.learn(weighed, situation, len(weighed.best), [1, int(random.integers(1, 4))])
    return calibration


def assert_same(one: Calibration, other: Calibration) -> None:
    assert one.origins == other.origins
    assert one.sets.tolist() == other.sets.tolist()
    assert list(one.slots) == list(other.slots)
    for mine, theirs in (
        (one.coarse, other.coarse),
        (one.fine, other.fine),
        *zip(one.slots.values(), other.slots.values(), strict=True),
    ):
        assert np.allclose(mine, theirs, rtol=1e-5)


def test_it_comes_back_as_it_was(tmp_path):
    calibration = taught()
    save(calibration, tmp_path / "c", MODEL)
    assert_same(calibration, load(tmp_path / "c", MODEL))
    assert json.loads((tmp_path / "c").read_text())["format"] == "sgl_spec calibration"
    assert (tmp_path / "c").stat().st_mode & 0o777 == 0o600


def test_without_a_file_the_tables_are_empty(tmp_path):
    assert_same(load(tmp_path / "none", MODEL), Calibration())


def test_the_most_recently_used_slots_are_kept(tmp_path):
    save(taught(slots=5), tmp_path / "c", MODEL)
    assert [key.slot for key in load(tmp_path / "c", MODEL, max_slots=2).slots] == ["slot 3", "slot 4"]
    assert not load(tmp_path / "c", MODEL, max_slots=0).slots


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_a_damaged_file_is_refused(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("damaged") / "c"
    save(taught(1, 2), path, MODEL)
    whole = path.read_bytes()
    kind = data.draw(st.sampled_from(["cut", "flip", "insert"]))
    place = data.draw(st.integers(0, len(whole) - 1))
    if kind == "cut":
        damaged = whole[:place]
    elif kind == "flip":
        damaged = whole[:place] + bytes([whole[place] ^ data.draw(st.integers(1, 255))]) + whole[place + 1 :]
    else:
        damaged = whole[:place] + data.draw(st.binary(min_size=1, max_size=4)) + whole[place:]
    path.write_bytes(damaged)
    try:
        same = json.loads(damaged) == json.loads(whole)  # a space more, say
    except ValueError:
        same = False
    if same:
        load(path, MODEL)
        return
    with pytest.raises(CalibrationFileError, match=str(path)):
        load(path, MODEL)


def signed(path: Path, **changes: object) -> None:
    """The file with other content and a checksum that fits."""
    held = json.loads(path.read_text())
    held.pop("checksum")
    path.write_text(json.dumps(calibration_file._signed(held | changes)))


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"format": "another"}, "is no 'sgl_spec calibration' file"),
        ({"version": 2}, "has version 2 of the format; this sgl_spec reads version 1"),
        ({"model": "other"}, "was learned with the model 'other'; this server has 'a model'"),
        ({"scale": "[]"}, "its buckets are not those of this sgl_spec"),
        ({"origins": ["x"] * 2}, "different names of origins"),
        ({"origins": [f"{n}" for n in range(31)]}, "wanted at most 30"),
        ({"origins": [7]}, "names of origins"),
        ({"sets": [[0]] * 65}, "holds 65 sets of origins; the most is 64"),
        ({"sets": [[99]]}, "holds a set of the origins"),
        ({"sets": 7}, "its content is not as it should be"),
        ({"coarse": [[10**9, 1, 1, 1]]}, "has no place in the tables"),
        ({"coarse": [[0, 1, 1, 1]]}, "has no place in the tables"),
        ({"coarse": [[20, 1, 1]]}, "has no place in the tables"),
        ({"coarse": [[20, 1.0, 2.0, 0.5]]}, "no more hits than trials"),
        ({"coarse": [[20, float("nan"), 0.0, 0.0]]}, "no more hits than trials"),
        ({"coarse": [[20, 1.0, float("nan"), 0.0]]}, "no more hits than trials"),
        ({"coarse": [[20, 1e9, 0.0, 0.0]]}, "no more hits than trials"),
        ({"fine": [[400, "many", 0.0]]}, "its content is not as it should be"),
        ({"fine": None}, "its content is not as it should be"),
        ({"slots": [{"cells": []}]}, "its content is not as it should be"),
        ({"slots": [{"key": ["one"], "cells": []}]}, "its content is not as it should be"),
    ],
)
def test_wrong_content_is_refused_even_with_the_right_checksum(tmp_path, changes, cause):
    path = tmp_path / "c"
    save(taught(), path, MODEL)
    signed(path, **changes)
    with pytest.raises(CalibrationFileError, match=cause):
        load(path, MODEL)


def test_what_is_no_file_is_refused(tmp_path):
    with pytest.raises(CalibrationFileError, match="is no regular file"):
        load(tmp_path, MODEL)
    with pytest.raises(CalibrationFileError, match="there is no folder"):
        load(tmp_path / "none" / "c", MODEL)
    (tmp_path / "big").write_bytes(b"[" * 100)
    with pytest.raises(CalibrationFileError, match="does not hold JSON"):
        load(tmp_path / "big", MODEL)
    with open(tmp_path / "big", "wb") as file:
        file.truncate(calibration_file.MOST_BYTES + 1)
    with pytest.raises(CalibrationFileError, match="the most is"):
        load(tmp_path / "big", MODEL)


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_save_that_fails_leaves_what_was_there(tmp_path, monkeypatch, step):
    path = tmp_path / "c"
    save(taught(), path, MODEL)
    before = path.read_bytes()

    def full_disk(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, step, full_disk)
    with pytest.raises(CalibrationFileError, match="cannot be written: No space left on device"):
        save(taught(1), path, MODEL)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
