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
            How many of them a round uses is decided in the round, by what they are worth and cost.
        min_gain: a node that is accepted with less probability is never drafted. Not what a node costs, which is
            measured, but where looking for them ends: it bounds the time that drafting takes on the host.
        adaptive: choose each round's width, and when a draft head is asked, by measured costs; false = as wide as
            `width` and `min_gain` allow, and always ask the head, which is for measuring. Captured graphs and tensor
            parallelism have one width anyway.
        explore: share of the time that may go to trying what does not seem to pay: widths, the drafters, a draft head,
            so much for each. A prior: it bounds what adapting can cost, and how soon what has begun to pay is found.
        max_index_tokens: most tokens of one request (prompt and output) the lookup index remembers.
        memory_tokens: most tokens of past outputs remembered in all, for slots and again for programs (about 130 bytes
            each). 0 = remember nothing.
        memory_slot_tokens: most of them for one slot or program; at most half of memory_tokens.
        memory_file: where past outputs are kept between runs of the server; None = nowhere.
        calibrated: weigh drafts by what became of earlier ones; false = trust the drafters' own probabilities.
        calibration_file: where what was learned of drafts is kept between runs of the server; None = nowhere.
        head_prior: P(a draft head has the next token among its candidates | the other drafters do not), before any
            round has shown it. A prior for some ten rounds: EAGLE-3 heads have about this, small ones less.
        drafters: further drafters of your own, each "module:Class" (docs/write-a-drafter.md).
    """

    width: int = 16
    min_gain: float = 0.04
    adaptive: bool = True
    explore: float = 0.01
    max_index_tokens: int = 131_072
    memory_tokens: int = 1_048_576
    memory_slot_tokens: int = 32_768
    memory_file: str | None = None
    calibrated: bool = True
    calibration_file: str | None = None
    head_prior: float = 0.5
    drafters: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _whole_number("width", self.width, 1, 256)
        _whole_number("max_index_tokens", self.max_index_tokens, 16, 10_000_000)
        _share("min_gain", self.min_gain)
        _share("explore", self.explore)
        _share("head_prior", self.head_prior)
        for name in ("adaptive", "calibrated"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name} = {getattr(self, name)!r}: wanted true or false")
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


def _share(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1:
        raise ConfigError(f"{name} = {value!r}: wanted a number from 0 up to, not including, 1")


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
