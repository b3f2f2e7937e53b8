"""The target's own token at every node: argmax, or Gumbel-max with noise keyed by (seed, position, token).

Where it stands in a round: between the verify forward and acceptance, and after every prefill for the first token.
Acceptance then only compares tokens, so the text is what the target alone would have produced, for the same seed at
any temperature (docs/design: losslessness). `drafting.acceptance` is the slow twin.

The noise is SGLang's (`multinomial_with_seed`): a 32-bit hash of seed, position of the input token and column, as a
uniform, as a Gumbel. SGLang numbers columns by rank when it filters by top-k or top-p; we always number them by
token id, so that a filter does not change the noise of the tokens it keeps.

There are two ways to the same tokens. `tokens_at_once` takes all rows together and asks the device nothing: for an
accelerator, where a question costs more than the work. `tokens_by_candidates` looks only at tokens that can win: for a
CPU, where sorting one row or hashing one vocabulary costs milliseconds. They agree bit for bit because all they compute
is per token, except the sums of top-p, which are exact: integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from sgl_spec.drafting.flat_tree import FlatTree
from sgl_spec.server.noise import Noise, gumbel, hash_tokens

# Mass is counted in integers of this size: exact in any order of adding, so that neither the way of sampling nor the
# shape of a batch moves a border. One unit is far below the error of a float32 log-probability.
_MASS = 1 << 40
_NO_LIMIT = 1 << 62
# Numbers of one block of `tokens_at_once`: a handful of float64 and int64 tensors of this size live at once.
_AT_ONCE = 1 << 24


class RowParams(NamedTuple):
    """Sampling parameters per row: float32 or int64 tensors of shape [rows], and what the host knows of all rows.

    all_greedy: every row has top_k = 1. ranked: some row may have top_k or top_p. Both only save work.
    """

    temperature: torch.Tensor
    top_k: torch.Tensor
    top_p: torch.Tensor
    min_p: torch.Tensor
    seed: torch.Tensor
    all_greedy: bool = False
    ranked: bool = True

    def each(self, change: Callable[[torch.Tensor], torch.Tensor]) -> RowParams:
        """The same with every tensor changed by `change`."""
        return RowParams(*(change(values) for values in self[:5]), self.all_greedy, self.ranked)

    def select(self, rows: torch.Tensor) -> RowParams:
        return self.each(lambda values: values[rows])


def node_targets(
    logits: torch.Tensor,
    params: RowParams,
    positions: torch.Tensor,
    trees: Sequence[FlatTree],
    lazily: bool | None = None,
) -> torch.Tensor:
    """The target's token at every node that acceptance can reach, int64 [requests * width]; elsewhere any token id.

    logits: [requests * width, vocabulary]; params: per request; positions: [requests * width].
    lazily: go down the accepted path, a level at a time for all requests, instead of sampling all nodes at once.
    None: on a CPU. The tokens are the same: rows are independent.
    """
    width = trees[0].width
    if not (logits.device.type == "cpu" if lazily is None else lazily):
        return tokens_at_once(logits, params.each(lambda v: v.repeat_interleave(width)), positions)
    targets = torch.zeros(len(logits), dtype=torch.int64)
    at = dict.fromkeys(range(len(trees)), 0)
    while at:
        rows = torch.tensor([request * width + node for request, node in at.items()])
        chosen = tokens_by_candidates(logits[rows], params.select(torch.tensor(list(at))), positions[rows])
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
    choose = tokens_by_candidates if logits.device.type == "cpu" else tokens_at_once
    return choose(logits, params, positions)


# ---- what both ways share ---------------------------------------------------------------------------------------


def _tempered(logits: torch.Tensor, params: RowParams) -> torch.Tensor:
    """Log-probabilities at the rows' temperatures, float32; -inf where min_p drops the token.

    An infinite logit counts as the largest finite one: a bias of infinity then chooses its token, and no row is NaN.
    """
    scaled = logits.float() / params.temperature[:, None]
    logprobs = torch.log_softmax(scaled.nan_to_num_(nan=torch.finfo(torch.float32).min), dim=-1)
    floor = logprobs.amax(-1) + torch.log(params.min_p)
    return logprobs.masked_fill_(logprobs < floor[:, None], -torch.inf)


def _mass(logprobs: torch.Tensor) -> torch.Tensor:
    return (torch.exp(logprobs.double()) * _MASS).round_().long()


def _most_mass(top_p: torch.Tensor) -> torch.Tensor:
    """How much mass may stand before a token that top_p keeps."""
    return torch.where(top_p < 1, (top_p.double() * _MASS).long(), _NO_LIMIT)


# ---- all rows at once -------------------------------------------------------------------------------------------


def tokens_at_once(logits: torch.Tensor, params: RowParams, positions: torch.Tensor) -> torch.Tensor:
    """`target_tokens` without a word between host and device; as many operations for many rows as for one."""
    greedy = torch.argmax(logits, dim=-1)
    if params.all_greedy:
        return greedy
    rows = max(_AT_ONCE // logits.shape[1], 1)
    blocks = [slice(start, start + rows) for start in range(0, len(logits), rows)]
    sampled = [_sampled(logits[block], params.each(lambda v, b=block: v[b]), positions[block]) for block in blocks]
    return torch.where(params.top_k > 1, torch.cat(sampled), greedy)


def _sampled(logits: torch.Tensor, params: RowParams, positions: torch.Tensor) -> torch.Tensor:
    tokens = torch.arange(logits.shape[1], device=logits.device)
    noise = gumbel(hash_tokens(params.seed[:, None], positions[:, None], tokens))
    return noise.add_(filtered_logprobs(logits, params)).argmax(-1)


def filtered_logprobs(logits: torch.Tensor, params: RowParams) -> torch.Tensor:
    """Log-probabilities at the rows' temperatures, -inf where top_k, top_p or min_p drops the token.

    As SGLang filters: in descending order of probability (equal ones by token id), keep ranks below top_k, keep
    while the mass before a token is at most top_p, keep p >= min_p * max p.
    """
    logprobs = _tempered(logits, params)
    if not params.ranked:
        return logprobs
    ranked, order = torch.sort(logprobs, dim=-1, descending=True, stable=True)
    mass = _mass(ranked)
    before = torch.cumsum(mass, -1) - mass
    ranks = torch.arange(logits.shape[1], device=logits.device)
    kept = (ranks < params.top_k[:, None]) & (before <= _most_mass(params.top_p)[:, None])
    return torch.where(torch.zeros_like(kept).scatter_(-1, order, kept), logprobs, -torch.inf)


# ---- candidates only --------------------------------------------------------------------------------------------


def tokens_by_candidates(logits: torch.Tensor, params: RowParams, positions: torch.Tensor) -> torch.Tensor:
    """`target_tokens` with noise for the tokens that can win, and without a sort.

    The best sum over all tokens is the best over those top_k and top_p keep, if they keep it. If not, they keep
    nothing that ranks lower either: look again among what ranks higher.
    """
    tokens = torch.argmax(logits, dim=-1)
    rows = (params.top_k > 1).nonzero().flatten()
    if len(rows) == 0:
        return tokens
    params, positions = params.select(rows), positions[rows]
    logprobs = _tempered(logits if len(rows) == len(logits) else logits[rows], params)
    while True:
        best = _largest_sum(logprobs, Noise(params.seed, positions))
        tokens[rows] = best
        if not params.ranked:
            return tokens
        higher = _ranked_higher(logprobs, best)
        again = higher.dropped(params).nonzero().flatten()
        if len(again) == 0:
            return tokens
        logprobs = higher.alone(logprobs)[again]
        rows, params, positions = rows[again], params.select(again), positions[again]


def _largest_sum(logprobs: torch.Tensor, noise: Noise) -> torch.Tensor:
    """argmax of log-probability plus noise, int64 [rows]; the lowest token id on a tie."""
    likeliest = logprobs.argmax(-1)
    every = torch.arange(len(logprobs))
    reached = logprobs[every, likeliest] + noise.at(every, likeliest)
    rows, tokens = noise.can_reach(logprobs, reached).nonzero(as_tuple=True)
    sums = logprobs[rows, tokens] + noise.at(rows, tokens)
    top = torch.full_like(reached, -torch.inf).scatter_reduce(0, rows, sums, "amax")
    winner = torch.where(sums == top[rows], tokens, logprobs.shape[1])
    return torch.full_like(likeliest, logprobs.shape[1]).scatter_reduce(0, rows, winner, "amin")


class _Higher(NamedTuple):
    """The pairs (row, token), int64 [pairs], that rank above one token of each row, and their mass."""

    rows: torch.Tensor
    tokens: torch.Tensor
    mass: torch.Tensor

    def dropped(self, params: RowParams) -> torch.Tensor:
        """bool [rows]: whether top_k or top_p drops the token they rank above."""
        before = torch.zeros_like(params.top_k).scatter_add_(0, self.rows, self.mass)
        rank = torch.bincount(self.rows, minlength=len(params.top_k))
        return (rank >= params.top_k) | (before > _most_mass(params.top_p))

    def alone(self, logprobs: torch.Tensor) -> torch.Tensor:
        """`logprobs` with -inf for all others."""
        at = (self.rows, self.tokens)
        return torch.full_like(logprobs, -torch.inf).index_put_(at, logprobs[at])


def _ranked_higher(logprobs: torch.Tensor, token: torch.Tensor) -> _Higher:
    level = logprobs.gather(1, token[:, None])
    rows, tokens = (logprobs >= level).nonzero(as_tuple=True)
    values = logprobs[rows, tokens]
    higher = ((values > level[rows, 0]) | (tokens < token[rows])).nonzero().flatten()
    return _Higher(rows[higher], tokens[higher], _mass(values[higher]))
