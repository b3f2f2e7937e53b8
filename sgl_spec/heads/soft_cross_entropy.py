"""Cross entropy against a whole distribution, with a backward pass that keeps one array instead of five.

Part of a training step: over a few thousand rows and thousands of tokens, memory traffic here would otherwise cost as
much as the head's own arithmetic.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class _SoftCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, wanted: Tensor, weights: Tensor) -> Tensor:
        logits = logits.float()
        norm = torch.logsumexp(logits, dim=-1)
        rows = norm - (wanted * logits).sum(-1)
        ctx.save_for_backward(logits, norm, wanted, weights)
        return (rows * weights).sum()

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None, None]:
        logits, norm, wanted, weights = ctx.saved_tensors
        grad = torch.exp(logits - norm[:, None]).sub_(wanted).mul_((weights * upstream[0])[:, None])
        return grad, None, None


def soft_cross_entropy(logits: Tensor, wanted: Tensor, weights: Tensor) -> Tensor:
    """The weighted sum over rows of the cross entropy of softmax(logits) against `wanted`.

    logits: [rows, tokens]; wanted: float32 [rows, tokens], each row summing to 1, not trained; weights: float32 [rows].
    """
    # autograd casts the gradient to the logits' own type on the way back.
    loss: Tensor = _SoftCrossEntropy.apply(logits.float(), wanted, weights)  # type: ignore[no-untyped-call]
    return loss
