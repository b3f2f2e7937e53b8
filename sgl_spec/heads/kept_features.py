"""The target's hidden states of the training samples, kept on disk: later epochs read them and spare the target's pass.

Part of a training step, where asked for: the pass is half of a step's time for a small target. The states of a token
take 8 * hidden bytes (4.6 KB for the bundled model) in bfloat16. The arithmetic is that of one packed batch, so a step
that reads them has the same bits as one that computes them where the machine's bits do not depend on what else is in a
batch, and otherwise the same numbers up to rounding.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from sgl_spec.errors import ConfigError
from sgl_spec.heads.packing import Packed, pack
from sgl_spec.heads.samples import Sample
from sgl_spec.heads.target import Features

_STORED = {torch.bfloat16: torch.int16, torch.float32: torch.int32}  # numpy has no bfloat16


class _Place(NamedTuple):
    """Where a sample's states lie: rows [row, row_end) of the one file, [trained, trained_end) of the other."""

    row: int
    row_end: int
    trained: int
    trained_end: int


class KeptFeatures:
    """The files of one run.

    Args:
        folder: for three files; what lies there of other samples or another target is replaced.
        samples: all training samples.
        hidden: size of one hidden state.
        dtype: of the target's states.
        target: names the target, in any way that differs between targets.

    Raises:
        ConfigError: the files cannot be made.
    """

    def __init__(self, folder: Path, samples: Sequence[Sample], hidden: int, dtype: torch.dtype, target: str) -> None:
        self._dtype = dtype
        self._places = _places(samples)
        rows, trained = (self._places[-1].row_end, self._places[-1].trained_end) if self._places else (0, 0)
        whole = _digest(samples, target, str(dtype), str(hidden))
        stored = np.int16 if dtype == torch.bfloat16 else np.int32
        try:
            folder.mkdir(parents=True, exist_ok=True)
            fresh = _begin(folder / "features.key", whole)
            self._fused = _open(folder / "fused.bin", stored, (rows, 3 * hidden), fresh)
            self._final = _open(folder / "final.bin", stored, (trained, hidden), fresh)
            self._done = _open(folder / "done.bin", np.bool_, (len(samples),), fresh)
        except (OSError, ValueError) as error:
            raise ConfigError(f"{folder}: hidden states cannot be kept there: {error}") from error

    def get(self, numbers: Sequence[int]) -> Features | None:
        """The states of these samples, packed in this order; None unless all of them are there."""
        if not all(self._done[number] for number in numbers):
            return None
        places = [self._places[number] for number in numbers]
        fused = np.concatenate([self._fused[place.row : place.row_end] for place in places])
        final = np.concatenate([self._final[place.trained : place.trained_end] for place in places])
        return Features(*(torch.from_numpy(part).view(self._dtype) for part in (fused, final)))

    def put(self, numbers: Sequence[int], packed: Packed, features: Features) -> None:
        """Keeps the states of these samples, which make up `packed`."""
        fused, final = (part.cpu().view(_STORED[self._dtype]).numpy() for part in features)
        for at, number in enumerate(numbers):
            place = self._places[number]
            self._fused[place.row : place.row_end] = fused[packed.cuts[at] : packed.cuts[at + 1]]
            trained = slice(packed.active_cuts[at], packed.active_cuts[at + 1])
            self._final[place.trained : place.trained_end] = final[trained]
            self._done[number] = True


def _places(samples: Sequence[Sample]) -> list[_Place]:
    places: list[_Place] = []
    row = trained = 0
    for sample in samples:
        place = _Place(row, row + len(sample.ids), trained, trained + len(pack([sample]).active))
        places.append(place)
        row, trained = place.row_end, place.trained_end
    return places


def _digest(samples: Sequence[Sample], *words: str) -> str:
    digest = hashlib.blake2b("\n".join(words).encode(), digest_size=16)
    for sample in samples:
        digest.update(sample.ids.tobytes())
        digest.update(repr(sample.spans).encode())
    return digest.hexdigest()


def _begin(path: Path, whole: str) -> bool:
    """Whether the files are to be made anew: they belong to something else, or are not there."""
    if path.is_file() and path.read_text() == whole:
        return False
    path.unlink(missing_ok=True)
    path.write_text(whole)
    return True


def _open(path: Path, dtype: Any, shape: tuple[int, ...], fresh: bool) -> Any:
    """A file mapped into memory. A new one is full of zeros and takes room on disk only as it is written."""
    if fresh or not path.is_file():
        return np.memmap(path, dtype, "w+", shape=shape)
    return np.memmap(path, dtype, "r+", shape=shape)
