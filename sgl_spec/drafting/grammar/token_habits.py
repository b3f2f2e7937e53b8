"""In which tokens the model writes a text that is certain. Asked for every certain stretch drafted; learns from every
committed token that stood in one.

Made to write words it did not see, a model often leaves its tokenizer's way: the mask lets it choose any beginning of
the word, and it takes a short, frequent one (`h`, `ous`, `e` for `house`). Words it has read it spells as it read them.
So there are three sources, the first that knows counts: the same stretch after the same token earlier in this output or
in the slot's past; whether the tokenizer's token was read; what models do otherwise.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import cache
from math import exp, log
from typing import NamedTuple

from sgl_spec.drafting.grammar.vocabulary import Spelled

# A stretch is told from others by so many of its bytes.
KEY_BYTES = 10
MOST_WAYS = 3
MOST_SLOTS, MOST_STRETCHES = 256, 2048
# Priors, as (successes, failures): P(the tokenizer's own token | it stands in the prompt or the output so far), and
# when it does not (SmolLM2 on 16 character sheets: 0.52 at first sight; on 16 function calls, all words read: 1.0).
_READ, _UNREAD = (60.0, 1.0), (3.0, 2.0)
# What other requests did counts in a request as much as so many tokens of its own.
_WEIGHT_OF_OTHERS = 8.0
# Evidence older than so many tokens counts half.
_HALF_LIFE = 200.0
# P(the way seen last time in just this place); the more often, the closer to 1.
_HABIT_DOUBT = 0.12
# Other ways, against each other: weights of a logistic fit on 170 first choices. A small id is a frequent token.
_ID, _LENGTH, _ONE_BYTE = -0.21, -0.63, -1.23


class Way(NamedTuple):
    """A token that may come next where the text is certain, and P(it does)."""

    token: int
    q: float


class _Rate:
    """P(success), from counts that fade."""

    def __init__(self, prior: tuple[float, float]) -> None:
        self._yes, self._no = prior
        self._prior = prior

    @property
    def value(self) -> float:
        return self._yes / (self._yes + self._no)

    def note(self, success: bool) -> None:
        keep = 0.5 ** (1.0 / _HALF_LIFE)
        yes, no = self._prior
        self._yes = yes + (self._yes - yes) * keep + success
        self._no = no + (self._no - no) * keep + (not success)


class Stretch(NamedTuple):
    """A place where the text is certain, as far as habits tell places apart."""

    before: int
    text: bytes

    @staticmethod
    def at(tail: tuple[int, ...], certain: bytes) -> Stretch:
        """Where `certain` follows the tokens `tail`."""
        return Stretch(tail[-1] if tail else -1, certain[:KEY_BYTES])


Choices = OrderedDict[Stretch, "Choice"]


class Choice(NamedTuple):
    """The token chosen in a place the last `times` times."""

    token: int
    times: int


class RequestHabits:
    """What a request knows: tokens it has read, its own choices, and those of its slot (None: not to be used)."""

    def __init__(self, prompt: Sequence[int], slot: Choices | None) -> None:
        self.read = set(prompt)
        self.own: Choices = OrderedDict()
        self.slot = slot
        self.seen = {True: [0, 0], False: [0, 0]}  # own tokens chosen, and not chosen, where they were read or not

    def choice(self, stretch: Stretch) -> Choice | None:
        return self.own.get(stretch) or (self.slot.get(stretch) if self.slot is not None else None)


class TokenHabits:
    """The habits of a model: two rates that hold for all requests, and choices by slot (bounded, the oldest go)."""

    def __init__(self) -> None:
        self._slots: OrderedDict[object, Choices] = OrderedDict()
        self._rates = {True: _Rate(_READ), False: _Rate(_UNREAD)}

    def slot(self, key: object) -> Choices:
        """The choices of a slot, to be read and added to."""
        found = self._slots.get(key)
        if found is None:
            found = self._slots[key] = OrderedDict()
            if len(self._slots) > MOST_SLOTS:
                self._slots.popitem(last=False)
        self._slots.move_to_end(key)
        return found

    def ways(self, habits: RequestHabits, stretch: Stretch, own: int, others: Sequence[Way]) -> list[Way]:
        """The likeliest ways to begin a certain text.

        Args:
            habits: of the request.
            stretch: the place.
            own: the tokenizer's own token there.
            others: further tokens that begin the text, as `shares` has them.
        """
        choice = habits.choice(stretch)
        if choice is not None:
            doubt = _HABIT_DOUBT / choice.times
            rest = [own] if choice.token != own else []
            return [Way(choice.token, 1.0 - doubt), *(Way(token, doubt / 2) for token in rest)]
        q = self.own_way(habits, own)
        return [Way(own, q), *(Way(token, (1.0 - q) * share) for token, share in others)]

    def own_way(self, habits: RequestHabits, own: int) -> float:
        """P(the tokenizer's own token is chosen)."""
        read = own in habits.read
        yes, no = habits.seen[read]
        return (_WEIGHT_OF_OTHERS * self._rates[read].value + yes) / (_WEIGHT_OF_OTHERS + yes + no)

    def note(self, habits: RequestHabits, stretch: Stretch, own: int, chosen: int) -> None:
        """`chosen` was committed in a place where the text was certain and the tokenizer's way was `own`."""
        read = own in habits.read
        self._rates[read].note(chosen == own)
        habits.seen[read][chosen != own] += 1
        for choices in (habits.own, habits.slot):
            if choices is not None:
                known = choices.get(stretch)
                choices[stretch] = Choice(chosen, known.times + 1 if known and known.token == chosen else 1)
                choices.move_to_end(stretch)
                if len(choices) > MOST_STRETCHES:
                    choices.popitem(last=False)


def shares(own: int, spelled: Sequence[Spelled]) -> tuple[Way, ...]:
    """The likeliest tokens beside `own` that begin a certain text, and P(it is that one | it is not `own`).

    Args:
        own: the tokenizer's own token.
        spelled: all tokens that begin the text.
    """
    weights = sorted(((_weight(other), other.token) for other in spelled if other.token != own), reverse=True)
    total = sum(weight for weight, _ in weights)
    return tuple(Way(token, weight / total) for weight, token in weights[: MOST_WAYS - 1])


@cache
def _weight_of_id(token: int) -> float:
    return exp(_ID * log(token + 100))


def _weight(spelled: Spelled) -> float:
    return exp(_LENGTH * spelled.length + _ONE_BYTE * (spelled.length == 1)) * _weight_of_id(spelled.token)
