"""Settings of the speculative backend: one frozen object, read at server start and never changed.

Where it stands in a round: the budget of every plan comes from here. It reaches the server's processes through the
environment variable SGLSPEC_CONFIG (a JSON object, or the path of a file that holds one).
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sgl_spec.errors import ConfigError

CONFIG_VARIABLE = "SGLSPEC_CONFIG"
_DRAFTER = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


@dataclass(frozen=True)
class SpecConfig:
    """What may be set.

    Attributes:
        width: most nodes of one request's verify tree, the root (the last committed token) included. 1 = never draft.
        min_gain: a drafted node is kept while the probability that it is accepted is at least this: the cost of
            verifying one more node, as a share of a plain decode step. Prior from SmolLM2-135M on two CPU cores
            (16 nodes take about 1.5 plain steps; a GPU at small batch has less).
        max_index_tokens: most tokens of one request (prompt and output) the lookup index remembers.
        memory_tokens: most tokens of past outputs remembered in all, for slots and again for programs (about 130 bytes
            each). 0 = remember nothing.
        memory_slot_tokens: most of them for one slot or program; at most half of memory_tokens.
        memory_file: where past outputs are kept between runs of the server; None = nowhere.
        calibrated: weigh drafts by what became of earlier ones; false = trust the drafters' own probabilities.
        calibration_file: where what was learned of drafts is kept between runs of the server; None = nowhere.
        head_below: a draft head is asked while the other drafters expect fewer accepted drafts than this in a round;
            0 = never, 256 = always. A prior: on two CPU cores a head of SmolLM2-135M with 4 steps takes 14 ms beside a
            verify forward of 75 ms, so it must bring a fifth of a token, and brings less where others guess well.
        drafters: further drafters of your own, each "module:Class" (docs/write-a-drafter.md).
    """

    width: int = 16
    min_gain: float = 0.04
    max_index_tokens: int = 131_072
    memory_tokens: int = 1_048_576
    memory_slot_tokens: int = 32_768
    memory_file: str | None = None
    calibrated: bool = True
    calibration_file: str | None = None
    head_below: float = 1.0
    drafters: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _whole_number("width", self.width, 1, 256)
        _whole_number("max_index_tokens", self.max_index_tokens, 16, 10_000_000)
        if isinstance(self.min_gain, bool) or not isinstance(self.min_gain, (int, float)) or not 0 <= self.min_gain < 1:
            raise ConfigError(f"min_gain = {self.min_gain!r}: wanted a number from 0 up to, not including, 1")
        if isinstance(self.head_below, bool) or not (
            isinstance(self.head_below, (int, float)) and 0 <= self.head_below <= 256
        ):
            raise ConfigError(f"head_below = {self.head_below!r}: wanted a number from 0 to 256")
        self._check_memory()
        self._check_calibration()
        self._check_drafters()

    def _check_memory(self) -> None:
        _whole_number("memory_tokens", self.memory_tokens, 0, 100_000_000)
        if self.memory_tokens:
            _whole_number("memory_slot_tokens", self.memory_slot_tokens, 64, 10_000_000)
            if 2 * self.memory_slot_tokens > self.memory_tokens:
                raise ConfigError(
                    f"memory_slot_tokens = {self.memory_slot_tokens}: wanted at most half of memory_tokens, "
                    f"which is {self.memory_tokens}"
                )
        _file_name("memory_file", self.memory_file)
        if self.memory_file is not None and not self.memory_tokens:
            raise ConfigError(
                f"memory_file = {self.memory_file!r}: wanted null, since memory_tokens = 0 remembers nothing"
            )

    def _check_calibration(self) -> None:
        if not isinstance(self.calibrated, bool):
            raise ConfigError(f"calibrated = {self.calibrated!r}: wanted true or false")
        _file_name("calibration_file", self.calibration_file)
        if self.calibration_file is not None and not self.calibrated:
            raise ConfigError(
                f"calibration_file = {self.calibration_file!r}: wanted null, since calibrated = false learns nothing"
            )

    def _check_drafters(self) -> None:
        if not isinstance(self.drafters, (list, tuple)):
            raise ConfigError(f"drafters = {self.drafters!r}: wanted a list of names such as 'module:Class'")
        for name in self.drafters:
            if not isinstance(name, str) or not _DRAFTER.fullmatch(name):
                raise ConfigError(f"drafters has {name!r}: wanted a name such as 'module:Class'")
        object.__setattr__(self, "drafters", tuple(self.drafters))  # JSON has lists

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SpecConfig:
        """Build from plain values; unknown names are refused, so that a misspelt setting cannot pass unseen."""
        known = [field.name for field in dataclasses.fields(cls)]
        unknown = sorted(set(values) - set(known))
        if unknown:
            raise ConfigError(f"unknown setting {unknown[0]!r}; the settings are {', '.join(known)}")
        return cls(**values)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> SpecConfig:
        """Read SGLSPEC_CONFIG; unset or empty means the defaults."""
        text = (os.environ if environment is None else environment).get(CONFIG_VARIABLE, "").strip()
        return cls.from_dict(_json_object(text)) if text else cls()

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))


def _whole_number(name: str, value: Any, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConfigError(f"{name} = {value!r}: wanted a whole number from {least} to {most}")


def _file_name(name: str, value: Any) -> None:
    if value is not None and (not isinstance(value, str) or not value):
        raise ConfigError(f"{name} = {value!r}: wanted the path of a file, or null for none")


def _json_object(text: str) -> dict[str, Any]:
    if not text.startswith("{"):
        try:
            text = Path(text).read_text()
        except OSError as error:
            raise ConfigError(f"{CONFIG_VARIABLE} names {text!r}, which cannot be read: {error.strerror}") from error
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{CONFIG_VARIABLE} does not hold JSON: {error}") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{CONFIG_VARIABLE} holds a JSON {type(value).__name__}; wanted an object of settings")
    return value
