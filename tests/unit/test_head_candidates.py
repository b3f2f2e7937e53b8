"""The best of a head's candidates come out as chains that are the same tree."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sgl_spec.drafting.head.candidates import NO_PARENT, HeadCandidates, likeliest_chains
from sgl_spec.drafting.tree import ROOT, DraftTree


@st.composite
def grown(draw: st.DrawFn) -> HeadCandidates:
    """A random tree: distinct tokens below one parent, scores that never rise along a path, equal ones often."""
    size = draw(st.integers(1, 30))
    parents, tokens, scores = [], [], []
    taken: set[tuple[int, int]] = set()
    for node in range(size):
        parent = draw(st.integers(NO_PARENT, node - 1))
        token = draw(st.integers(0, 40).filter(lambda t, p=parent: (p, t) not in taken))
        taken.add((parent, token))
        above = 1.0 if parent == NO_PARENT else scores[parent]
        parents.append(parent)
        tokens.append(token)
        scores.append(above * draw(st.sampled_from([0.0, 0.1, 0.5, 1.0])))
    return HeadCandidates(np.array(tokens), np.array(parents), np.array(scores))


def _paths(candidates: HeadCandidates) -> dict[tuple[int, ...], float]:
    """Score by the tokens on the way to a node."""
    paths: list[tuple[int, ...]] = []
    for token, parent in zip(candidates.tokens.tolist(), candidates.parents.tolist(), strict=True):
        paths.append((*paths[parent], token) if parent != NO_PARENT else (token,))
    return dict(zip(paths, candidates.scores.tolist(), strict=True))


def _tree_paths(tree: DraftTree) -> dict[tuple[int, ...], float]:
    paths: dict[int, tuple[int, ...]] = {ROOT: ()}
    for node in range(1, len(tree)):
        paths[node] = (*paths[tree.parents[node]], tree.tokens[node])
    return {path: tree.a[node] for node, path in paths.items() if node != ROOT}


@given(grown(), st.integers(0, 32))
def test_the_chains_are_the_likeliest_nodes_with_their_scores(candidates: HeadCandidates, count: int) -> None:
    tree = DraftTree(0)
    evidence: dict[tuple[int, ...], float] = {}
    for chain in likeliest_chains(candidates, count, "eagle"):
        tree.graft(chain)
        for depth in range(1, len(chain.tokens) + 1):
            evidence[chain.tokens[:depth]] = float(np.prod(chain.q[:depth]))
    every = _paths(candidates)
    kept = _tree_paths(tree)
    possible = sum(score > 0 for score in every.values())
    assert len(kept) == min(count, possible)
    assert all(np.isclose(evidence[path], every[path]) for path in kept)
    left_out = [score for path, score in every.items() if path not in kept]
    assert max(left_out, default=0.0) <= min((every[path] for path in kept), default=1.0) + 1e-12


def test_what_is_no_number_is_left_out() -> None:
    scores = np.array([0.5, np.nan, np.nan])
    chains = likeliest_chains(HeadCandidates(np.array([7, 8, 9]), np.array([-1, -1, 1]), scores), 8, "eagle")
    assert [chain.tokens for chain in chains] == [(7,)]
