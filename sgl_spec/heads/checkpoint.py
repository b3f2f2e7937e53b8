"""Where a training run stands, on disk: enough to go on as if it had never stopped.

Between training steps. There is no state of random numbers to keep: weights are drawn once from the seed, the order of
samples is a function of seed and step (`packing.Order`), and nothing else in training is random.
"""

from __future__ import annotations

import dataclasses
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import torch

from sgl_spec.errors import ConfigError
from sgl_spec.heads.data_settings import difference
from sgl_spec.heads.train_settings import TrainSettings

CHECKPOINT_FILE = "checkpoint.pt"


class Checkpoint(NamedTuple):
    """After `step` steps: weights and the optimizer's state, as torch's state dicts; vocabulary: int64, its tokens.

    samples: how many there were to train with; a run goes on with as many.
    """

    settings: TrainSettings
    step: int
    head: dict[str, Any]
    optimizer: dict[str, Any]
    vocabulary: torch.Tensor
    samples: int


def save(folder: Path, checkpoint: Checkpoint) -> None:
    """Replaces the folder's checkpoint, whole or not at all.

    Raises:
        ConfigError: it cannot be written.
    """
    work = folder / (CHECKPOINT_FILE + ".part")
    content = {**checkpoint._asdict(), "settings": dataclasses.asdict(checkpoint.settings)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        torch.save(content, work)
        os.replace(work, folder / CHECKPOINT_FILE)
    except (OSError, RuntimeError) as error:  # torch turns a full disk into a RuntimeError
        raise ConfigError(f"{work}: cannot be written: {error}") from error


def load(folder: Path) -> Checkpoint:
    """The folder's checkpoint.

    Raises:
        ConfigError: there is none, or it cannot be read.
    """
    path = folder / CHECKPOINT_FILE
    if not path.is_file():
        raise ConfigError(f"{path}: there is no checkpoint; train with --stage train")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
        return Checkpoint(**{**content, "settings": TrainSettings(**content["settings"])})
    except (OSError, RuntimeError, EOFError, KeyError, TypeError, pickle.UnpicklingError, zipfile.BadZipFile) as error:
        raise ConfigError(f"{path}: is not a checkpoint of this version, or is damaged: {error}") from error


def check_same_run(checkpoint: Checkpoint, settings: TrainSettings, samples: int, folder: Path) -> None:
    """Raises ConfigError when a run with these settings would not be the one that the checkpoint belongs to."""
    differs = difference(settings, checkpoint.settings)
    if differs is None and samples != checkpoint.samples:
        differs = f"it was trained with {checkpoint.samples} samples, and now there are {samples}"
    if differs is not None:
        raise ConfigError(
            f"{folder / CHECKPOINT_FILE}: belongs to another run: {differs}; go on with the old settings, or name "
            f"another --out"
        )
