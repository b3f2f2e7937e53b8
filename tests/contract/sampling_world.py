"""Trees, logits and sampling parameters of every shape, for the tests of the server's choice of tokens."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from hypothesis import strategies as st

from sgl_spec.drafting.flat_tree import FlatTree, flatten
from sgl_spec.drafting.tree import Chain, DraftTree
from sgl_spec.server.sampling import RowParams

NO_TOP_K = 1 << 30  # SGLang's number for "all"
KINDS = ("normal", "coarse", "equal", "masked", "one_finite", "huge", "sanitised", "infinite_bias", "all_masked", "nan")


class Verify(NamedTuple):
    """What a verify forward hands to `node_targets`."""

    logits: torch.Tensor
    params: RowParams
    positions: torch.Tensor
    trees: list[FlatTree]


def random_tree(rng: np.random.Generator, width: int, vocabulary: int) -> FlatTree:
    tree = DraftTree(int(rng.integers(vocabulary)))
    for _ in range(4 * width):
        if len(tree) < width:
            under = int(rng.integers(len(tree)))
            tree.graft(Chain((int(rng.integers(vocabulary)),), (0.1,), "test"), under=under)
    return flatten(tree, width)


def row_of(kind: str, rng: np.random.Generator, vocabulary: int) -> np.ndarray:
    """One row of logits, float32 [vocabulary]."""
    row = rng.normal(0, rng.choice([0.1, 2.0, 8.0]), vocabulary)
    if kind == "coarse":  # as bfloat16 gives them: many ties
        row = np.round(row)
    elif kind == "equal":
        row[:] = row[0]
    elif kind == "masked":  # a grammar's mask, at least one token left
        row[rng.permutation(vocabulary)[1:][rng.random(vocabulary - 1) < 0.7]] = -np.inf
    elif kind in ("one_finite", "all_masked"):
        kept = row[0]
        row[:] = -np.inf
        row[rng.integers(vocabulary)] = kept if kind == "one_finite" else -np.inf
    elif kind == "huge":
        row *= 1e30
    elif kind == "sanitised":  # what SGLang makes of NaN and infinity
        row[rng.random(vocabulary) < 0.5] = rng.choice([-1e30, 1e30])
    elif kind in ("infinite_bias", "nan"):
        row[rng.integers(vocabulary)] = np.inf if kind == "infinite_bias" else np.nan
    return row.astype(np.float32)


def likely_children(logits: torch.Tensor, trees: list[FlatTree]) -> None:
    """Make some drafts what the target wants, so that paths are long."""
    width = trees[0].width
    for request, tree in enumerate(trees):
        for node in range(1, tree.size):
            logits[request * width + int(tree.parents[node]), int(tree.tokens[node])] += 6.0


@st.composite
def row_params(draw: st.DrawFn, rows: int) -> RowParams:
    """Greedy and sampled rows side by side, every parameter up to its ends."""

    def column(values: st.SearchStrategy[float], dtype: torch.dtype) -> torch.Tensor:
        return torch.tensor(draw(st.lists(values, min_size=rows, max_size=rows)), dtype=dtype)

    fraction = st.floats(0, 1, width=32)
    return RowParams(
        column(st.one_of(st.sampled_from([1e-6, 0.3, 1.0, 1.0, 100.0]), st.floats(1e-6, 100)), torch.float32),
        column(st.sampled_from([1, 2, 3, 7, 40, NO_TOP_K, NO_TOP_K]), torch.int64),
        column(st.one_of(st.sampled_from([1e-9, 0.5, 1.0, 1.0]), fraction.filter(lambda p: p > 0)), torch.float32),
        column(st.one_of(st.sampled_from([0.0, 0.0, 1.0]), fraction), torch.float32),
        column(st.integers(-(2**63), 2**63 - 1), torch.int64),
    )


@st.composite
def verifies(draw: st.DrawFn) -> Verify:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    requests, width, vocabulary = draw(st.integers(1, 4)), draw(st.integers(1, 9)), draw(st.integers(2, 70))
    trees = [random_tree(rng, width, vocabulary) for _ in range(requests)]
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4))
    logits = torch.from_numpy(np.stack([row_of(rng.choice(kinds), rng, vocabulary) for _ in range(requests * width)]))
    if draw(st.booleans()):
        likely_children(logits, trees)
    start = torch.from_numpy(rng.integers(0, 2**20, requests))
    positions = (start[:, None] + torch.from_numpy(np.stack([tree.depths for tree in trees]))).flatten()
    return Verify(logits, draw(row_params(requests)), positions, trees)


def on_the_path(verify: Verify, targets: torch.Tensor) -> list[list[int]]:
    """The tokens at the nodes that acceptance reaches, request by request."""
    width, paths = verify.trees[0].width, []
    for request, tree in enumerate(verify.trees):
        node, path = 0, []
        while node != -1:
            path.append(int(targets[request * width + node]))
            node = next((c for c in range(1, tree.size) if tree.parents[c] == node and tree.tokens[c] == path[-1]), -1)
        paths.append(path)
    return paths
