"""Sampling down the accepted path gives the tokens that sampling every node gives, and never an id out of range."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sgl_spec.drafting.acceptance import accept_sampled
from sgl_spec.drafting.flat_tree import FlatTree, flatten
from sgl_spec.drafting.tree import Chain, DraftTree
from sgl_spec.server.sampling import RowParams, gumbel_max, node_targets, target_tokens

VOCABULARY = 60


def _tree(rng: np.random.Generator, width: int) -> FlatTree:
    tree = DraftTree(int(rng.integers(VOCABULARY)))
    while len(tree) < width:
        under = int(rng.integers(len(tree)))
        tree.graft(Chain((int(rng.integers(VOCABULARY)),), (0.1,), "test"), under=under)
    return flatten(tree, width)


def _params(rng: np.random.Generator, requests: int) -> RowParams:
    return RowParams(
        torch.tensor(rng.choice([0.5, 1.0, 1.5], requests), dtype=torch.float32),
        torch.tensor(rng.choice([1, 5, 1 << 30], requests)),
        torch.tensor(rng.choice([0.7, 1.0], requests), dtype=torch.float32),
        torch.tensor(rng.choice([0.0, 0.05], requests), dtype=torch.float32),
        torch.tensor(rng.integers(-(2**62), 2**62, requests)),
    )


@pytest.mark.parametrize("case", range(30))
def test_equal_to_sampling_every_node_where_it_matters(case: int) -> None:
    rng = np.random.default_rng(case)
    requests, width = int(rng.integers(1, 5)), int(rng.integers(1, 12))
    trees, params = [_tree(rng, width) for _ in range(requests)], _params(rng, requests)
    logits = torch.tensor(rng.normal(0, 3, (requests * width, VOCABULARY)), dtype=torch.float32)
    # Make some children what the target wants, so that paths are long.
    for request, tree in enumerate(trees):
        for node in range(1, width):
            logits[request * width + int(tree.parents[node]), int(tree.tokens[node])] += 6.0
    start = torch.tensor(rng.integers(1, 500, requests))
    depths = torch.tensor(np.stack([tree.depths for tree in trees]))
    positions = (start[:, None] + depths).flatten()
    targets = node_targets(logits, params, positions, trees)
    every = target_tokens(logits, RowParams(*(v.repeat_interleave(width) for v in params)), positions)
    for request, tree in enumerate(trees):
        rows = slice(request * width, (request + 1) * width)
        path = accept_sampled(
            tree, logits[rows].numpy(), int(params.seed[request]), int(start[request]),
            float(params.temperature[request]), int(params.top_k[request]), float(params.top_p[request]),
            float(params.min_p[request]),
        )  # fmt: skip
        reached = torch.tensor(path.nodes) + request * width
        assert targets[reached].tolist() == every[reached].tolist() == list(path.tokens)


@pytest.mark.parametrize("value", [float("inf"), float("nan"), -float("inf")])
def test_no_token_is_out_of_range_whatever_the_logits(value: float) -> None:
    logprobs = torch.full((2, VOCABULARY), value)
    logprobs[1] = torch.log_softmax(torch.randn(VOCABULARY), 0)
    tokens = gumbel_max(logprobs, torch.tensor([1, 2]), torch.tensor([3, 4]))
    assert ((tokens >= 0) & (tokens < VOCABULARY)).all()
