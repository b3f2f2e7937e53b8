"""Packs samples into batches without padding, and says which of their rows are trained.

Between the data and every training step. A batch is all tokens of some samples one after the other; linear layers run
over it as it is, attention over one sample at a time.

A row is a token. With x the tokens of a sample, the head at row t takes the target's hidden states of x[t] and the
embedding of x[t + 1], as SGLang feeds it (`eagle_worker_v2`: ids shifted by one), and predicts x[t + 2]; draft step k
predicts x[t + 2 + k]. Trained are the rows where that lies in an answer: t from start - 1 to end - 3.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sgl_spec.errors import ConfigError
from sgl_spec.heads.samples import Sample

Ints = npt.NDArray[np.int64]


class Packed(NamedTuple):
    """Samples as one batch of `rows`.

    Attributes:
        ids: int64 [rows], the tokens.
        positions: int64 [rows], each token's place in its sample.
        cuts: int64 [samples + 1], where each sample begins; the last is the number of rows.
        active: int64 [trained], the rows that are trained, ascending.
        active_cuts: int64 [samples + 1], where each sample's rows begin in `active`.
        left: int64 [trained], how many draft steps of this row, the first included, predict a token of the answer.
            Row active[i] + 1 + k is where the target predicts what step k does, so for k < left[i] the target's
            prediction belongs to active[i + k] as well.
    """

    ids: Ints
    positions: Ints
    cuts: Ints
    active: Ints
    active_cuts: Ints
    left: Ints


def pack(samples: Sequence[Sample]) -> Packed:
    """One batch of these samples, in this order; at least one."""
    cuts = np.cumsum([0, *(len(sample.ids) for sample in samples)])
    active: list[Ints] = []
    left: list[Ints] = []
    counts = [0]
    for sample, begin in zip(samples, cuts.tolist(), strict=False):
        before = sum(map(len, active))
        for span in sample.spans:
            first, last = max(span.start - 1, 0), span.end - 2  # the row after the last
            if last > first:
                active.append(np.arange(begin + first, begin + last))
                left.append(np.arange(last - first, 0, -1))
        counts.append(sum(map(len, active)) - before)
    return Packed(
        ids=np.concatenate([sample.ids for sample in samples]).astype(np.int64),
        positions=np.concatenate([np.arange(len(sample.ids)) for sample in samples]),
        cuts=cuts,
        active=np.concatenate([np.zeros(0, np.int64), *active]),
        active_cuts=np.cumsum(counts),
        left=np.concatenate([np.zeros(0, np.int64), *left]),
    )


class Order:
    """Which samples make up each training step, in every epoch another order, all of it a function of the seed.

    Args:
        lengths: tokens of each sample.
        tokens_per_step: a step takes samples until it has so many; one sample at least.
        seed: of the order.

    Raises:
        ConfigError: there is no sample.
    """

    def __init__(self, lengths: Sequence[int], tokens_per_step: int, seed: int) -> None:
        if not lengths:
            raise ConfigError("training: there is no sample to train with")
        self._lengths, self._tokens, self._seed = tuple(lengths), tokens_per_step, seed
        self._first_steps = [0]  # of the epochs made so far, and of the next one
        self._epochs: list[tuple[tuple[int, ...], ...]] = []

    def step(self, number: int) -> tuple[int, ...]:
        """The numbers of the samples of training step `number`, from 0."""
        while number >= self._first_steps[-1]:
            self._add_epoch()
        epoch = next(at for at, first in enumerate(self._first_steps) if number < first) - 1
        return self._epochs[epoch][number - self._first_steps[epoch]]

    def steps_of(self, epochs: int) -> int:
        """How many steps so many epochs take."""
        while len(self._epochs) < epochs:
            self._add_epoch()
        return self._first_steps[epochs]

    def _add_epoch(self) -> None:
        order = list(range(len(self._lengths)))
        random.Random(f"sgl_spec order {self._seed}/{len(self._epochs)}").shuffle(order)
        batches: list[tuple[int, ...]] = []
        batch: list[int] = []
        total = 0
        for number in order:
            if batch and total + self._lengths[number] > self._tokens:
                batches.append(tuple(batch))
                batch, total = [], 0
            batch.append(number)
            total += self._lengths[number]
        batches.append(tuple(batch))
        self._epochs.append(tuple(batches))
        self._first_steps.append(self._first_steps[-1] + len(batches))
