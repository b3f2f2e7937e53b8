"""The tensors that grow a head's trees give the trees that growing one request by hand gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sgl_spec.drafting.head.candidates import NO_PARENT, HeadCandidates
from sgl_spec.server.eagle.growing import Growing

VOCABULARY = 50


class _Head:
    """Next-token probabilities as a function of the path: what a real head with the right keys and values is."""

    def __init__(self, seed: int, topk: int) -> None:
        self._seed, self._topk = seed, topk

    def likeliest(self, path: tuple[int, ...]) -> tuple[list[float], list[int]]:
        rng = np.random.default_rng([self._seed, len(path), *path])
        weights = rng.exponential(size=VOCABULARY) ** 3
        order = np.argsort(-weights)[: self._topk]
        return (weights[order] / weights.sum()).tolist(), order.tolist()


def _by_hand(head: _Head, topk: int, steps: int) -> dict[tuple[int, ...], float]:
    """Score by path. Level by level: the topk likeliest of a level get children."""
    every: dict[tuple[int, ...], float] = {}
    rows: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(steps):
        level = {}
        for path, score in rows.items():
            for prob, token in zip(*head.likeliest(path), strict=True):
                level[(*path, token)] = score * prob
        every |= level
        rows = dict(sorted(level.items(), key=lambda item: -item[1])[:topk])
    return every


def _grown(heads: list[_Head], topk: int, steps: int) -> list[HeadCandidates]:
    def of(paths: list[tuple[_Head, tuple[int, ...]]]) -> tuple[torch.Tensor, torch.Tensor]:
        probs, tokens = zip(*(head.likeliest(path) for head, path in paths), strict=True)
        return torch.tensor(probs, dtype=torch.float64), torch.tensor(tokens)

    tree = Growing(*of([(head, ()) for head in heads]))
    paths = [() for _ in heads for _ in range(topk)]
    for _ in range(steps - 1):
        paths = [(*path, token) for path, token in zip(paths, tree.row_tokens.flatten().tolist(), strict=True)]
        above = tree.expand(*of([(heads[row // topk], path) for row, path in enumerate(paths)]))
        paths = [paths[row] for row in above.tolist()]
    return tree.candidates(lambda _: None)


def _paths(candidates: HeadCandidates) -> dict[tuple[int, ...], float]:
    paths: list[tuple[int, ...]] = []
    for token, parent in zip(candidates.tokens.tolist(), candidates.parents.tolist(), strict=True):
        paths.append((*paths[parent], token) if parent != NO_PARENT else (token,))
    assert len(set(paths)) == len(paths)
    return dict(zip(paths, candidates.scores.tolist(), strict=True))


@pytest.mark.parametrize(("topk", "steps"), [(1, 3), (2, 1), (3, 2), (4, 4)])
def test_equal_to_growing_each_request_alone(topk: int, steps: int) -> None:
    heads = [_Head(seed, topk) for seed in range(5)]
    for head, candidates in zip(heads, _grown(heads, topk, steps), strict=True):
        wanted, found = _by_hand(head, topk, steps), _paths(candidates)
        assert found.keys() == wanted.keys()
        assert all(np.isclose(found[path], wanted[path]) for path in wanted)


def test_ranks_are_made_to_agree_before_anything_is_read() -> None:
    tree = Growing(torch.tensor([[0.5, 0.25]]), torch.tensor([[3, 4]]))

    def from_rank_0(column: torch.Tensor) -> None:
        column.fill_(1)

    (candidates,) = tree.candidates(from_rank_0)
    assert candidates.tokens.tolist() == [1, 1]
    assert candidates.scores.tolist() == [1.0, 1.0]
