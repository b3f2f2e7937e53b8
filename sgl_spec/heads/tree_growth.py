"""The candidate tree that SGLang grows with a head, for many roots at once (EAGLE-2, arXiv 2406.16858).

Offline twin of `select_top_k_tokens` and `organize_draft_results` in SGLang: `topk` branches, each extended by its
`topk` likeliest tokens a step; the `topk` best of all extensions become the branches of the next step; at the end the
best nodes of all steps stay. A node's score is the product of the probabilities on its path.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class TreeShape(NamedTuple):
    """Draft steps, branches, and nodes of the verified tree with its root.

    SGLang's --speculative-num-steps, --speculative-eagle-topk and --speculative-num-draft-tokens.
    """

    steps: int = 4
    topk: int = 4
    nodes: int = 16


class Branches(NamedTuple):
    """What the next draft step runs on. tokens: [roots, topk]; parents: [roots, topk], the branches they extend."""

    tokens: Tensor
    parents: Tensor


class TreeGrowth:
    """Grows the trees of as many roots as there are rows, a draft step at a time."""

    def __init__(self, shape: TreeShape) -> None:
        self._shape = shape
        self._tokens: list[Tensor] = []  # each [roots, candidates of the step]
        self._scores: list[Tensor] = []
        self._chosen: list[Tensor] = []  # which candidates became branches: [roots, topk]
        self._branch_scores = torch.zeros(0)

    def first(self, probabilities: Tensor) -> Branches:
        """The root's children. probabilities: [roots, vocabulary]."""
        scores, tokens = probabilities.topk(self._shape.topk, dim=-1)
        self._tokens, self._scores, self._branch_scores = [tokens], [scores], scores
        everyone = torch.arange(self._shape.topk, device=tokens.device).expand(len(tokens), -1)
        self._chosen = [everyone]
        return Branches(tokens, torch.zeros_like(everyone))

    def extend(self, probabilities: Tensor) -> Branches:
        """A later step. probabilities: [roots, topk, vocabulary], one row for each branch."""
        topk = self._shape.topk
        likely, tokens = probabilities.topk(topk, dim=-1)
        scores = (self._branch_scores[:, :, None] * likely).flatten(1)
        self._branch_scores, chosen = scores.topk(topk, dim=-1)
        tokens = tokens.flatten(1)
        self._tokens.append(tokens)
        self._scores.append(scores)
        self._chosen.append(chosen)
        return Branches(tokens.gather(1, chosen), chosen // topk)

    def selected(self) -> list[Tensor]:
        """For each step, which of its candidates stay in the verified tree: bool [roots, candidates]."""
        scores = torch.cat(self._scores, dim=1)
        best = scores.topk(min(self._shape.nodes - 1, scores.shape[1]), dim=1).indices
        kept = torch.zeros_like(scores, dtype=torch.bool).scatter_(1, best, True)
        return list(kept.split([step.shape[1] for step in self._scores], dim=1))

    def agreement(self, truth: Tensor) -> Tensor:
        """How many drafts a target would accept that goes on with `truth`: int64 [roots].

        truth: int64 [roots, steps], the tokens that really come next, numbered as in `probabilities`; -1 for none.
        """
        topk = self._shape.topk
        kept = self.selected()
        right = (self._tokens[0] == truth[:, :1]) & kept[0]
        accepted = right.any(1).long()
        for step in range(1, len(self._tokens)):
            branch = right.gather(1, self._chosen[step - 1])  # is this branch the true path?
            matches = self._tokens[step] == truth[:, step : step + 1]
            right = branch.repeat_interleave(topk, dim=1) & matches & kept[step]
            accepted += right.any(1)
        return accepted
