"""A folder of samples: its settings and its shards. Generation adds to it, training reads it.

settings.json      DataSettings; whoever goes on with the folder must have the same
shard-00000.npz    see `samples`; prompts in order, so the last shard says where to go on
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sgl_spec.errors import ConfigError
from sgl_spec.heads.data_settings import DataSettings, difference
from sgl_spec.heads.samples import Sample, Shard, read_shard, write_shard

SETTINGS_FILE = "settings.json"


class Split(NamedTuple):
    """The samples to train with and those kept for measuring."""

    train: tuple[Sample, ...]
    held_out: tuple[Sample, ...]


class SampleFolder:
    """The samples in `path`, made with `settings`."""

    def __init__(self, path: Path, settings: DataSettings) -> None:
        self.path = path
        self.settings = settings

    @classmethod
    def create(cls, path: Path, settings: DataSettings) -> SampleFolder:
        """A new folder, or one made with the same settings.

        Raises:
            ConfigError: the folder cannot be made, or holds samples of other settings.
        """
        file = path / SETTINGS_FILE
        if file.exists():
            folder = cls.open(path)
            differs = difference(settings, folder.settings)
            if differs is not None:
                raise ConfigError(f"{path}: holds samples made with other settings: {differs}; name another folder")
            return folder
        try:
            path.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(dataclasses.asdict(settings), indent=1) + "\n")
        except OSError as error:
            raise ConfigError(f"{path}: samples cannot be written there: {error.strerror}") from error
        return cls(path, settings)

    @classmethod
    def open(cls, path: Path) -> SampleFolder:
        """A folder that exists.

        Raises:
            ConfigError: it holds no samples, or its settings cannot be read.
        """
        file = path / SETTINGS_FILE
        if not file.is_file():
            raise ConfigError(f"{path}: holds no samples (there is no {SETTINGS_FILE}); make them with --stage data")
        try:
            return cls(path, DataSettings(**json.loads(file.read_text())))
        except (ValueError, TypeError) as error:
            raise ConfigError(f"{file}: cannot be read as settings of samples: {error}") from error

    def shards(self) -> Iterator[Shard]:
        """All shards, in order."""
        for path in self._paths():
            yield read_shard(path)

    def append(self, shard: Shard) -> None:
        """Adds a shard after the last."""
        write_shard(self.path / f"shard-{len(self._paths()):05d}.npz", shard)

    def load(self) -> Split:
        """Every sample, in memory.

        Raises:
            ConfigError: there is none, a shard is damaged, or a token is not of the vocabulary.
        """
        samples = [sample for shard in self.shards() for sample in shard.samples]
        if not samples:
            raise ConfigError(f"{self.path}: holds no samples yet; make them with --stage data")
        for sample in samples:
            if int(sample.ids.max()) >= self.settings.vocabulary:
                raise ConfigError(
                    f"{self.path}: prompt {sample.number} has token {int(sample.ids.max())}; the vocabulary of "
                    f"{self.settings.model} has {self.settings.vocabulary}"
                )
        train = tuple(sample for sample in samples if not sample.held_out)
        return Split(train, tuple(sample for sample in samples if sample.held_out))

    def _paths(self) -> list[Path]:
        return sorted(self.path.glob("shard-*.npz"))
