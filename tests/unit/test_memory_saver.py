"""Saving beside the rounds: when something is new, once more at the end, and never to a request's harm."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sgl_spec.drafting.memory import memory_saver
from sgl_spec.drafting.memory.memory_file import MemoryIdentity, load
from sgl_spec.drafting.memory.memory_saver import MemorySaver
from sgl_spec.drafting.memory.output_memory import OutputMemory
from sgl_spec.drafting.memory.slot_key import SlotKey
from sgl_spec.errors import ConfigError

IDENTITY = MemoryIdentity("tokenizer", 1_000)
KEY = SlotKey("owner", "p", "s")
HOUR = 3600.0
SOON = 0.01


def until(reached: Callable[[], bool]) -> None:
    last = time.monotonic() + 20
    while not reached():
        assert time.monotonic() < last, "waited 20 seconds for it"
        time.sleep(0.01)


@pytest.fixture
def memory() -> OutputMemory:
    return OutputMemory(10_000, 1_000)


@pytest.fixture
def saves(monkeypatch) -> list[int]:
    """The size of the memory at each save; saves are real."""
    made: list[int] = []
    real = memory_saver.save

    def counted(memory: OutputMemory, path: Path, identity: MemoryIdentity) -> None:
        made.append(len(memory.outputs(KEY, 1_000)))
        real(memory, path, identity)

    monkeypatch.setattr(memory_saver, "save", counted)
    return made


def test_what_is_new_is_saved_and_what_is_not_is_not(memory, saves, tmp_path):
    saver = MemorySaver(memory, tmp_path / "m", IDENTITY, SOON)
    time.sleep(20 * SOON)
    assert saves == []
    memory.remember(KEY, [1])
    until(lambda: (tmp_path / "m").exists())
    time.sleep(20 * SOON)
    memory.remember(KEY, [2])
    until(lambda: saves == [1, 2])
    saver.close()
    saver.close()
    assert saves == [1, 2]
    assert load(tmp_path / "m", IDENTITY, 10_000, 1_000).snapshot() == memory.snapshot()


def test_between_two_saves_it_waits_and_at_the_end_it_does_not(memory, saves, tmp_path):
    saver = MemorySaver(memory, tmp_path / "m", IDENTITY, HOUR)
    for number in range(5):
        memory.remember(KEY, [number])
    assert saves == []
    saver.close()
    assert saves == [5]
    assert len(load(tmp_path / "m", IDENTITY, 10_000, 1_000).outputs(KEY)) == 5


def test_trouble_is_logged_once_for_each_kind_and_tried_again(memory, tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.WARNING)
    tried: list[Exception] = []
    folder = tmp_path / "unmounted"

    def failing(memory: OutputMemory, path: Path, identity: MemoryIdentity) -> None:
        try:
            real(memory, path, identity)
            if len(tried) > 3:
                raise RuntimeError("a bug of our own")
        except Exception as error:
            tried.append(error)
            raise

    real = memory_saver.save
    monkeypatch.setattr(memory_saver, "save", failing)
    saver = MemorySaver(memory, folder / "m", IDENTITY, SOON)
    memory.remember(KEY, [1])
    until(lambda: len(tried) > 3)
    folder.mkdir()
    until(lambda: len(tried) > 5)
    monkeypatch.setattr(memory_saver, "save", real)
    memory.remember(KEY, [2])
    saver.close()
    assert load(folder / "m", IDENTITY, 10_000, 1_000).outputs(KEY) == ((2,), (1,))
    first, second = (record.getMessage() for record in caplog.records)
    assert f"memory file {folder / 'm'}: cannot be written: No such file or directory" in first
    assert "a bug of our own" in second


def test_every_file_written_meanwhile_is_whole(memory, tmp_path):
    saver = MemorySaver(memory, tmp_path / "m", IDENTITY, 0.001)
    for number in range(400):
        memory.remember(KEY, [number % 1_000, number % 7])
        if number % 20 == 0:
            until(lambda: (tmp_path / "m").exists())
            found = load(tmp_path / "m", IDENTITY, 10_000, 1_000)
            assert found.outputs(KEY, 1) == found.outputs(KEY._replace(slot=""), 1)
    saver.close()
    assert load(tmp_path / "m", IDENTITY, 10_000, 1_000).snapshot() == memory.snapshot()
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_an_interval_is_needed(memory, tmp_path):
    with pytest.raises(ConfigError, match="interval_s is 0; seconds between two saves must be above 0"):
        MemorySaver(memory, tmp_path / "m", IDENTITY, 0)
