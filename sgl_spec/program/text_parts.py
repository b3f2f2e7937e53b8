"""What several runs' texts from one place in a program have in common: literals, and the values between them.

Used when recorded runs are merged, before any round. A value is recognised only where it explains a difference
between runs; where texts agree they are literal, and a difference that no known value explains is `COMPUTED`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from sgl_spec.program.nodes import COMPUTED, Inserted, Parts, join_parts

_MAX_TRIES = 2_000
_MAX_PARTS = 200


class Sample(NamedTuple):
    """A text as one run had it, and the values its program had read by then."""

    text: str
    values: Mapping[Inserted, str]


class _Candidate(NamedTuple):
    what: Inserted
    start: int


def common_parts(samples: Sequence[Sample]) -> Parts:
    """The parts that give every sample its text.

    Args:
        samples: at least one. With a single one, or with equal texts, all is literal.
    """
    search = _Search(samples)
    if search.explain((0,) * len(samples), ()):
        return search.best
    rests = [sample.text[position:] for sample, position in zip(samples, search.best_positions, strict=True)]
    return join_parts([*search.best, *_gap(rests)])


class _Search:
    """Depth-first over the places where a known value may begin; `best` is the furthest explanation found."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._samples = samples
        self._names = [
            name
            for name in samples[0].values
            if all(name in sample.values for sample in samples) and len({sample.values[name] for sample in samples}) > 1
        ]
        self._failed: set[tuple[int, ...]] = set()
        self.best: Parts = ()
        self.best_positions = (0,) * len(samples)

    def explain(self, positions: tuple[int, ...], so_far: Parts) -> bool:
        """Whether the texts from `positions` on are explained to their ends; then `best` says how."""
        rests = [sample.text[position:] for sample, position in zip(self._samples, positions, strict=True)]
        if len(set(rests)) == 1:
            self.best = join_parts([*so_far, rests[0]])
            return True
        if positions in self._failed or len(self._failed) > _MAX_TRIES or len(so_far) > _MAX_PARTS:
            return False
        self._failed.add(positions)
        if sum(positions) > sum(self.best_positions):
            self.best, self.best_positions = so_far, positions
        return any(self._step(positions, so_far, candidate, rests[0]) for candidate in self._candidates(rests))

    def _step(self, positions: tuple[int, ...], so_far: Parts, candidate: _Candidate, rest: str) -> bool:
        lengths = [len(sample.values[candidate.what]) for sample in self._samples]
        after = tuple(p + candidate.start + n for p, n in zip(positions, lengths, strict=True))
        return self.explain(after, join_parts([*so_far, rest[: candidate.start], candidate.what]))

    def _candidates(self, rests: Sequence[str]) -> Iterator[_Candidate]:
        agree = len(common_start(rests))
        found = [_Candidate(name, start) for name in self._names for start in self._starts(name, rests, agree)]
        # The longest value first: a short one is more likely to be there by chance.
        found.sort(key=lambda one: (-min(len(sample.values[one.what]) for sample in self._samples), -one.start))
        return iter(found)

    def _starts(self, name: Inserted, rests: Sequence[str], agree: int) -> Iterator[int]:
        values = [sample.values[name] for sample in self._samples]
        start = rests[0].find(values[0])
        while 0 <= start <= agree:
            if all(rest.startswith(value, start) for rest, value in zip(rests, values, strict=True)):
                yield start
            start = rests[0].find(values[0], start + 1)


def _gap(rests: Sequence[str]) -> Parts:
    """Texts that differ: what they begin with, something computed, what they end with."""
    head = common_start(rests)
    return join_parts([head, COMPUTED, common_end([rest[len(head) :] for rest in rests])])


def common_start(texts: Sequence[str]) -> str:
    """The longest text that all of `texts` begin with; empty for none."""
    first, last = min(texts, default=""), max(texts, default="")
    # Whatever the smallest and the largest share, all those between them share.
    differ = next((i for i, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return first[:differ]


def common_end(texts: Sequence[str]) -> str:
    """The longest text that all of `texts` end with; empty for none."""
    return common_start([text[::-1] for text in texts])[::-1]
