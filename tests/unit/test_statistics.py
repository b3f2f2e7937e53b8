"""Sampled text follows the target's distribution, whatever was drafted; and these tests would notice if it did not.

Each test counts the two tokens that follow a prompt over 5,000 requests whose seeds are drawn as a server draws them,
and compares the counts with the target's probabilities (chi-square). What must fit fits at the 0.1 % level; a verifier
that moves 3 % of the mass does not.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pytest

from sgl_spec.drafting.acceptance import accept_sampled, gumbel_noise, sample_token
from sgl_spec.drafting.budget import DraftBudget
from sgl_spec.drafting.drafter import Drafter, DraftRequest
from sgl_spec.drafting.flat_tree import FlatTree, flatten
from sgl_spec.drafting.lookup.lookup_drafter import LookupDrafter
from sgl_spec.drafting.planner import DraftPlanner
from sgl_spec.testing.chi_square import chi_square
from sgl_spec.testing.fake_target import FakeTarget
from sgl_spec.testing.generation import Sampling
from sgl_spec.testing.hostile_drafters import GarbageDrafter, MiscalibratedDrafter, hostile_drafters

VOCABULARY, WIDTH, TREES, DRAWS = 6, 8, 10, 5000
PROMPT = [3, 1, 4, 1, 5, 3, 1]
FITS = 1e-3
PLAIN = Sampling(temperature=1.0)


class MaskedTarget(FakeTarget):
    """A target held to a grammar: no token twice in a row, and none followed by the next but one."""

    def logits(self, path):
        logits = super().logits(path)
        logits[[path[-1], (path[-1] + 2) % VOCABULARY]] = -np.inf
        return logits


TARGET = FakeTarget(VOCABULARY, sharpness=1.0, salt=6)
MASKED = MaskedTarget(VOCABULARY, sharpness=1.0, salt=5)


def probabilities(logits: np.ndarray, sampling: Sampling) -> list[float]:
    """What a token's probability should be: written apart from the code under test."""
    weights = [math.exp(x / sampling.temperature) for x in logits]
    ranked = sorted(range(len(weights)), key=lambda token: (-weights[token], token))
    kept, mass = [], 0.0
    for rank, token in enumerate(ranked):
        too_low = weights[token] < sampling.min_p * weights[ranked[0]]
        if (sampling.top_k == -1 or rank < sampling.top_k) and mass <= sampling.top_p and not too_low:
            kept.append(token)
        mass += weights[token] / sum(weights)
    total = sum(weights[token] for token in kept)
    return [weights[token] / total if token in kept else 0.0 for token in range(len(weights))]


def pairs(target: FakeTarget, sampling: Sampling) -> dict[tuple[int, int], float]:
    first = probabilities(target.logits(PROMPT), sampling)
    after = [probabilities(target.logits([*PROMPT, token]), sampling) for token in range(VOCABULARY)]
    return {(a, b): first[a] * after[a][b] for a in range(VOCABULARY) for b in range(VOCABULARY)}


def first_of(probability: dict[tuple[int, int], float]) -> dict[int, float]:
    return {token: sum(p for (a, _), p in probability.items() if a == token) for token in range(VOCABULARY)}


def seeds() -> Iterator[int]:
    """As `server.seeds` draws them from the ids of requests."""
    for number in range(DRAWS):
        yield int.from_bytes(hashlib.blake2b(f"request {number}".encode(), digest_size=8).digest(), "little") >> 1


class Drawn(NamedTuple):
    """Pairs of tokens, and how often the first of them was a draft."""

    pairs: list[tuple[int, int]]
    accepted: int


class Verified(NamedTuple):
    flat: FlatTree
    logits: np.ndarray
    q: np.ndarray


def planned(target: FakeTarget, drafters: Sequence[Drafter]) -> list[Verified]:
    """Trees as drafters that propose something else every time make them, with the target's logits."""
    planner = DraftPlanner(drafters, DraftBudget(WIDTH - 1, 0.0), vocab_size=VOCABULARY)
    trees = []
    for number in range(TREES):
        planner.start(DraftRequest(str(number), PROMPT[:-1]))
        planner.observe(str(number), PROMPT[-1:])
        tree = planner.plan(str(number), PROMPT[-1], WIDTH).tree
        flat = flatten(tree, WIDTH)
        q = np.array([tree.q[node] if node else 1.0 for node in range(flat.size)])
        trees.append(Verified(flat, target.tree_logits(PROMPT, flat), q))
    return trees


Accept = Callable[[Verified, int, Sampling], Sequence[int]]


def exact(tree: Verified, seed: int, sampling: Sampling) -> Sequence[int]:
    return accept_sampled(tree.flat, tree.logits, seed, len(PROMPT), *sampling[1:]).tokens


def draw(target: FakeTarget, trees: list[Verified], sampling: Sampling, accept: Accept = exact) -> Drawn:
    """Two tokens for each seed: from the tree, and from the target alone where the tree brought one."""
    drawn, accepted = [], 0
    after = [target.logits([*PROMPT, token]) for token in range(VOCABULARY)]
    for number, seed in enumerate(seeds()):
        first, *more = accept(trees[number % TREES], seed, sampling)
        accepted += bool(more)
        second = more[0] if more else sample_token(after[first], seed, len(PROMPT) + 1, *sampling[1:])
        drawn.append((first, second))
    return Drawn(drawn, accepted)


def check(drawn: Drawn, target: FakeTarget, sampling: Sampling) -> None:
    expected = pairs(target, sampling)
    assert chi_square(drawn.pairs, expected).p_value > FITS
    assert chi_square([first for first, _ in drawn.pairs], first_of(expected)).p_value > FITS


HOSTILE = [drafter.origin for drafter in hostile_drafters(VOCABULARY)]


@pytest.mark.parametrize("origin", [*HOSTILE, "miscalibrated"])
def test_hostile_drafters_do_not_move_the_distribution(origin):
    hostile = {drafter.origin: drafter for drafter in hostile_drafters(VOCABULARY)}
    hostile["miscalibrated"] = MiscalibratedDrafter(VOCABULARY, TARGET.logits)
    trees = planned(TARGET, [hostile[origin]])
    drawn = draw(TARGET, trees, PLAIN)
    check(drawn, TARGET, PLAIN)
    if origin in ("garbage", "duplicate", "miscalibrated"):  # those whose chains are chains
        assert drawn.accepted > DRAWS / 20


@pytest.mark.parametrize("target", [TARGET, MASKED], ids=["free", "masked"])
@pytest.mark.parametrize(
    "sampling",
    [
        PLAIN,
        Sampling(temperature=0.7),
        Sampling(temperature=1.0, top_k=3),
        Sampling(temperature=1.0, top_p=0.6),
        Sampling(temperature=1.0, min_p=0.3),
        Sampling(temperature=1.3, top_k=5, top_p=0.8, min_p=0.05),
    ],
    ids=lambda s: "-".join(f"{name}={value}" for name, value in s._asdict().items() if value != getattr(PLAIN, name)),
)
def test_filters_and_masks_leave_what_they_should_in_proportion(target, sampling):
    several = [GarbageDrafter(VOCABULARY), MiscalibratedDrafter(VOCABULARY, target.logits), LookupDrafter()]
    drawn = draw(target, planned(target, several), sampling)
    check(drawn, target, sampling)
    assert drawn.accepted > DRAWS / 20


# ---- the tests above can fail --------------------------------------------------------------------------------------


def certain(tree: Verified, seed: int, sampling: Sampling) -> Sequence[int]:
    """Accepts a draft as often as its drafter is sure of it, else asks the target."""
    dice = random.Random(seed)
    child = int(tree.flat.next_child[0])
    if child != -1 and dice.random() < tree.q[child]:
        return [int(tree.flat.tokens[child])]
    return exact(tree, seed, sampling)


def padded(tree: Verified, seed: int, sampling: Sampling) -> Sequence[int]:
    """A tree filled up with token 0 below the root, four times, each with a chance of its own."""
    dice = random.Random(seed)
    p = probabilities(tree.logits[0], sampling)[0]
    return [0] if any(dice.random() < p for _ in range(4)) else exact(tree, seed, sampling)


def slightly_eager(tree: Verified, seed: int, sampling: Sampling) -> Sequence[int]:
    """Accepts the likeliest draft in one case of thirty, unasked."""
    child = int(tree.flat.next_child[0])
    return [int(tree.flat.tokens[child])] if random.Random(seed).random() < 1 / 30 else exact(tree, seed, sampling)


def renewed(tree: Verified, seed: int, sampling: Sampling) -> Sequence[int]:
    """Draws again when the target's token was not among the drafts."""
    tokens = exact(tree, seed, sampling)
    return tokens if len(tokens) > 1 else exact(tree, seed + 1, sampling)


def noise_twice(tree: Verified, seed: int, sampling: Sampling) -> Sequence[int]:
    """The same noise at every position."""
    flat = tree.flat._replace(depths=np.zeros_like(tree.flat.depths))
    return exact(tree._replace(flat=flat), seed, sampling)


@pytest.mark.parametrize("accept", [certain, padded, slightly_eager, renewed, noise_twice])
def test_a_biased_verifier_is_caught(accept):
    target = TARGET
    trees = planned(target, [MiscalibratedDrafter(VOCABULARY, target.logits)])
    drawn, expected = draw(target, trees, PLAIN, accept), pairs(target, PLAIN)
    fits = (chi_square(drawn.pairs, expected), chi_square([a for a, _ in drawn.pairs], first_of(expected)))
    assert min(fit.p_value for fit in fits) < FITS / 100


@pytest.mark.parametrize(
    ("wrong", "right"), [({"top_k": 4}, {"top_k": 3}), ({"temperature": 1.3}, {"temperature": 1.0})]
)
def test_a_parameter_that_is_a_little_off_is_caught(wrong, right):
    drawn = draw(TARGET, planned(TARGET, []), PLAIN._replace(**wrong))
    assert chi_square(drawn.pairs, pairs(TARGET, PLAIN._replace(**right))).p_value < FITS / 100


# ---- the noise -----------------------------------------------------------------------------------------------------

SEEDS = {"drawn": list(seeds())[:300], "in a row": list(range(300)), "negative": list(range(-300, 0)),
         "high bits": [number << 32 for number in range(300)]}  # fmt: skip


@pytest.mark.parametrize("kind", list(SEEDS))
def test_noise_does_not_repeat_between_requests_positions_and_tokens(kind):
    """Users name seeds in a row, and batches hold neighbours in position: no two may see the same noise, or alike."""
    noise = np.array([[gumbel_noise(seed, position, 16) for position in range(8)] for seed in SEEDS[kind]])
    assert len(np.unique(noise)) > noise.size * 0.9999
    uniform = np.exp(-np.exp(-noise))
    for axis in range(3):
        ahead = np.moveaxis(uniform, axis, 0)
        for distance in (1, 2, 4):
            one, other = ahead[:-distance].ravel(), ahead[distance:].ravel()
            assert abs(np.corrcoef(one, other)[0, 1]) < 4.5 / math.sqrt(len(one))
    cells = np.minimum((uniform * 20).astype(int), 19).ravel().tolist()
    assert chi_square(cells, dict.fromkeys(range(20), 0.05)).p_value > FITS


@pytest.mark.parametrize("step", [(1, 0), (0, 1), (1, -1), (0, 2)], ids=["seed", "position", "both", "two on"])
def test_neighbours_sample_independently(step):
    """Two requests with seeds in a row, or one request at two positions: the pair is as two throws of two dice."""
    logits = TARGET.logits(PROMPT)
    p = probabilities(logits, PLAIN)
    drawn = [
        tuple(sample_token(logits, 10 * i + k * step[0], 50 + k * step[1], *PLAIN[1:]) for k in (0, 1))
        for i in range(DRAWS)
    ]
    assert chi_square(drawn, {(a, b): p[a] * p[b] for a in range(6) for b in range(6)}).p_value > FITS


def test_chi_square_is_what_tables_say():
    """3.841 at one degree of freedom is the 5 % point, 18.307 at ten, 124.342 at a hundred."""
    for statistic, freedom in ((3.841, 1), (18.307, 10), (124.342, 100)):
        n, wanted = freedom + 1, 1000
        off = math.sqrt(statistic * wanted / 2)
        counts = {**dict.fromkeys(range(n), wanted), 0: wanted + off, 1: wanted - off}
        seen = [outcome for outcome, count in counts.items() for _ in range(round(count))]
        fit = chi_square(seen, dict.fromkeys(range(n), 1 / n))
        assert fit.freedom == freedom
        assert fit.p_value == pytest.approx(0.05, rel=0.1)


def test_chi_square_puts_rare_outcomes_together_and_knows_the_impossible():
    probability = {"often": 0.9, "a": 0.04, "b": 0.03, "c": 0.03, "never": 0.0}
    fit = chi_square(["often"] * 90 + ["a"] * 10, probability)
    assert (fit.freedom, fit.statistic) == (1, 0.0)
    assert chi_square(["never", *["often"] * 99], probability).p_value == 0.0
    assert chi_square(["unheard of", *["often"] * 99], probability).p_value == 0.0
    with pytest.raises(ValueError, match="sum to"):
        chi_square(["a"], {"a": 0.5})
    with pytest.raises(ValueError, match="too few"):
        chi_square(["often"] * 3, probability)
