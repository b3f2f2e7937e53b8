"""What drafting costs on the hot path of a server: 32 requests with contexts of 4,000 tokens.

The bounds are on the fastest run and generous, several times what an idle machine needs: a busy machine
should not fail them, a change of order should.
"""

from __future__ import annotations

import random

import pytest

from sgl_spec.drafting.acceptance import Acceptance
from sgl_spec.drafting.budget import DraftBudget
from sgl_spec.drafting.drafter import DraftRequest
from sgl_spec.drafting.flat_tree import flatten
from sgl_spec.drafting.lookup_drafter import LookupDrafter
from sgl_spec.drafting.planner import DraftPlanner
from sgl_spec.drafting.suffix_index import SuffixIndex

REQUESTS = 32
CONTEXT = 4_000
WIDTH = 16


def text(seed: int) -> list[int]:
    """Token ids with the repetition of agent traces: Zipf-like words, many in phrases that come again."""
    generator = random.Random(seed)
    phrases = [[int(generator.paretovariate(0.9)) for _ in range(generator.randint(3, 20))] for _ in range(60)]
    tokens: list[int] = []
    while len(tokens) < CONTEXT:
        tokens += generator.choice(phrases) if generator.random() < 0.6 else [int(generator.paretovariate(0.5))]
    return [token % 49_152 for token in tokens[:CONTEXT]]


@pytest.fixture(scope="module")
def texts() -> list[list[int]]:
    return [text(seed) for seed in range(REQUESTS)]


@pytest.fixture
def planner(texts) -> DraftPlanner:
    planner = DraftPlanner([LookupDrafter()], DraftBudget(WIDTH - 1), vocab_size=49_152)
    for number, tokens in enumerate(texts):
        planner.start(DraftRequest(str(number), tokens))
    return planner


def test_plan_for_a_batch(benchmark, planner, texts):
    roots = [(str(number), tokens[-1]) for number, tokens in enumerate(texts)]
    plans = benchmark(lambda: [planner.plan(rid, root, 500) for rid, root in roots])
    assert sum(plan.tree.num_drafts for plan in plans) > REQUESTS, "this batch has something to draft"
    assert benchmark.stats.stats.min / REQUESTS < 500e-6


def test_flatten_a_batch(benchmark, planner, texts):
    trees = [planner.plan(str(number), tokens[-1], 500).tree for number, tokens in enumerate(texts)]
    benchmark(lambda: [flatten(tree, WIDTH) for tree in trees])
    assert benchmark.stats.stats.min / REQUESTS < 300e-6


def test_commit_a_batch(benchmark, planner, texts):
    trees = [planner.plan(str(number), tokens[-1], 500).tree for number, tokens in enumerate(texts)]

    def commit_all() -> None:
        for number, tree in enumerate(trees):
            planner.commit(str(number), tree, Acceptance((0,), (number,)), (number,))

    benchmark.pedantic(commit_all, rounds=20)
    assert benchmark.stats.stats.min / REQUESTS < 300e-6


def test_index_a_prompt(benchmark, texts):
    benchmark(lambda: SuffixIndex().extend(texts[0]))
    assert benchmark.stats.stats.min / CONTEXT < 30e-6


def test_appending_costs_the_same_at_any_length(texts):
    """Amortised constant time, counted rather than timed: states made per token do not grow."""
    index = SuffixIndex()
    index.extend([token for tokens in texts[:8] for token in tokens])
    assert index.num_states <= 2 * len(index) + 1


def test_the_worst_inputs_plan_in_bounded_time(benchmark):
    """One token repeated, and a token followed by thousands of others."""
    planner = DraftPlanner([LookupDrafter()], DraftBudget(WIDTH - 1))
    fan = [token for n in range(2_000) for token in (7, n + 8)]
    planner.start(DraftRequest("same", [7] * CONTEXT))
    planner.start(DraftRequest("fan", [*fan, 7]))
    benchmark(lambda: (planner.plan("same", 7, 500), planner.plan("fan", 7, 500)))
    assert benchmark.stats.stats.min < 20e-3
