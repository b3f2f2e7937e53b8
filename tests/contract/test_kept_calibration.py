"""The calibration tables of a server: loaded at start, saved beside the rounds; a bad file is left alone."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from sgl_spec import SpecConfig
from sgl_spec.drafting.calibration.calibration_file import load, save
from sgl_spec.drafting.calibration.tables import Calibration
from sgl_spec.drafting.memory.slot_key import SlotKey
from sgl_spec.drafting.tree import Chain
from sgl_spec.drafting.tree_merge import gather
from sgl_spec.server import kept_calibration
from sgl_spec.server.kept_calibration import open_calibration

KEY = SlotKey("o", "p", "s")


def teach(calibration: Calibration) -> None:
    situation = calibration.situation(KEY, 0.0)
    weighed = calibration.weigh(gather([[Chain((1,), (0.5,), "lookup")]], 0, 4), situation, 4, 0.0)
    calibration.learn(weighed, situation, 2, [1])


@pytest.fixture
def closers(monkeypatch) -> list[object]:
    """What was registered to run when the process ends."""
    registered: list[object] = []
    monkeypatch.setattr(kept_calibration.atexit, "register", registered.append)
    return registered


def test_what_was_learned_is_there_at_the_next_start(tmp_path: Path, closers) -> None:
    config = SpecConfig(calibration_file=str(tmp_path / "c"))
    calibration = open_calibration(config, "model", saves=True)
    assert calibration is not None
    teach(calibration)
    (close,) = closers
    close()  # type: ignore[operator]
    again = open_calibration(config, "model", saves=False)
    assert again is not None
    assert again.coarse.tolist() == calibration.coarse.tolist()
    assert len(closers) == 1  # a rank that does not save has no thread


def test_a_file_that_cannot_be_used_is_left_alone(tmp_path: Path, caplog, closers) -> None:
    caplog.set_level(logging.ERROR)
    path = tmp_path / "c"
    save(Calibration(), path, "another model")
    before = path.read_bytes()
    calibration = open_calibration(SpecConfig(calibration_file=str(path)), "model", saves=True)
    assert calibration is not None
    teach(calibration)
    assert "was learned with the model 'another model'" in caplog.text
    assert closers == []
    assert path.read_bytes() == before
    assert load(path, "another model").changes == 0


def test_a_configuration_without_calibration_has_none() -> None:
    assert open_calibration(SpecConfig(calibrated=False), "model", saves=True) is None
    assert open_calibration(SpecConfig(), "model", saves=True) is not None
