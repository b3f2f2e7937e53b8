"""Packed batches, their order, the draft vocabulary, and rounds over known texts."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgl_spec.errors import ConfigError
from sgl_spec.heads.accept_walk import Rounds, total, walk
from sgl_spec.heads.draft_vocabulary import choose_vocabulary, coverage
from sgl_spec.heads.packing import Order, pack
from sgl_spec.heads.samples import Sample, Span
from sgl_spec.heads.train_settings import TrainSettings
from tests.unit.heads_world import VOCABULARY, random_sample

seeds = st.integers(0, 2**32)


@given(seeds, st.integers(1, 5))
def test_trained_rows_are_those_that_predict_the_answers(seed: int, count: int) -> None:
    """The slow twin: for each sample, row and draft step, is the predicted token one of an answer whose first token is
    already there?"""
    rng = random.Random(seed)
    samples = [random_sample(rng) for _ in range(count)]
    packed = pack(samples)
    wanted = []
    for number, sample in enumerate(samples):
        for row in range(len(sample.ids)):
            steps = sum(span.start <= row + 1 and row + 2 + k < span.end for span in sample.spans for k in range(60))
            if steps and any(span.start <= row + 1 and row + 2 < span.end for span in sample.spans):
                wanted.append((number, row, steps))
    found = []
    for number in range(count):
        first, last = packed.active_cuts[number], packed.active_cuts[number + 1]
        rows = packed.active[first:last] - packed.cuts[number]
        found += [(number, int(row), int(left)) for row, left in zip(rows, packed.left[first:last], strict=True)]
    assert found == wanted


@given(seeds, st.integers(1, 5))
def test_a_batch_is_its_samples(seed: int, count: int) -> None:
    rng = random.Random(seed)
    samples = [random_sample(rng) for _ in range(count)]
    packed = pack(samples)
    for number, sample in enumerate(samples):
        rows = slice(packed.cuts[number], packed.cuts[number + 1])
        assert packed.ids[rows].tolist() == sample.ids.tolist()
        assert packed.positions[rows].tolist() == list(range(len(sample.ids)))
    assert len(packed.ids) == packed.cuts[-1]
    # What `unroll` relies on: the row k after a trained one is trained too while steps are left.
    for at, (row, left) in enumerate(zip(packed.active.tolist(), packed.left.tolist(), strict=True)):
        assert packed.active[at : at + left].tolist() == list(range(row, row + left))


def test_an_answer_from_the_very_first_token() -> None:
    packed = pack([Sample(np.arange(6), (Span(0, 6),), "chat", 0, False, 0.0)])
    assert packed.active.tolist() == [0, 1, 2, 3]
    assert packed.left.tolist() == [4, 3, 2, 1]


@given(st.lists(st.integers(1, 500), min_size=1, max_size=40), st.integers(1, 600), seeds)
def test_every_epoch_takes_every_sample_once(lengths: list[int], tokens: int, seed: int) -> None:
    order = Order(lengths, tokens, seed)
    ends = [order.steps_of(epochs) for epochs in (1, 2, 3)]
    taken: list[int] = []
    for step in range(ends[-1]):
        batch = order.step(step)
        assert len(batch) == 1 or sum(lengths[number] for number in batch) <= tokens
        taken += batch
    assert Counter(taken) == dict.fromkeys(range(len(lengths)), 3)
    again = Order(lengths, tokens, seed)
    last = ends[-1] - 1
    assert again.step(last) == order.step(last), "a resumed run asks for later steps at once"


def test_epochs_and_seeds_differ() -> None:
    order, other = Order([10] * 30, 100, 0), Order([10] * 30, 100, 1)
    assert order.steps_of(2) == 6
    first, second = ([order.step(step) for step in range(at, at + 3)] for at in (0, 3))
    assert first != second
    assert first != [other.step(step) for step in range(3)]


def test_an_order_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="no sample to train with"):
        Order([], 100, 0)


def _of(ids: list[int], start: int) -> Sample:
    return Sample(np.array(ids), (Span(start, len(ids)),), "chat", 0, False, 0.0)


def test_the_vocabulary_is_what_answers_say_most() -> None:
    samples = [_of([9, 9, 9, 9, 5, 5, 7], 4), _of([9, 9, 9, 3, 7, 5, 2], 4)]
    assert choose_vocabulary(samples, 2, 12).tokens.tolist() == [5, 7]
    # Then what prompts say, then the smallest ids.
    assert choose_vocabulary(samples, 4, 12).tokens.tolist() == [2, 5, 7, 9]
    assert choose_vocabulary(samples, 6, 12).tokens.tolist() == [0, 2, 3, 5, 7, 9]
    assert coverage(samples, choose_vocabulary(samples, 2, 12)) == pytest.approx(5 / 6)
    assert coverage([], choose_vocabulary(samples, 2, 12)) == 1.0


@given(seeds, st.integers(1, VOCABULARY))
def test_vocabulary_tables_agree(seed: int, size: int) -> None:
    rng = random.Random(seed)
    samples = [random_sample(rng) for _ in range(3)]
    vocabulary = choose_vocabulary(samples, size, VOCABULARY)
    assert len(set(vocabulary.tokens.tolist())) == size
    assert (np.arange(size) + vocabulary.d2t == vocabulary.tokens).all()
    assert np.flatnonzero(vocabulary.t2d).tolist() == vocabulary.tokens.tolist()
    assert 0 <= coverage(samples, vocabulary) <= 1
    assert size < VOCABULARY or coverage(samples, vocabulary) == 1


@pytest.mark.parametrize("size", [0, VOCABULARY + 1])
def test_a_vocabulary_of_an_impossible_size_is_refused(size: int) -> None:
    with pytest.raises(ConfigError, match=f"draft_vocabulary = {size}"):
        choose_vocabulary([], size, VOCABULARY)


def test_rounds_over_a_text() -> None:
    assert walk([]) == Rounds(0, 0)
    assert walk([0, 0, 0]) == Rounds(3, 3)
    assert walk([2, 9, 9, 0, 1, 0]) == Rounds(3, 6)  # roots 0, 3 and 4
    assert total([walk([2, 9, 9, 0]), walk([0])]) == Rounds(3, 5)
    assert Rounds(2, 5).tokens_per_round == 2.5
    assert Rounds(0, 0).tokens_per_round == 0.0


@given(st.data())
def test_rounds_never_exceed_tokens(data: st.DataObject) -> None:
    length = data.draw(st.integers(1, 30))
    accepted = [data.draw(st.integers(0, length - at)) for at in range(length)]
    rounds = walk(accepted)
    assert rounds.tokens == length
    assert 1 <= rounds.rounds <= length


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("steps", 0), ("tokens_per_step", 15), ("draft_steps", 0), ("warmup_steps", -1), ("draft_vocabulary", 0),
        ("inner", 0), ("steps", 2.5), ("steps", True), ("step_decay", 0), ("learning_rate", -1.0), ("clip", 0.0),
        ("dtype", "float16"),
    ],
)  # fmt: skip
def test_settings_are_checked(field: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"{field} = {value!r}: wanted"):
        TrainSettings(**{"steps": 1, field: value})  # type: ignore[arg-type]
