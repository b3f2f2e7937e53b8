"""A sample: token ids of a prompt with the answers a model gave, and files ("shards") that hold many.

Between generation and training. A shard is an .npz file (numpy, zipped) with the arrays

    ids          uint32 [tokens]     all samples one after the other
    ends         int64 [samples]     where each ends in `ids`
    spans        int64 [answers, 3]  sample, first token, token after the last: what the model wrote there
    kinds        str [samples]       kind of work
    numbers      int64 [samples]     of the prompts
    held_out     bool [samples]      kept out of training
    temperature  float32 [samples]   of the answers, 0 = greedy
    next_number   int64               the first prompt that is not in this shard or an earlier one
    format       int64               FORMAT
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sgl_spec.errors import ConfigError

FORMAT = 1


class Span(NamedTuple):
    """Tokens [start, end) of a sample, written by the model."""

    start: int
    end: int


class Sample(NamedTuple):
    """One prompt with its answers. ids: int64 [tokens]; spans: of the answers, in order; number: of the prompt."""

    ids: npt.NDArray[np.int64]
    spans: tuple[Span, ...]
    kind: str
    number: int
    held_out: bool
    temperature: float

    @property
    def answer_tokens(self) -> int:
        """How many tokens the model wrote as answers."""
        return sum(span.end - span.start for span in self.spans)


class Shard(NamedTuple):
    """The content of one file. next_number: the first prompt that comes after it."""

    samples: tuple[Sample, ...]
    next_number: int


def write_shard(path: Path, shard: Shard) -> None:
    """Writes the file whole or not at all: to a neighbour first, which then takes the name.

    Raises:
        ConfigError: it cannot be written.
    """
    work = path.with_name(path.name + ".part")
    try:
        with work.open("wb") as stream:
            np.savez_compressed(stream, **_arrays(shard))
        os.replace(work, path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from error


def read_shard(path: Path) -> Shard:
    """Reads a file that `write_shard` wrote.

    Raises:
        ConfigError: it cannot be read, is damaged, or has another format.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        if int(arrays["format"]) != FORMAT:
            raise ConfigError(f"{path}: format {int(arrays['format'])}; this version reads format {FORMAT}")
        return _shard(arrays)
    except (OSError, zipfile.BadZipFile, KeyError, ValueError, IndexError, EOFError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(
            f"{path}: is not a shard of samples, or is damaged: {type(error).__name__}: {error}"
        ) from error


def _arrays(shard: Shard) -> dict[str, Any]:
    samples = shard.samples
    lengths = [len(sample.ids) for sample in samples]
    spans = [(number, *span) for number, sample in enumerate(samples) for span in sample.spans]
    return {
        "ids": np.concatenate([np.zeros(0, np.uint32), *(sample.ids.astype(np.uint32) for sample in samples)]),
        "ends": np.cumsum(lengths, dtype=np.int64),
        "spans": np.array(spans, dtype=np.int64).reshape(-1, 3),
        "kinds": np.array([sample.kind for sample in samples], dtype=str),
        "numbers": np.array([sample.number for sample in samples], dtype=np.int64),
        "held_out": np.array([sample.held_out for sample in samples], dtype=bool),
        "temperature": np.array([sample.temperature for sample in samples], dtype=np.float32),
        "next_number": np.int64(shard.next_number),
        "format": np.int64(FORMAT),
    }


def _shard(arrays: dict[str, Any]) -> Shard:
    ends = arrays["ends"].tolist()
    spans: list[list[Span]] = [[] for _ in ends]
    for number, start, end in arrays["spans"].tolist():
        spans[number].append(Span(start, end))
    ids = arrays["ids"].astype(np.int64)
    samples = [
        Sample(
            ids[start:end], tuple(spans[number]), str(arrays["kinds"][number]), int(arrays["numbers"][number]),
            bool(arrays["held_out"][number]), round(float(arrays["temperature"][number]), 6),
        )
        for number, (start, end) in enumerate(zip([0, *ends], ends, strict=False))
    ]  # fmt: skip
    for sample in samples:
        _check(sample)
    return Shard(tuple(samples), int(arrays["next_number"]))


def _check(sample: Sample) -> None:
    at = 0
    for span in sample.spans:
        if not at <= span.start < span.end <= len(sample.ids):
            raise ValueError(f"prompt {sample.number}: answer {tuple(span)} does not fit {len(sample.ids)} tokens")
        at = span.end


def answer_tokens(samples: Sequence[Sample]) -> int:
    """Tokens the model wrote, over all samples."""
    return sum(sample.answer_tokens for sample in samples)
