"""What determines the data: with the same settings, the same samples, on every machine.

Stands before any round. A folder of samples holds its settings in `settings.json`; other settings are refused.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from sgl_spec.errors import ConfigError
from sgl_spec.heads.prompts import GENERATOR


@dataclass(frozen=True)
class DataSettings:
    """How samples are made.

    Attributes:
        model: name of the target, as its folder is called.
        vocabulary: number of its tokens.
        seed: of the prompts and of the server's sampling.
        answer_tokens: an answer ends after so many at the latest.
        turn_tokens: a user's turn that the model writes and does not end within so many is dropped.
        prompt_tokens: a prompt longer than this is dropped.
        held_share: share of the prompts kept out of training.
        generator: version of the prompts.
    """

    model: str
    vocabulary: int
    seed: int = 0
    answer_tokens: int = 224
    turn_tokens: int = 96
    prompt_tokens: int = 640
    held_share: float = 0.04
    generator: int = GENERATOR

    def __post_init__(self) -> None:
        for name, least in (("vocabulary", 2), ("answer_tokens", 4), ("turn_tokens", 4), ("prompt_tokens", 8)):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} = {getattr(self, name)}: wanted a whole number from {least}")
        if not 0 <= self.held_share < 1:
            raise ConfigError(f"held_share = {self.held_share}: wanted a number from 0 up to, not including, 1")


def difference(wanted: object, found: object) -> str | None:
    """The first field in which two settings of one class differ, in words; None when they are equal."""
    for field in dataclasses.fields(wanted):  # type: ignore[arg-type]
        ours, theirs = getattr(wanted, field.name), getattr(found, field.name)
        if ours != theirs:
            return f"{field.name} is {theirs!r} there and {ours!r} here"
    return None
