"""The slow twin of the calibration's compiled loops: the rule as calibration/tables.py states it, in plain Python over
dicts, with no array and no bucket number shared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sgl_spec.drafting.calibration.buckets import DEFAULT, DEPTH_EDGES, EDGES, Numbers
from sgl_spec.drafting.calibration.tables import CERTAIN
from sgl_spec.drafting.tree_merge import Candidates


class Guess(NamedTuple):
    """A node: its token, parent and depth, and q by origin."""

    token: int
    parent: int
    depth: int
    said: dict[str, float]


def guesses(candidates: Candidates) -> list[Guess]:
    nodes, opinions, size, origins = candidates[:4]
    return [
        Guess(*nodes[n, :3].tolist(), {o: q for o, q in zip(origins, opinions[n].tolist(), strict=True) if q > 0.0})
        for n in range(size)
    ]


def prior_of(said: dict[str, float], numbers: Numbers = DEFAULT) -> float:
    doubt = 1.0
    for q in said.values():
        doubt *= 1.0 - q
    surest = max(said.values())
    prior = surest + numbers.damping * ((1.0 - doubt) - surest)
    return min(max(prior, numbers.least_prior), numbers.most_prior)


class Counts:
    """Trials, hits and the sum of priors; each new trial leaves `kept` of the old ones."""

    def __init__(self, memory: float) -> None:
        self.kept, self.trials, self.hits, self.priors = 1.0 - 1.0 / memory, 0.0, 0.0, 0.0

    def add(self, hit: bool, prior: float) -> None:
        self.trials = self.trials * self.kept + 1.0
        self.hits = self.hits * self.kept + hit
        self.priors = self.priors * self.kept + prior


class Twin:
    def __init__(self, numbers: Numbers = DEFAULT) -> None:
        self.numbers = numbers
        self.coarse: dict[object, Counts] = {}
        self.fine: dict[object, Counts] = {}
        self.slot: dict[object, Counts] = {}

    def q(self, guess: Guess, temperature: int, slot: object) -> float:
        """Before siblings share."""
        if any(guess.said.get(origin) == 1.0 for origin in CERTAIN):
            return 1.0
        numbers, prior = self.numbers, prior_of(guess.said, self.numbers)
        coarse, fine, own = self._keys(guess, temperature, slot)
        known = self.coarse.get(coarse)
        said = prior if known is None else known.priors / known.trials
        seen = said
        for cells, key, trust in (
            (self.coarse, coarse, numbers.coarse_trust),
            (self.fine, fine, numbers.fine_trust),
            (self.slot, own, numbers.slot_trust),
        ):
            cell = cells.get(key)
            if cell is not None:
                seen = (cell.hits + trust * seen) / (cell.trials + trust)
        if prior <= said:
            return prior * seen / said
        return 1.0 - (1.0 - prior) * (1.0 - seen) / (1.0 - said)

    def weights(self, tree: Sequence[Guess], temperature: int, slot: object) -> Iterator[tuple[float, float]]:
        """q and a of every node."""
        q = [1.0, *(self.q(guess, temperature, slot) for guess in tree[1:])]
        sums: dict[int, float] = {}
        for node, guess in enumerate(tree[1:], 1):
            sums[guess.parent] = sums.get(guess.parent, 0.0) + q[node]
        a: list[float] = []
        for node, guess in enumerate(tree):
            q[node] /= max(1.0, sums.get(guess.parent, 0.0)) if node else 1.0
            a.append(q[node] * a[guess.parent] if node else 1.0)
            yield q[node], a[node]

    def learn(self, tree: Sequence[Guess], temperature: int, slot: object, tokens: Sequence[int]) -> None:
        at = 0
        for token in tokens:
            children = [n for n, guess in enumerate(tree) if n and guess.parent == at]
            for child in reversed(children):  # the newest first, as the compiled loop goes
                self._count(tree[child], temperature, slot, tree[child].token == token)
            following = [child for child in children if tree[child].token == token]
            if not following:
                return
            at = following[0]

    def _count(self, guess: Guess, temperature: int, slot: object, hit: bool) -> None:
        if any(guess.said.get(origin) == 1.0 for origin in CERTAIN):
            return
        numbers, prior = self.numbers, prior_of(guess.said, self.numbers)
        coarse, fine, own = self._keys(guess, temperature, slot)
        self.coarse.setdefault(coarse, Counts(numbers.coarse_memory)).add(hit, prior)
        self.fine.setdefault(fine, Counts(numbers.fine_memory)).add(hit, prior)
        self.slot.setdefault(own, Counts(numbers.slot_memory)).add(hit, prior)

    def _keys(self, guess: Guess, temperature: int, slot: object) -> tuple[object, object, object]:
        origins = frozenset(guess.said)
        bucket = sum(prior_of(guess.said, self.numbers) >= edge for edge in EDGES.tolist())
        depth = sum(guess.depth > edge for edge in DEPTH_EDGES.tolist())
        return (origins, bucket), (origins, bucket, depth, temperature), (slot, origins, bucket)
