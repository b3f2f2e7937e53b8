"""Shards and folders of samples: what is written is read, and what is damaged or of another kind is refused."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sgl_spec.errors import ConfigError
from sgl_spec.heads.data_settings import DataSettings
from sgl_spec.heads.sample_folder import SETTINGS_FILE, SampleFolder
from sgl_spec.heads.samples import Shard, read_shard, write_shard
from tests.unit.heads_world import VOCABULARY, random_sample, same

SETTINGS = DataSettings("model", VOCABULARY)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(), st.integers(0, 6), st.integers(0, 10**9))
def test_a_shard_is_read_as_it_was_written(tmp_path: Path, seed: int, count: int, next_number: int) -> None:
    rng = random.Random(seed)
    shard = Shard(tuple(random_sample(rng, number) for number in range(count)), next_number)
    write_shard(tmp_path / "shard.npz", shard)
    found = read_shard(tmp_path / "shard.npz")
    assert found.next_number == next_number
    assert len(found.samples) == count
    assert all(map(same, found.samples, shard.samples))
    assert [path.name for path in tmp_path.iterdir()] == ["shard.npz"]


def _written(path: Path, **changed: object) -> Path:
    """A shard's file with some of its arrays replaced (None takes one out)."""
    write_shard(path, Shard((random_sample(random.Random(1)),), 1))
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files} | changed
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})  # type: ignore[arg-type]
    return path


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"format": np.int64(7)}, "format 7; this version reads format 1"),
        ({"spans": None}, "damaged: KeyError"),
        ({"spans": np.array([[0, 3, 900]])}, "answer .3, 900. does not fit"),
        ({"spans": np.array([[5, 1, 2]])}, "damaged: IndexError"),
        ({"kinds": np.array([{}], dtype=object)}, "damaged: ValueError"),
    ],
)
def test_a_damaged_shard_is_refused(tmp_path: Path, changed: dict[str, object], said: str) -> None:
    path = _written(tmp_path / "shard.npz", **changed)
    with pytest.raises(ConfigError, match=f"shard.npz.*{said}"):
        read_shard(path)


def test_what_is_no_shard_is_refused(tmp_path: Path) -> None:
    (tmp_path / "shard.npz").write_bytes(b"PK\x03\x04 and nothing more")
    with pytest.raises(ConfigError, match="is not a shard"):
        read_shard(tmp_path / "shard.npz")
    with pytest.raises(ConfigError, match="is not a shard"):
        read_shard(tmp_path / "missing.npz")


def test_a_folder_splits_its_samples(tmp_path: Path) -> None:
    folder = SampleFolder.create(tmp_path / "new" / "data", SETTINGS)
    rng = random.Random(0)
    samples = [random_sample(rng, number, held_out=number % 3 == 0) for number in range(9)]
    folder.append(Shard(tuple(samples[:4]), 4))
    folder.append(Shard(tuple(samples[4:]), 9))
    again = SampleFolder.open(folder.path)
    assert again.settings == SETTINGS
    assert [shard.next_number for shard in again.shards()] == [4, 9]
    split = again.load()
    assert [sample.number for sample in split.held_out] == [0, 3, 6]
    assert [sample.number for sample in split.train] == [1, 2, 4, 5, 7, 8]


def test_a_folder_of_other_settings_is_not_gone_on_with(tmp_path: Path) -> None:
    SampleFolder.create(tmp_path, SETTINGS)
    SampleFolder.create(tmp_path, SETTINGS)
    with pytest.raises(ConfigError, match="seed is 0 there and 5 here; name another folder"):
        SampleFolder.create(tmp_path, DataSettings("model", VOCABULARY, seed=5))


def test_folders_without_samples_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"holds no samples .there is no settings.json.*--stage data"):
        SampleFolder.open(tmp_path)
    with pytest.raises(ConfigError, match="holds no samples yet"):
        SampleFolder.create(tmp_path, SETTINGS).load()
    (tmp_path / SETTINGS_FILE).write_text('{"modle": 1}')
    with pytest.raises(ConfigError, match=r"settings.json: cannot be read.*modle"):
        SampleFolder.open(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written there"):
        SampleFolder.create(tmp_path / "file" / "data", SETTINGS)


def test_tokens_beyond_the_vocabulary_are_refused(tmp_path: Path) -> None:
    folder = SampleFolder.create(tmp_path, DataSettings("model", 50))
    folder.append(Shard((random_sample(random.Random(0), 17, ids=np.full(90, 50)),), 1))
    with pytest.raises(ConfigError, match="prompt 17 has token 50; the vocabulary of model has 50"):
        folder.load()


@pytest.mark.parametrize(
    ("field", "value"),
    [("vocabulary", 1), ("answer_tokens", 3), ("turn_tokens", 0), ("prompt_tokens", 7), ("held_share", 1.0)],
)
def test_settings_are_checked(field: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"{field} = {value}: wanted a .*number from"):
        DataSettings(**{"model": "m", "vocabulary": 9, field: value})  # type: ignore[arg-type]
