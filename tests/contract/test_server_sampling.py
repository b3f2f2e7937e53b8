"""The server's choice of tokens against the oracle in `drafting.acceptance`, token for token, and row by row."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
import torch
from attention_world import random_parents
from sglang.srt.runtime_context import get_context
from sglang.srt.sampling.sampling_params import SamplingParams

from sgl_spec.drafting.acceptance import accept_greedy, accept_sampled, filtered_logprobs, sample_token
from sgl_spec.drafting.flat_tree import FlatTree, flatten
from sgl_spec.drafting.tree import Chain, DraftTree
from sgl_spec.server import sampling
from sgl_spec.server.seeds import request_seed
from sgl_spec.testing.chi_square import chi_square

VOCABULARIES = (50, 333, 1024, 1025, 2000)
NO_TOP_K = 1 << 30  # SGLang's number for "all"
TOP_K = (1, 2, 5, 40, 1500, NO_TOP_K)
TOP_P = (1e-6, 0.1, 0.5, 0.9, 0.999, 1.0)
MIN_P = (0.0, 0.01, 0.3, 1.0)
TEMPERATURES = (0.3, 0.7, 1.0, 1.7)
FILTERS = tuple(itertools.product(TOP_K, TOP_P, MIN_P))
ROWS_OF_EACH = 2
PLAIN = SamplingParams()


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    with get_context().override_server_args():
        yield


class Rows(NamedTuple):
    """logits: float32 [rows, vocabulary]; params and positions as `target_tokens` takes them."""

    logits: torch.Tensor
    params: sampling.RowParams
    positions: torch.Tensor

    def select(self, rows: torch.Tensor) -> Rows:
        return Rows(self.logits[rows], self.params.select(rows), self.positions[rows])

    def tokens(self) -> list[int]:
        return sampling.target_tokens(self.logits, self.params, self.positions).tolist()


def random_logits(rng: random.Random, rows: int, vocabulary: int) -> torch.Tensor:
    """Steps of 1/8, coarse as bfloat16 gives them: many ties. Rows are peaked or flat; some forbid tokens."""
    generator = torch.Generator().manual_seed(rng.randrange(2**31))
    spread = torch.tensor([rng.choice((0.05, 0.5, 2.0, 6.0)) for _ in range(rows)])
    logits = (torch.randn(rows, vocabulary, generator=generator) * spread[:, None] * 8).round() / 8
    for row in range(0, rows, 5):
        logits[row, torch.randperm(vocabulary, generator=generator)[: vocabulary // 2]] = -torch.inf
    return logits


def random_rows(seed: int, vocabulary: int) -> Rows:
    """Each combination of filters, at a random temperature, seed and position."""
    rng = random.Random(seed)
    chosen = [filters for filters in FILTERS for _ in range(ROWS_OF_EACH)]
    rng.shuffle(chosen)
    top_k, top_p, min_p = zip(*chosen, strict=True)
    params = sampling.RowParams(
        temperature=torch.tensor([rng.choice(TEMPERATURES) for _ in chosen]),
        top_k=torch.tensor(top_k),
        top_p=torch.tensor(top_p),
        min_p=torch.tensor(min_p),
        seed=torch.tensor([rng.randrange(-(2**63), 2**63) for _ in chosen]),
    )
    positions = torch.tensor([rng.randrange(100_000) for _ in chosen])
    return Rows(random_logits(rng, len(chosen), vocabulary), params, positions)


def oracle(rows: Rows) -> list[int]:
    tokens = []
    columns = [values.tolist() for values in (*rows.params[:5], rows.positions)]
    for logits, (temperature, top_k, top_p, min_p, seed, position) in zip(
        rows.logits.numpy(), zip(*columns, strict=True), strict=True
    ):
        if top_k == 1:
            tokens.append(int(np.argmax(logits)))
        else:
            tokens.append(sample_token(logits, seed, position, temperature, top_k, top_p, min_p))
    return tokens


@pytest.fixture(scope="module", params=VOCABULARIES)
def rows(request: pytest.FixtureRequest) -> Rows:
    return random_rows(request.param, request.param)


def test_tokens_equal_the_oracles(rows: Rows) -> None:
    assert rows.tokens() == oracle(rows)


def at_the_border(logits: np.ndarray, temperature: float, top_p: float) -> np.ndarray:
    """Tokens before which so nearly top_p stands that a float32 log-probability cannot tell on which side."""
    p = np.exp(filtered_logprobs(logits, temperature, -1, 1.0, 0.0))
    order = np.argsort(-p, kind="stable")
    near = np.empty(len(p), dtype=bool)
    near[order] = np.abs(np.cumsum(p[order]) - p[order] - top_p) < 3e-7
    return near


def test_kept_tokens_equal_the_oracles(rows: Rows) -> None:
    """The filters alone: which tokens survive, and with what probability."""
    fast = sampling.filtered_logprobs(rows.logits, rows.params).double().numpy()
    for row, (logits, temperature, top_k, top_p, min_p) in enumerate(
        zip(rows.logits.numpy(), *(values.tolist() for values in rows.params[:4]), strict=True)
    ):
        slow = filtered_logprobs(logits, temperature, top_k, top_p, min_p)
        # At top_p = 1 the oracle may drop tokens of no weight (2e-12), when rounding takes the sum before them past 1.
        counts = ((slow > -27) | (fast[row] > -27)) & ~at_the_border(logits, temperature, top_p)
        np.testing.assert_allclose(fast[row][counts], slow[counts], rtol=1e-5, atol=1e-4)


def test_a_row_does_not_depend_on_the_others(rows: Rows) -> None:
    wanted = rows.tokens()
    order = torch.randperm(len(wanted), generator=torch.Generator().manual_seed(1))
    assert rows.select(order).tokens() == [wanted[i] for i in order.tolist()]
    for start, end in ((0, 1), (7, 8), (3, 19), (100, 133)):
        assert rows.select(torch.arange(start, end)).tokens() == wanted[start:end]
    singly = [rows.select(torch.tensor([i])).tokens()[0] for i in range(len(wanted))]
    assert singly == wanted


def test_ties_go_to_the_lowest_token() -> None:
    """Equal logits everywhere: greedy takes token 0; top_k keeps the first k; a tiny top_p keeps token 0 only."""
    logits = torch.zeros(60, 200)
    one, many = torch.ones(60), torch.arange(60)
    greedy = sampling.RowParams(one, one.long(), one, one * 0, many)
    assert sampling.target_tokens(logits, greedy, many).tolist() == [0] * 60
    five = greedy._replace(top_k=torch.full((60,), 5))
    assert set(sampling.target_tokens(logits, five, many).tolist()) == {0, 1, 2, 3, 4}
    tiny = greedy._replace(top_k=torch.full((60,), NO_TOP_K), top_p=torch.full((60,), 1e-9))
    assert sampling.target_tokens(logits, tiny, many).tolist() == [0] * 60


def test_the_logits_are_left_as_they_were(rows: Rows) -> None:
    before = rows.logits.clone()
    rows.tokens()
    assert torch.equal(rows.logits, before)


DRAWS = 20_000
DISTRIBUTION = torch.tensor([0.3, 0.2, 0.15, 0.1, 0.1, 0.08, 0.04, 0.03])
# By filter: what is left of it. 0.1 stands twice: top_k keeps the first.
LEFT = {
    (1.0, NO_TOP_K, 1.0, 0.0): [0.3, 0.2, 0.15, 0.1, 0.1, 0.08, 0.04, 0.03],
    (0.5, NO_TOP_K, 1.0, 0.0): [0.09, 0.04, 0.0225, 0.01, 0.01, 0.0064, 0.0016, 0.0009],
    (1.0, 4, 1.0, 0.0): [0.3, 0.2, 0.15, 0.1, 0, 0, 0, 0],
    (1.0, NO_TOP_K, 0.6, 0.0): [0.3, 0.2, 0.15, 0, 0, 0, 0, 0],
    (1.0, NO_TOP_K, 1.0, 0.4): [0.3, 0.2, 0.15, 0, 0, 0, 0, 0],
    (0.5, 6, 0.9, 0.1): [0.09, 0.04, 0.0225, 0.01, 0.01, 0, 0, 0],
}


def drawn(filters: tuple[float, int, float, float], way: Callable[..., torch.Tensor], seeds: torch.Tensor) -> list[int]:
    count = len(seeds)
    temperature, top_k, top_p, min_p = filters
    params = sampling.RowParams(
        torch.full((count,), temperature), torch.full((count,), top_k), torch.full((count,), top_p),
        torch.full((count,), min_p), seeds,
    )  # fmt: skip
    return way(DISTRIBUTION.log().expand(count, 8), params, torch.full((count,), 77)).tolist()


@pytest.mark.parametrize("way", [sampling.tokens_by_candidates, sampling.tokens_at_once])
@pytest.mark.parametrize("filters", list(LEFT), ids=str)
def test_tokens_follow_the_distribution(
    filters: tuple[float, int, float, float], way: Callable[..., torch.Tensor]
) -> None:
    """20,000 requests without a seed. Had the likeliest been taken one time in twenty, unasked, it would show."""
    left = {token: weight / sum(LEFT[filters]) for token, weight in enumerate(LEFT[filters])}
    seeds = torch.tensor([request_seed(SimpleNamespace(rid=f"{i}", sampling_params=PLAIN)) for i in range(DRAWS)])
    tokens = drawn(filters, way, seeds)
    assert chi_square(tokens, left).p_value > 1e-3
    biased = [token if i % 20 else 0 for i, token in enumerate(tokens)]
    assert chi_square(biased, left).p_value < 1e-4


@pytest.mark.parametrize("step", [1, 2, 1 << 32], ids=["seeds in a row", "every other", "of high bits"])
def test_requests_of_one_batch_sample_independently(step: int) -> None:
    """Users number their seeds. Neighbours' tokens are pairs of independent throws."""
    tokens = drawn((1.0, NO_TOP_K, 1.0, 0.0), sampling.target_tokens, torch.arange(2 * DRAWS) * step - 99)
    p = DISTRIBUTION.double().tolist()
    pairs = list(zip(tokens[::2], tokens[1::2], strict=True))
    assert chi_square(pairs, {(a, b): p[a] * p[b] for a in range(8) for b in range(8)}).p_value > 1e-3


class Verified(NamedTuple):
    flat: FlatTree
    logits: torch.Tensor


def verified(seed: int) -> Verified:
    """A random tree over a vocabulary of eight and a target whose logits make its tokens likely."""
    rng = random.Random(seed)
    tree = DraftTree(0)
    for parent in random_parents(rng, 16, 16)[1:]:
        taken = {tree.tokens[child] for child in tree.children(parent)} if parent < len(tree) else set(range(8))
        left = sorted(set(range(8)) - taken)
        if left:
            tree.graft(Chain((rng.choice(left),), (0.5,), "random"), parent)
    return Verified(flatten(tree, 16), random_logits(rng, 16, 8).nan_to_num(neginf=-3.0))


@pytest.mark.parametrize("seed", range(40))
def test_a_verified_tree_commits_what_the_oracle_commits(seed: int) -> None:
    """`target_tokens` at every node, then the greedy walk: equal to sampling the walk node by node."""
    rng, tree = random.Random(seed), verified(seed)
    temperature, top_k = rng.choice(TEMPERATURES), rng.choice((2, 5, NO_TOP_K))
    top_p, min_p = rng.choice(TOP_P), rng.choice((0.0, 0.01))
    request_seed, position, width = rng.randrange(-(2**63), 2**63), rng.randrange(5000), tree.flat.width
    params = sampling.RowParams(
        torch.full((width,), temperature), torch.full((width,), top_k), torch.full((width,), top_p),
        torch.full((width,), min_p), torch.full((width,), request_seed),
    )  # fmt: skip

    tokens = sampling.target_tokens(tree.logits, params, torch.from_numpy(tree.flat.depths) + position)

    exact = [float(values[0]) for values in (params.temperature, params.top_p, params.min_p)]
    assert accept_greedy(tree.flat, tokens.numpy()) == accept_sampled(
        tree.flat, tree.logits.numpy(), request_seed, position, exact[0], top_k, exact[1], exact[2]
    )
