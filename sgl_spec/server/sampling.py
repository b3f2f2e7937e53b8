"""The target's own token at every node: argmax, or Gumbel-max with noise keyed by (seed, position, token).

Where it stands in a round: between the verify forward and acceptance, and after every prefill for the first token.
Acceptance then only compares tokens, so the text is what the target alone would have produced, for the same seed at
any temperature (docs/design: losslessness). `drafting.acceptance` is the slow twin.

The noise is SGLang's (`multinomial_with_seed`): a 32-bit hash of seed, position of the input token and column, as a
uniform, as a Gumbel. SGLang numbers columns by rank when it filters by top-k or top-p; we always number them by
token id, so that a filter does not change the noise of the tokens it keeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from sgl_spec.drafting.flat_tree import FlatTree
from sgl_spec.server.noise import hash_tokens

# The largest Gumbel the hash can give is -log(2**-32) = 22.2 (see `_gumbel`): a token whose log-probability is
# further below the best sum found so far cannot win, and needs no noise.
_LARGEST_GUMBEL = 22.25
_SORTED_AT_FIRST = 1024


class RowParams(NamedTuple):
    """Sampling parameters per row: float32 or int64 tensors of shape [rows]."""

    temperature: torch.Tensor
    top_k: torch.Tensor
    top_p: torch.Tensor
    min_p: torch.Tensor
    seed: torch.Tensor

    def select(self, rows: torch.Tensor) -> RowParams:
        return RowParams(*(values[rows] for values in self))


def node_targets(
    logits: torch.Tensor, params: RowParams, positions: torch.Tensor, trees: Sequence[FlatTree]
) -> torch.Tensor:
    """The target's token at every node that acceptance can reach, int64 [requests * width]; elsewhere the argmax.

    logits: [requests * width, vocabulary]; params: per request; positions: [requests * width].
    Sampling one row costs milliseconds on a CPU, so there it goes down the accepted path, a level at a time for all
    requests; elsewhere all nodes at once, without a word to the host. The tokens are the same: rows are independent.
    """
    width = trees[0].width
    if logits.device.type != "cpu":
        return target_tokens(logits, RowParams(*(v.repeat_interleave(width) for v in params)), positions)
    targets = torch.argmax(logits, dim=-1)
    at = dict.fromkeys((params.top_k > 1).nonzero().flatten().tolist(), 0)
    while at:
        rows = torch.tensor([request * width + node for request, node in at.items()])
        chosen = target_tokens(logits[rows], params.select(torch.tensor(list(at))), positions[rows])
        targets[rows] = chosen
        steps = zip(at.items(), chosen.tolist(), strict=True)
        below = {request: _child(trees[request], node, token) for (request, node), token in steps}
        at = {request: node for request, node in below.items() if node != -1}
    return targets


def _child(tree: FlatTree, node: int, token: int) -> int:
    """The child of `node` that carries `token`, or -1."""
    child = int(tree.next_child[node])
    while child != -1 and int(tree.tokens[child]) != token:
        child = int(tree.next_sibling[child])
    return child


def target_tokens(logits: torch.Tensor, params: RowParams, positions: torch.Tensor) -> torch.Tensor:
    """One token per row, int64 [rows].

    logits: [rows, vocabulary], processed (biases, penalties, masks) but not divided by the temperature.
    positions: [rows], of the token that was the input of that row. top_k = 1 means greedy, as in SGLang.
    """
    tokens = torch.argmax(logits, dim=-1)
    sampled = (params.top_k > 1).nonzero().flatten()
    if len(sampled) > 0:
        rows = logits if len(sampled) == len(logits) else logits[sampled]
        chosen = params.select(sampled)
        tokens[sampled] = gumbel_max(filtered_logprobs(rows, chosen), chosen.seed, positions[sampled])
    return tokens


def filtered_logprobs(logits: torch.Tensor, params: RowParams) -> torch.Tensor:
    """Log-probabilities at the rows' temperatures, -inf where top_k, top_p or min_p drops the token.

    As SGLang filters: in descending order of probability (equal ones by token id), keep ranks below top_k, keep
    while the mass before a token is at most top_p, keep p >= min_p * max p.
    """
    logprobs = torch.log_softmax(logits.float() / params.temperature[:, None], dim=-1)
    floor = logprobs.amax(-1) + torch.log(params.min_p)
    logprobs.masked_fill_(logprobs < floor[:, None], -torch.inf)
    for row in ((params.top_k < logits.shape[1]) | (params.top_p < 1)).nonzero().flatten().tolist():
        _cut_by_rank(logprobs[row], int(params.top_k[row]), params.top_p[row])
    return logprobs


def _cut_by_rank(logprobs: torch.Tensor, top_k: int, top_p: torch.Tensor) -> None:
    """Drop what top_k and top_p drop from one row, in place.

    Sorting a whole vocabulary costs milliseconds on a CPU; nearly always the best 1024 decide. Sums run from the
    best token on, so the short and the long sort agree to the bit.
    """
    for wanted in (_SORTED_AT_FIRST, len(logprobs)):
        count = min(wanted, len(logprobs))
        values, tokens = _best(logprobs, count)
        mass = torch.cumsum(torch.exp(values.double()), 0)
        before = mass - torch.exp(values.double())
        kept = (torch.arange(count, device=logprobs.device) < top_k) & (before <= top_p.double())
        if count == len(logprobs) or not bool(kept[-1]):
            break
    survivors = tokens[kept]
    saved = logprobs[survivors]
    logprobs.fill_(-torch.inf)
    logprobs[survivors] = saved


def _best(logprobs: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The `count` largest, in descending order, equal ones by token id (also at the boundary)."""
    if count == len(logprobs):
        return torch.sort(logprobs, descending=True, stable=True)
    border = torch.topk(logprobs, count).values[-1]
    tokens = (logprobs >= border).nonzero().flatten()
    values, order = torch.sort(logprobs[tokens], descending=True, stable=True)
    return values[:count], tokens[order][:count]


def gumbel_max(logprobs: torch.Tensor, seed: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """argmax of log-probability plus noise, int64 [rows]; the lowest token id on a tie."""
    best = logprobs.argmax(-1)
    start = logprobs.gather(1, best[:, None]).squeeze(1).double()
    reached = start + _gumbel(hash_tokens(seed, positions, best))
    rows, tokens = (logprobs.double() >= (reached - _LARGEST_GUMBEL)[:, None]).nonzero(as_tuple=True)
    sums = logprobs[rows, tokens].double() + _gumbel(hash_tokens(seed[rows], positions[rows], tokens))
    top = torch.full_like(start, -torch.inf).scatter_reduce(0, rows, sums, "amax")
    winner = torch.where(sums == top[rows], tokens, logprobs.shape[1])
    token = torch.full_like(best, logprobs.shape[1]).scatter_reduce(0, rows, winner, "amin")
    # A row without one finite sum (a bias of infinity, a broken model) has no winner: any token id must do, in range.
    return torch.where(token < logprobs.shape[1], token, best)


def _gumbel(hashed: torch.Tensor) -> torch.Tensor:
    """Gumbel noise of a 32-bit hash, float64; both ends clamped as in `multinomial_with_seed`."""
    uniform = hashed.double() / 0xFFFFFFFF
    exponential = uniform.log_().clamp_(min=torch.finfo(torch.float64).min, max=-(2.0**-32)).neg_()
    return exponential.log_().neg_()
