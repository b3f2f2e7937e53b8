"""The tree a draft head grows, level by level, for several requests at once, as tensors.

Where it stands in a round: inside the head's steps. Each level keeps the `topk` nodes with the largest product of
probabilities and gives each of them `topk` children: the expansion of EAGLE-2 (Li et al., arXiv 2406.16858,
section 4.1).
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from sgl_spec.drafting.head.candidates import NO_PARENT, HeadCandidates


class Growing:
    """Trees of the same shape. A row is one of the `topk` nodes of the last level that the head goes on from.

    Args:
        probs: float [requests, topk], of the tokens after the last committed one.
        tokens: int64, likewise.
    """

    def __init__(self, probs: torch.Tensor, tokens: torch.Tensor) -> None:
        requests, topk = probs.shape
        self.topk = topk
        self._first_row = torch.arange(0, requests * topk, topk, device=probs.device)[:, None]
        self._nodes = torch.arange(topk, device=probs.device).expand(requests, topk)
        self._scores, self.row_tokens = probs, tokens
        self._levels = [(tokens, torch.full_like(tokens, NO_PARENT), probs)]

    def expand(self, probs: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Give every row its children, and choose the rows of the next level.

        Args:
            probs: float [requests * topk, topk], of each row's children given the row.
            tokens: int64, likewise.

        Returns:
            int64 [requests * topk]: for every new row the old row it hangs below.
        """
        requests, topk = self._scores.shape
        scores = (self._scores.reshape(-1, 1) * probs).view(requests, topk * topk)
        tokens = tokens.view(requests, topk * topk)
        size = sum(level[0].shape[1] for level in self._levels)
        self._levels.append((tokens, self._nodes.repeat_interleave(topk, dim=1), scores))
        self._scores, chosen = torch.topk(scores, topk, dim=1)
        self._nodes, self.row_tokens = size + chosen, tokens.gather(1, chosen)
        return (self._first_row + chosen // topk).flatten()

    def candidates(self, agree: Callable[[torch.Tensor], object]) -> list[HeadCandidates]:
        """What was grown, one tree a request: the only copy to the host.

        Args:
            agree: makes a tensor, in place, the same on all ranks.
        """
        columns = [torch.cat(column, dim=1) for column in zip(*self._levels, strict=True)]
        for column in columns:
            agree(column)
        tokens, parents, scores = (column.cpu().numpy() for column in columns)
        return [HeadCandidates(*columns) for columns in zip(tokens, parents, scores.astype("float64"), strict=True)]
