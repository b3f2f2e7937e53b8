"""Chance for prompts: everything about prompt i follows from (seed, i), on every machine and in any order.

Stands before any round: prompts are drawn first, then a server answers them.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import TypeVar

from sgl_spec.heads.word_lists import LISTS

T = TypeVar("T")

_FIELD = re.compile(r"\{\{|\}\}|\{([a-z]+)(\d*)\}")
# Numbers of a size that a template asks for by name, both ends included.
_NUMBERS = {
    "few": (2, 9), "some": (3, 20), "many": (11, 60), "lots": (60, 400), "money": (2, 95), "year": (1890, 2024),
    "hour": (1, 12), "percent": (5, 60), "age": (6, 80),
}  # fmt: skip
_SPLIT_FROM = 10  # shorter lists are phrasing (days, colours of speech), and both sides use all of them
_HELD_EVERY = 5


class Draw:
    """The choices of one prompt.

    Args:
        seed, number: of the prompt; together they determine every later answer.
        held_share: how likely a prompt is kept out of training, from 0 to 1.

    Attributes:
        held_out: whether this prompt is. It then draws its contents from items that no training prompt may use.
    """

    def __init__(self, seed: int, number: int, held_share: float = 0.0) -> None:
        # A string seeds Random through SHA-512: the same on every platform, unlike `hash`.
        self._random = random.Random(f"sgl_spec head {seed}/{number}")
        self.held_out = self._random.random() < held_share

    def form(self, items: Sequence[T]) -> T:
        """One of `items`, any of them: for phrasing, which is the same on both sides."""
        return items[self._random.randrange(len(items))]

    def pick(self, items: Sequence[T]) -> T:
        """One of the items that belong to this prompt's side: every fifth is held out."""
        return self.form(self._side(items))

    def several(self, items: Sequence[T], count: int) -> list[T]:
        """`count` different items of this prompt's side, or as many as there are."""
        side = self._side(items)
        return self._random.sample(side, min(count, len(side)))

    def weighted(self, weights: dict[str, float]) -> str:
        """A key, by weight."""
        return self._random.choices(list(weights), list(weights.values()))[0]

    def number(self, low: int, high: int) -> int:
        """A whole number, both ends included."""
        return self._random.randint(low, high)

    def chance(self, share: float) -> bool:
        """True with this probability."""
        return self._random.random() < share

    def seed(self) -> int:
        """A seed for the server's sampling."""
        return self._random.getrandbits(31)

    def fill(self, template: str) -> str:
        """`template` with each `{field}` drawn: a word of the list of that name, or a number ("some", "money", ...).

        `{name}` twice is the same name; `{name2}` is another draw from the same list, different from the ones before.
        A doubled brace, `{{`, is a brace.
        """
        drawn: dict[str, str] = {}
        return _FIELD.sub(lambda found: self._value(found, drawn) if found[1] else found[0][0], template)

    def _value(self, found: re.Match[str], drawn: dict[str, str]) -> str:
        key = found[0]
        if key not in drawn:
            drawn[key] = self._draw_field(found[1], set(drawn.values()))
        return drawn[key]

    def _draw_field(self, field: str, taken: set[str]) -> str:
        if field in _NUMBERS:
            return str(self.number(*_NUMBERS[field]))
        side = self._side(LISTS[field])
        return self.form([item for item in side if item not in taken] or side)

    def _side(self, items: Sequence[T]) -> Sequence[T]:
        if len(items) < _SPLIT_FROM:
            return items
        return [item for at, item in enumerate(items) if (at % _HELD_EVERY == _HELD_EVERY - 1) == self.held_out]
