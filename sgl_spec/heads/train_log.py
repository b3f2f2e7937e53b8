"""The log of a training run: one JSON object a line, a line per training step or measurement.

    {"step": 12, "loss": 5.1, "losses": [...], "right": [...], "rate": 6e-4, "rows": 1210, "seconds": 2.1}
    {"step": 20, "held_out": {"loss": ..., "losses": [...], "right": [...]}}

Lists have one number per draft step: mean loss, and share of first guesses that are the target's.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sgl_spec.errors import ConfigError
from sgl_spec.heads.curves import Curve, draw_curves, smooth

LOG_FILE = "log.jsonl"
_WINDOW = 25


class Means(NamedTuple):
    """Over all predictions of a batch. loss: weighted over draft steps; losses, right: one number per draft step."""

    loss: float
    losses: tuple[float, ...]
    right: tuple[float, ...]


class TrainLog:
    """The log in a folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOG_FILE

    def begin_at(self, step: int) -> None:
        """Keeps the entries of the first `step` steps, for a run that goes on from there."""
        kept = [entry for entry in self.entries() if entry["step"] < step] if step else []
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text("".join(json.dumps(entry) + "\n" for entry in kept))
        except OSError as error:
            raise ConfigError(f"{self._path}: cannot be written: {error.strerror}") from error

    def add(self, step: int, **values: Any) -> None:
        """One more line."""
        with self._path.open("a") as stream:
            stream.write(json.dumps({"step": step, **values}) + "\n")

    def entries(self) -> list[dict[str, Any]]:
        """All lines; none when there is no file. A last line that was cut off by a crash is left out."""
        if not self._path.is_file():
            return []
        found = []
        for line in self._path.read_text().splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                break
        return found


def loss_curve(entries: Sequence[dict[str, Any]]) -> str:
    """An SVG: the loss of each draft step in training, smoothed, and the mean loss of held-out samples."""
    steps = [entry for entry in entries if "loss" in entry]
    xs = [float(entry["step"]) for entry in steps]
    count = len(steps[0]["losses"]) if steps else 0
    curves = [
        Curve(f"training, step {k + 1}", xs, smooth([entry["losses"][k] for entry in steps], _WINDOW))
        for k in range(count)
    ]
    held = [entry for entry in entries if "held_out" in entry]
    curves.append(Curve("held out", [float(e["step"]) for e in held], [e["held_out"]["loss"] for e in held]))
    return draw_curves("Loss", "training steps", curves)


def right_curve(entries: Sequence[dict[str, Any]]) -> str:
    """An SVG: how often the first guess of each draft step is the target's, on held-out samples."""
    held = [entry for entry in entries if "held_out" in entry]
    xs = [float(entry["step"]) for entry in held]
    count = len(held[0]["held_out"]["right"]) if held else 0
    curves = [Curve(f"draft step {k + 1}", xs, [e["held_out"]["right"][k] for e in held]) for k in range(count)]
    return draw_curves("Right first guesses, held out", "training steps", curves)
