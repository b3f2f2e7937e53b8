"""Decoding in rounds writes what decoding alone writes, token by token, whatever the drafters propose."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgl_spec.drafting.budget import DraftBudget
from sgl_spec.drafting.drafter import DraftRequest
from sgl_spec.drafting.flat_tree import flatten
from sgl_spec.drafting.lookup.lookup_drafter import LookupDrafter
from sgl_spec.drafting.planner import DraftPlanner
from sgl_spec.drafting.tree import Chain, DraftTree
from sgl_spec.testing.fake_target import FakeTarget
from sgl_spec.testing.generation import Sampling, decode_alone, decode_in_rounds
from sgl_spec.testing.hostile_drafters import DuplicateDrafter, GarbageDrafter, MiscalibratedDrafter, hostile_drafters

VOCABULARY = 12
prompts = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=12)
targets = st.builds(
    FakeTarget,
    st.just(VOCABULARY),
    context=st.sampled_from([None, 1, 2, 3]),
    sharpness=st.sampled_from([0.5, 2.0, 5.0]),
    salt=st.integers(0, 1000),
)
samplings = st.one_of(
    st.just(Sampling()),
    st.builds(
        Sampling,
        seed=st.integers(0, 2**40),
        temperature=st.sampled_from([0.3, 1.0, 2.0]),
        top_k=st.sampled_from([-1, 1, 3]),
        top_p=st.sampled_from([1.0, 0.7]),
        min_p=st.sampled_from([0.0, 0.2]),
    ),
)


class ClairvoyantDrafter:
    """Knows what the target will write, and lies in some places: long acceptances that end anywhere."""

    origin = "clairvoyant"

    def __init__(self, target: FakeTarget, sampling: Sampling, lie_at: int) -> None:
        self._target, self._sampling, self._lie_at = target, sampling, lie_at
        self._text: list[int] = []

    def start(self, request: DraftRequest) -> None:
        self._text = list(request.prompt)

    def observe(self, rid, tokens):
        self._text += tokens

    def propose(self, rid, max_tokens):
        tokens = decode_alone(self._target, self._text, max_tokens, self._sampling)
        if self._lie_at < len(tokens):
            tokens[self._lie_at] = (tokens[self._lie_at] + 1) % VOCABULARY
        sibling = Chain(((tokens[0] + 3) % VOCABULARY, *tokens[1:]), (0.2,) + (0.9,) * (len(tokens) - 1), "sibling")
        return [sibling, Chain(tuple(tokens), (0.7,) + (0.9,) * (len(tokens) - 1), self.origin)]

    def stop(self, rid):
        self._text = []


def drafters_of(kind: str, target: FakeTarget, sampling: Sampling, seed: int):
    hostile = {drafter.origin: drafter for drafter in hostile_drafters(VOCABULARY, seed)}
    kinds = {
        "none": [],
        "lookup": [LookupDrafter()],
        "miscalibrated": [MiscalibratedDrafter(VOCABULARY, target.logits), LookupDrafter()],
        "clairvoyant": [ClairvoyantDrafter(target, sampling, seed % 8)],
        "everything that answers": [
            LookupDrafter(),
            GarbageDrafter(VOCABULARY, seed),
            ClairvoyantDrafter(target, sampling, seed % 8),
            DuplicateDrafter(VOCABULARY, seed),
            MiscalibratedDrafter(VOCABULARY, target.logits),
        ],
        "everything": [LookupDrafter(), *hostile.values()],
    } | {origin: [drafter, LookupDrafter()] for origin, drafter in hostile.items()}
    return kinds[kind]


HOSTILE = [drafter.origin for drafter in hostile_drafters(VOCABULARY)]
KINDS = ["none", "lookup", "clairvoyant", "miscalibrated", "everything that answers", "everything", *HOSTILE]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25, deadline=None)
@given(targets, prompts, samplings, st.integers(0, 40), st.integers(1, 12), st.integers(0, 10**6))
def test_any_drafters_leave_the_text_unchanged(kind, target, prompt, sampling, n_tokens, width, seed):
    drafters = drafters_of(kind, target, sampling, seed)
    planner = DraftPlanner(drafters, DraftBudget(width - 1, 0.01), vocab_size=VOCABULARY)
    generation = decode_in_rounds(target, planner, prompt, n_tokens, sampling, width)
    assert generation.tokens == decode_alone(target, prompt, n_tokens, sampling)
    assert generation.stats.tokens == max(n_tokens - 1, 0)


@settings(deadline=None)
@given(st.integers(0, 1000), prompts)
def test_lookup_speeds_up_a_target_that_repeats_itself(salt, prompt):
    """Not vacuous: with a short context greedy text is periodic, and rounds commit several tokens."""
    target = FakeTarget(VOCABULARY, context=1, salt=salt)
    planner = DraftPlanner([LookupDrafter()], DraftBudget(7), vocab_size=VOCABULARY)
    generation = decode_in_rounds(target, planner, prompt, 80, Sampling(), 8)
    assert generation.stats.tokens / generation.stats.rounds > 2.0


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_clairvoyance_is_accepted_whole(temperature):
    """Not vacuous either: where every draft is right, every draft on the path is accepted, sampled or not."""
    target, sampling = FakeTarget(VOCABULARY), Sampling(seed=5, temperature=temperature)
    drafter = ClairvoyantDrafter(target, sampling, 99)
    planner = DraftPlanner([drafter], DraftBudget(7, 0.0), vocab_size=VOCABULARY)
    generation = decode_in_rounds(target, planner, [1], 57, sampling, 8)
    assert generation.tokens == decode_alone(target, [1], 57, sampling)
    assert generation.stats.rounds < 57 / 3


def test_seeds_matter():
    target = FakeTarget(VOCABULARY)
    texts = {tuple(decode_alone(target, [1], 20, Sampling(seed=seed, temperature=1.0))) for seed in range(20)}
    assert len(texts) == 20


def test_the_fake_target_is_a_pure_function_of_the_path():
    one, same, other = FakeTarget(9, salt=1), FakeTarget(9, salt=1), FakeTarget(9, salt=2)
    assert np.array_equal(one.logits([1, 2, 3]), same.logits((1, 2, 3)))
    assert not np.array_equal(one.logits([1, 2, 3]), one.logits([1, 3, 2]))
    assert not np.array_equal(one.logits([1, 2, 3]), other.logits([1, 2, 3]))
    short = FakeTarget(9, context=2)
    assert np.array_equal(short.logits([5, 6, 1, 2]), short.logits([7, 1, 2]))


def test_the_fake_target_sees_through_the_mask():
    """A wrong mask must change the logits, or the lossless tests would not notice one."""
    tree = DraftTree(4)
    tree.graft(Chain((5, 6), (0.5, 0.5), "x"))
    flat = flatten(tree, 4)
    target = FakeTarget(9)
    logits = target.tree_logits([1, 4], flat)
    for node, path in enumerate(([1, 4], [1, 4, 5], [1, 4, 5, 6])):
        assert np.array_equal(logits[node], target.logits(path))
    wrong = flat._replace(mask=np.tril(np.ones((4, 4), dtype=bool), -1) | flat.mask)
    wrong.mask[2, 1] = False
    assert not np.array_equal(target.tree_logits([1, 4], wrong)[2], logits[2])
