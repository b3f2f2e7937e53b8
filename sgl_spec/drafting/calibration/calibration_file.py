"""Calibration tables on disk, as JSON that one can read. Loaded when the server starts, written now and then while it
runs (server/kept_calibration.py); no part of a round.

    {"format": ..., "version": 1, "model": ..., "scale": ..., "origins": [...], "sets": [[0, 2], ...],
     "coarse": [[row, trials, hits, priors], ...], "fine": [[row, trials, hits], ...],
     "slots": [{"key": [owner, program, slot], "cells": [[row, trials, hits], ...]}, ...], "checksum": ...}

Only cells with trials are written. A file is data from outside: nothing of it is believed before the checksum, and
every number is held against its bounds. Owners are digests there, as in the memory file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sgl_spec.drafting.calibration.buckets import (
    BUCKETS,
    DEPTH_EDGES,
    EDGES,
    JOINED,
    MOST_ORIGINS,
    MOST_SETS,
    TEMPERATURES,
)
from sgl_spec.drafting.calibration.tables import Calibration
from sgl_spec.drafting.memory.slot_key import SlotKey
from sgl_spec.drafting.whole_file import write_whole
from sgl_spec.errors import CalibrationFileError

FORMAT, VERSION = "sgl_spec calibration", 1
MOST_BYTES = 64 << 20
# No cell remembers more trials than this, whatever was tuned.
MOST_TRIALS = 1e6
# What the rows of cells mean. Tables of another scale are of no use.
SCALE = json.dumps([EDGES.tolist(), DEPTH_EDGES.tolist(), TEMPERATURES])


class _Refused(Exception):
    """Reading ends here; the argument is the cause."""


def save(calibration: Calibration, path: str | Path, model: str) -> None:
    """Write the tables as they are at this moment to `path`, whole or not at all. May be called in any thread.

    Args:
        model: names the model they were learned with.

    Raises:
        CalibrationFileError: it cannot be written.
    """
    try:
        write_whole(Path(path), json.dumps(_signed(_content(calibration, model))).encode())
    except OSError as error:
        raise CalibrationFileError(f"calibration file {path}: cannot be written: {error.strerror or error}") from error


def load(path: str | Path, model: str, max_slots: int = 256) -> Calibration:
    """The tables in the file at `path`, of slots the most recently used `max_slots`; empty ones without a file there.

    Raises:
        CalibrationFileError: it cannot be read, is damaged, of another version or scale, or was learned with another
            model.
    """
    calibration = Calibration(max_slots=max_slots)
    try:
        held = _read(Path(path))
        if held is not None:
            _check_kind(held, model)
            _restore(calibration, held)
    except _Refused as cause:
        raise CalibrationFileError(f"calibration file {path}: {cause}") from None
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise CalibrationFileError(f"calibration file {path}: its content is not as it should be: {error}") from error
    except OSError as error:
        raise CalibrationFileError(f"calibration file {path}: cannot be read: {error.strerror or error}") from error
    return calibration


def _content(calibration: Calibration, model: str) -> dict[str, Any]:
    slots = list(calibration.slots.items())
    return {
        "format": FORMAT,
        "version": VERSION,
        "model": model,
        "scale": SCALE,
        "origins": list(calibration.origins),
        "sets": [_members(int(bits)) for bits in calibration.sets[1 : calibration.sets_known + 1].tolist()],
        "coarse": _used(calibration.coarse.copy()),
        "fine": _used(calibration.fine.copy()),
        "slots": [{"key": list(key), "cells": _used(cells.copy())} for key, cells in slots],
    }


def _members(bits: int) -> list[int]:
    return [bit for bit in range(JOINED + 1) if bits >> bit & 1]


def _used(cells: NDArray[np.float64]) -> list[list[float]]:
    """Rows with trials, and their numbers with as many digits as matter."""
    rows = np.flatnonzero(cells[:, 0] > 0.0).tolist()
    return [[row, *(float(f"{value:.6g}") for value in cells[row].tolist())] for row in rows]


def _signed(content: dict[str, Any]) -> dict[str, Any]:
    return {**content, "checksum": _checksum(content)}


def _checksum(content: Mapping[str, Any]) -> str:
    return blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).hexdigest()


def _read(path: Path) -> dict[str, Any] | None:
    """The checked content; None where there is no file."""
    if not path.parent.is_dir():
        raise _Refused(f"there is no folder {path.parent} to keep it in")
    if not path.exists():
        return None
    if not path.is_file():
        raise _Refused("is no regular file")
    if path.stat().st_size > MOST_BYTES:
        raise _Refused(f"it has {path.stat().st_size} bytes; the most is {MOST_BYTES}")
    try:
        held = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise _Refused(f"does not hold JSON ({error}); it is damaged or was cut") from None
    if not isinstance(held, dict) or held.get("format") != FORMAT:
        raise _Refused(f"is no {FORMAT!r} file")
    if held.get("version") != VERSION:
        raise _Refused(f"has version {held.get('version')!r} of the format; this sgl_spec reads version {VERSION}")
    told = held.pop("checksum", None)
    if told != _checksum(held):
        raise _Refused("its checksum is wrong; it is damaged or was edited")
    return held


def _check_kind(held: Mapping[str, Any], model: str) -> None:
    if held["scale"] != SCALE:
        raise _Refused("its buckets are not those of this sgl_spec")
    if held["model"] != model:
        raise _Refused(f"was learned with the model {held['model']!r}; this server has {model!r}")


def _restore(calibration: Calibration, held: Mapping[str, Any]) -> None:
    origins, sets = held["origins"], held["sets"]
    if len(origins) > MOST_ORIGINS or len(set(origins)) != len(origins) or not all(type(o) is str for o in origins):
        raise _Refused(f"wanted at most {MOST_ORIGINS} different names of origins")
    if len(sets) > MOST_SETS:
        raise _Refused(f"holds {len(sets)} sets of origins; the most is {MOST_SETS}")
    for origin in origins:
        calibration.bit_of(origin)
    for number, members in enumerate(sets, 1):
        if not all(type(bit) is int and 0 <= bit <= JOINED for bit in members):
            raise _Refused(f"holds a set of the origins {members}; they are numbered from 0 to {JOINED}")
        calibration.sets[number] = sum(1 << bit for bit in set(members))
    calibration.sets[0] = len(sets)
    rows = (len(sets) + 1) * BUCKETS
    _fill(calibration.coarse, held["coarse"], rows)
    _fill(calibration.fine, held["fine"], rows * (len(calibration.fine) // len(calibration.coarse)))
    for slot in held["slots"][-calibration.max_slots :] if calibration.max_slots else ():
        owner, program, name = slot["key"]
        cells = calibration.slot_cells(SlotKey(str(owner), str(program), str(name)))
        _fill(cells, slot["cells"], rows)


def _fill(cells: NDArray[np.float64], used: Sequence[Sequence[float]], most_rows: int) -> None:
    """Enter checked rows: hits and priors cannot be more than trials."""
    for row, *values in used:
        counts = np.array(values, np.float64)
        if type(row) is not int or not BUCKETS <= row < most_rows or counts.shape != (cells.shape[1],):
            raise _Refused(f"holds a cell {row!r} of {len(values)} numbers, which has no place in the tables")
        if not (0.0 < counts[0] <= MOST_TRIALS and (counts[1:] >= 0.0).all() and (counts[1:] <= counts[0]).all()):
            raise _Refused(f"holds a cell of {values}; wanted trials above 0, and no more hits than trials")
        cells[row] = counts
