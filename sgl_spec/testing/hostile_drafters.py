"""Drafters that do everything wrong. A generation with any of them must be the one without.

Each is a full drafter; register them with a DraftPlanner alone or beside honest ones.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from sgl_spec.drafting.drafter import Drafter, DraftRequest
from sgl_spec.drafting.tree import Chain


class _Hostile:
    """Answers every round; keeps no state but a random generator with a fixed seed."""

    origin = "hostile"

    def __init__(self, vocab_size: int, seed: int = 0) -> None:
        self._vocab_size = vocab_size
        self._random = random.Random(seed)

    def start(self, request: DraftRequest) -> None:
        """Nothing to do."""

    def propose(self, rid: str, max_tokens: int) -> list[Chain]:
        """No drafts; subclasses are worse."""
        return []

    def observe(self, rid: str, tokens: Sequence[int]) -> None:
        """Nothing to do."""

    def stop(self, rid: str) -> None:
        """Nothing to do."""

    def _tokens(self, length: int) -> tuple[int, ...]:
        return tuple(self._random.randrange(self._vocab_size) for _ in range(length))


class GarbageDrafter(_Hostile):
    """Random chains with random q, more and longer than asked for."""

    origin = "garbage"

    def propose(self, rid: str, max_tokens: int) -> list[Chain]:
        """Up to 20 chains of up to 40 tokens."""
        lengths = [self._random.randint(1, 40) for _ in range(self._random.randint(0, 20))]
        return [Chain(self._tokens(n), self._q(n), self.origin) for n in lengths]

    def _q(self, length: int) -> tuple[float, ...]:
        return tuple(1.0 - self._random.random() for _ in range(length))


class DuplicateDrafter(_Hostile):
    """The same certain chain over and over, and every other token as certain beside it."""

    origin = "duplicate"

    def propose(self, rid: str, max_tokens: int) -> list[Chain]:
        """Siblings whose q sum to far more than 1, each many times."""
        same = Chain(self._tokens(6), (1.0,) * 6, self.origin)
        return [same] * 10 + [Chain((token,), (1.0,), self.origin) for token in range(self._vocab_size)] * 3


class WrongQDrafter(_Hostile):
    """Probabilities that are none: above 1, zero, negative, NaN, too few, strings."""

    origin = "wrong_q"

    def propose(self, rid: str, max_tokens: int) -> list[Chain]:
        """One chain, wrong in one of these ways."""
        wrong: list[tuple[float, ...]] = [
            (0.5, 2.0),
            (0.5, 0.0),
            (-0.1, 0.5),
            (float("nan"), 0.5),
            (0.5, float("nan")),
        ]
        wrong += [(0.5,), (float("inf"), 0.5), ("half", "half")]  # type: ignore[list-item]
        return [Chain(self._tokens(2), self._random.choice(wrong), self.origin)]


class OutOfVocabularyDrafter(_Hostile):
    """Tokens the target does not have, and tokens that are none."""

    origin = "out_of_vocabulary"

    def propose(self, rid: str, max_tokens: int) -> list[Chain]:
        """One chain with a wrong token, behind a good one or first."""
        wrong: list[object] = [self._vocab_size, 1 << 40, 1 << 80, -1, 0.5, "token", None]
        bad = self._random.choice(wrong)
        tokens = self._random.choice(((bad,), (*self._tokens(1), bad)))
        return [Chain(tokens, (0.9,) * len(tokens), self.origin)]  # type: ignore[arg-type]


class ShapelessDrafter(_Hostile):
    """Answers that are no list of chains."""

    origin = "shapeless"

    def propose(self, rid: str, max_tokens: int) -> list[Chain]:
        """None, a generator, a number, bare tuples, an empty chain, or far too many chains."""
        answers: list[object] = [None, iter(()), 7, [((1,), (0.5,), "bare")], [Chain((), (), "empty")]]
        answers += [[None], [Chain((1,), (0.5,), "many")] * 100_000, [Chain((1,), (0.5,), 3)]]  # type: ignore[arg-type]
        return self._random.choice(answers)  # type: ignore[arg-type]


class MiscalibratedDrafter(_Hostile):
    """Certain of what the target will hardly say, and all but certain that it will not say what it will. Knows one
    request at a time.

    Args:
        vocab_size: tokens are 0 to vocab_size - 1.
        logits: the target's, after a text; what it says of them is the reverse.
    """

    origin = "miscalibrated"

    def __init__(self, vocab_size: int, logits: Callable[[Sequence[int]], NDArray[np.float64]]) -> None:
        super().__init__(vocab_size)
        self._logits = logits
        self._text: list[int] = []

    def start(self, request: DraftRequest) -> None:
        """Read the prompt."""
        self._text = list(request.prompt)

    def observe(self, rid: str, tokens: Sequence[int]) -> None:
        """Read on."""
        self._text += tokens

    def propose(self, rid: str, max_tokens: int) -> list[Chain]:
        """The least likely text with q = 1, and the likeliest with q = 0 (as nearly as a chain may say it)."""
        length = max(max_tokens // 2, 1)
        wrong, right = (self._said(choose, length) for choose in (np.argmin, np.argmax))
        return [Chain(wrong, (1.0,) * length, self.origin), Chain(right, (1e-9,) * length, self.origin)]

    def _said(self, choose: Callable[[NDArray[np.float64]], np.intp], length: int) -> tuple[int, ...]:
        tokens: list[int] = []
        for _ in range(length):
            tokens.append(int(choose(self._logits([*self._text, *tokens]))))
        return tuple(tokens)


class RaisingDrafter(_Hostile):
    """Raises whatever it is asked."""

    origin = "raising"

    def start(self, request: DraftRequest) -> None:
        """Raises."""
        raise RuntimeError("start")

    def propose(self, rid: str, max_tokens: int) -> list[Chain]:
        """Raises one of several errors."""
        raise self._random.choice([RuntimeError("propose"), KeyError(rid), RecursionError(), MemoryError()])

    def observe(self, rid: str, tokens: Sequence[int]) -> None:
        """Raises."""
        raise ValueError("observe")

    def stop(self, rid: str) -> None:
        """Raises."""
        raise OSError("stop")


def hostile_drafters(vocab_size: int, seed: int = 0) -> list[Drafter]:
    """One of each that needs to know no target."""
    kinds = (
        GarbageDrafter,
        DuplicateDrafter,
        WrongQDrafter,
        OutOfVocabularyDrafter,
        ShapelessDrafter,
        RaisingDrafter,
    )
    return [kind(vocab_size, seed) for kind in kinds]
