"""What verifying costs: measured where nothing is kept, kept for this machine and model alone, and never a reason not
to start. The forwards themselves are measured by servers, see tests/server."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sgl_spec.drafting.cost_model import PRIOR, CostTable
from sgl_spec.errors import CostTableError
from sgl_spec.server import cost_probe
from sgl_spec.server.cost_probe import FOLDER, ROWS, Fingerprint, cost_table, load, measured, save
from sgl_spec.server.model_name import model_name

FINGERPRINT = Fingerprint(1, "verifying", "here", "a processor", 2, "a model", "bfloat16", "2.0")
TABLE = CostTable((1, 8), (0.05, 0.06), 1e-7)


class Machine:
    """A forward's times; the clock is its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, slowness: float = 1.0) -> None:
        self.now, self.slowness = 0.0, slowness
        self.forwards: list[tuple[int, int]] = []
        monkeypatch.setattr(cost_probe.time, "perf_counter", lambda: self.now)

    def __call__(self, width: int, context: int) -> float:
        noise = 1.5 if len(self.forwards) % 3 == 0 else 1.0  # every third forward is disturbed
        self.forwards.append((width, context))
        seconds = self.slowness * noise * (0.05 + 0.001 * width + 1e-7 * width * context)
        self.now += seconds
        return seconds


def test_the_table_is_of_the_fastest_passes(monkeypatch):
    machine = Machine(monkeypatch)
    table = measured(machine, 128)
    assert table.rows == ROWS
    for rows, seconds in zip(table.rows, table.seconds, strict=True):
        assert seconds == pytest.approx(0.05 + 0.001 * rows, rel=0.01)
    assert table.per_key == pytest.approx(1e-7, rel=0.01)


def test_no_more_rows_than_there_is_room_for(monkeypatch):
    assert measured(Machine(monkeypatch), 20).rows == (1, 2, 4, 6, 8, 12, 16)


def test_on_a_slow_machine_less_is_measured_and_on_a_very_slow_one_nothing_is_believed(monkeypatch):
    machine = Machine(monkeypatch, slowness=6.0)
    table = measured(machine, 128)
    assert table.rows[-1] >= 16
    assert machine.now < 6 * cost_probe.MOST_SECONDS
    machine = Machine(monkeypatch, slowness=40.0)
    with pytest.raises(CostTableError, match="rows were all that"):
        measured(machine, 128)
    assert machine.now < 6 * cost_probe.MOST_SECONDS


def test_a_kept_table_comes_back_for_its_fingerprint_alone(tmp_path):
    path = tmp_path / "costs" / FINGERPRINT.name()
    assert load(path, FINGERPRINT) is None
    save(path, FINGERPRINT, TABLE)
    assert load(path, FINGERPRINT) == TABLE
    for field, other in (("machine", "there"), ("threads", 4), ("model", "b"), ("dtype", "float32"), ("torch", "3.0")):
        elsewhere = FINGERPRINT._replace(**{field: other})
        assert elsewhere.name() != FINGERPRINT.name()
        with pytest.raises(CostTableError, match="is of another machine, model or version"):
            load(path, elsewhere)


NO_FINGERPRINT = '{"rows": [1], "seconds": [1.0], "per_key": 0.0}'


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "null", '{"fingerprint": 7}', "\udcff", NO_FINGERPRINT])
def test_a_damaged_file_is_refused(tmp_path, text):
    path = tmp_path / "costs.json"
    path.write_text(text, errors="surrogateescape")
    with pytest.raises(CostTableError, match=r"costs\.json"):
        load(path, FINGERPRINT)


@pytest.mark.parametrize(
    "change", [{"rows": [2, 1]}, {"seconds": [0.05, -1.0]}, {"seconds": [0.05]}, {"rows": "12"}, {"per_key": None}]
)
def test_a_table_that_is_none_is_refused(tmp_path, change):
    path = tmp_path / "costs.json"
    save(path, FINGERPRINT, TABLE)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(CostTableError):
        load(path, FINGERPRINT)


def runner(**config: Any) -> Any:
    held = {"hf_config": SimpleNamespace(to_dict=lambda: {"layers": 2}), "quantization": None, "dtype": "bfloat16"}
    model_config = SimpleNamespace(**(held | config))
    return SimpleNamespace(model_config=model_config, device="cpu", token_to_kv_pool=SimpleNamespace(size=8192))


@pytest.fixture
def measurements(monkeypatch, tmp_path) -> list[Any]:
    """Each measurement that a start made; it gives TABLE."""
    made: list[Any] = []
    monkeypatch.setenv("SGLSPEC_CACHE", str(tmp_path))
    monkeypatch.setattr(cost_probe, "measured", lambda forward, rows: made.append(rows) or TABLE)
    return made


def test_a_machine_is_measured_once_for_a_model(measurements, tmp_path):
    assert cost_table(runner()) == cost_table(runner()) == TABLE
    assert measurements == [128]
    cost_table(runner(quantization="w8a8"))
    assert len(measurements) == 2
    assert len(list((tmp_path / FOLDER).iterdir())) == 2


def test_a_damaged_file_is_measured_anew(measurements, tmp_path, caplog):
    cost_table(runner())
    (path,) = (tmp_path / FOLDER).iterdir()
    path.write_text("{")
    assert cost_table(runner()) == TABLE
    assert len(measurements) == 2
    assert "it is measured anew" in caplog.text
    cost_table(runner())
    assert len(measurements) == 2


def test_what_cannot_be_measured_or_kept_is_said_and_the_server_starts(measurements, monkeypatch, tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    (tmp_path / FOLDER).write_text("a file in the folder's place")
    assert cost_table(runner()) == TABLE
    assert "cannot be kept" in caplog.text

    def fails(forward: object, rows: int) -> CostTable:
        raise RuntimeError("no dummy batches here")

    monkeypatch.setattr(cost_probe, "measured", fails)
    (tmp_path / FOLDER).unlink()
    assert cost_table(runner()) == PRIOR
    assert "RuntimeError: no dummy batches here" in caplog.text


def test_a_model_is_named_by_what_it_is():
    one = runner().model_config
    assert model_name(one) == model_name(runner().model_config)
    other = runner(hf_config=SimpleNamespace(to_dict=lambda: {"layers": 3})).model_config
    assert len({model_name(one), model_name(other), model_name(runner(quantization="q").model_config)}) == 3


def test_the_log_says_what_was_found():
    assert cost_probe.described(TABLE) == "1 rows 50.0 ms, 8 rows 60.0 ms"
    assert Path(FINGERPRINT.name()).suffix == ".json"
