"""Frequency, presence and repetition penalties and min_new_tokens, for the path to each node of a tree.

Where it stands in a round: first of what is done to the logits, between the verify forward and the choice of tokens;
and in a prefill, where SGLang's own penalizers would do the same. At a node, the output is what the request has said
(the root is its last token) and the drafts on the way there, the node's own token among them: what decoding alone
would have counted there. So each term has the bits that SGLang's penalizers (`sglang.srt.sampling.penaltylib`) reach
token by token, and only for columns where it is not nothing.

SGLang's penalizers do nothing beside us (`silence_sglang`): they know nothing of paths, and begin at nothing where a
request was taken back and resumed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from sglang.srt.sampling.penaltylib.repetition_penalty import apply_scaling_penalties
from sglang.srt.utils.common import is_pin_memory_available

from sgl_spec.drafting.flat_tree import FlatTree, flatten
from sgl_spec.drafting.tree import DraftTree
from sgl_spec.server.algorithm import decodes_here

_FIRST_ROOM = 64


class Terms(NamedTuple):
    """What penalties do to chosen columns of the logits of a round.

    Attributes:
        rows: int64 [c], the row of the request's root; its other nodes' rows follow.
        columns: int64 [c], token ids; no pair of row and column comes twice.
        additive: float32 [width, c], added first; [1, c] where it is the same at all nodes.
        scaling: float32, likewise; a logit below 0 is then multiplied by it, another divided.
    """

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    additive: NDArray[np.float32]
    scaling: NDArray[np.float32]


class PathTerms(NamedTuple):
    """One request's penalties: columns whose terms all its nodes share, and columns where the path matters."""

    shared: Terms
    by_node: Terms


class ByCount(NamedTuple):
    """Terms by how often a token was said: float32 [most + 1]."""

    additive: NDArray[np.float32]
    scaling: NDArray[np.float32]


def terms_by_count(params: Any, most: int) -> ByCount:
    """The terms of a token said 0 to `most` times, by SGLang's SamplingParams.

    SGLang adds the frequency penalty once for each token said, so it is a running sum, not a product.
    """
    frequency = np.zeros(most + 1, np.float32)
    np.add.accumulate(np.full(most, params.frequency_penalty, np.float32), out=frequency[1:])
    additive = np.float32(0.0) - frequency
    additive[1:] -= np.float32(params.presence_penalty)
    scaling = np.ones(most + 1, np.float32)
    scaling[1:] = params.repetition_penalty
    return ByCount(additive, scaling)


class OutputCounts:
    """How often a request said each token, kept as its output grows: a round costs what the round before added.

    counts: int32 [vocabulary]; most: the largest of them; length: tokens counted.
    """

    def __init__(self, vocabulary: int) -> None:
        self._forget(vocabulary)

    def _forget(self, vocabulary: int) -> None:
        self.counts = np.zeros(vocabulary, np.int32)
        self.most = self.length = self._distinct = 0
        self._said = np.empty(_FIRST_ROOM, np.int64)

    def follow(self, output: Sequence[int]) -> None:
        """Count what `output` (all tokens said so far) has more than last time."""
        if len(output) < self.length:  # SGLang takes an output back where its prompt was given as embeddings
            self._forget(len(self.counts))
        new = np.array(output[self.length :], np.int64)
        if len(new) == 0:
            return
        self._note(np.unique(new[self.counts[new] == 0]))
        np.add.at(self.counts, new, 1)
        self.most = max(self.most, int(self.counts[new].max()))
        self.length = len(output)

    def _note(self, first_said: NDArray[np.int64]) -> None:
        distinct = self._distinct + len(first_said)
        if distinct > len(self._said):
            self._said = np.resize(self._said, max(distinct, 2 * len(self._said)))
        self._said[self._distinct : distinct] = first_said
        self._distinct = distinct

    def said_except(self, tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """The tokens said at least once, without `tokens`."""
        wanted = np.ones(len(self.counts), np.bool_)
        wanted[tokens] = False
        said = self._said[: self._distinct]
        return said[wanted[said]]


def counts_output(params: Any) -> bool:
    return bool(params.frequency_penalty or params.presence_penalty or params.repetition_penalty != 1.0)


def stop_tokens(req: Any, vocabulary: int) -> NDArray[np.int64]:
    """The tokens `min_new_tokens` forbids, as SGLang's penalizer has them: with `ignore_eos` too.

    An id outside the vocabulary, which a client may name, can be no token.
    """
    tokens = {*(req.sampling_params.stop_token_ids or ()), *(req.eos_token_ids or ())}
    if req.tokenizer is not None:
        tokens |= {req.tokenizer.eos_token_id, *(req.tokenizer.additional_stop_token_ids or ())}
    return np.array(sorted(t for t in tokens if t is not None and 0 <= t < vocabulary), np.int64)


def path_terms(req: Any, said: OutputCounts, tree: FlatTree, row: int) -> PathTerms:
    """The terms at all nodes of one request, whose root is row `row` of the logits."""
    params, drafts = req.sampling_params, tree.tokens[1 : tree.size]
    early = said.length + tree.depths < params.min_new_tokens
    stops = stop_tokens(req, len(said.counts)) if early.any() else drafts[:0]
    special = np.unique(np.concatenate((drafts, stops)))
    # As floats: numpy multiplies integer matrices a hundred times slower.
    on_path = tree.mask[:, 1 : tree.size].astype(np.float32) @ (drafts[:, None] == special).astype(np.float32)
    by_count = terms_by_count(params, said.most + len(drafts))
    counts = said.counts[special] + on_path.astype(np.int32)
    additive = by_count.additive[counts]
    additive[early[:, None] & np.isin(special, stops)] = -np.inf
    by_node = _terms(row, special, additive, by_count.scaling[counts])

    others = said.said_except(special) if counts_output(params) else special[:0]
    counts = said.counts[others][None]
    return PathTerms(_terms(row, others, by_count.additive[counts], by_count.scaling[counts]), by_node)


def _terms(row: int, columns: NDArray[np.int64], additive: NDArray[np.float32], scaling: NDArray[np.float32]) -> Terms:
    return Terms(np.full(len(columns), row), columns, additive, scaling)


def apply_terms(logits: torch.Tensor, terms: Terms, width: int) -> None:
    """Do what `terms` say to `logits` (float [requests * width, vocabulary]), in place: one gather, one scatter."""
    if len(terms.columns) == 0:
        return
    first, columns = _on_device(np.stack((terms.rows, terms.columns)), logits.device)
    additive, scaling = _on_device(np.stack((terms.additive, terms.scaling)), logits.device)
    rows = first + torch.arange(width, device=logits.device)[:, None]
    places = (rows * logits.stride(0) + columns).flatten()
    # Rows may be cut from longer ones (a padded vocabulary). A flat index is an order of magnitude faster on a CPU.
    flat = logits.as_strided(((len(logits) - 1) * logits.stride(0) + logits.shape[1],), (1,))
    chosen = flat.index_select(0, places).view(rows.shape)
    chosen += additive
    if (terms.scaling != 1.0).any():
        (scale_in_torch if logits.device.type == "cpu" else scale_as_sglang)(chosen, scaling)
    flat.scatter_(0, places, chosen.flatten())


def scale_in_torch(chosen: torch.Tensor, scaling: torch.Tensor) -> None:
    """In place. On a CPU this has the bits of SGLang's function, which would be compiled first, for seconds."""
    chosen.copy_(torch.where(chosen < 0, chosen * scaling, chosen / scaling))


def scale_as_sglang(chosen: torch.Tensor, scaling: torch.Tensor) -> None:
    """In place. Compiled for a GPU, SGLang's function divides otherwise than PyTorch does, so its bits are needed."""
    apply_scaling_penalties(chosen.view(-1), scaling.expand_as(chosen).flatten())


def _on_device(array: NDArray[Any], device: torch.device) -> torch.Tensor:
    """Without waiting for the forward that still runs there."""
    tensor = torch.from_numpy(array)
    if is_pin_memory_available(device):
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


class Penalties:
    """The penalties of all running requests. What a request said is forgotten with SGLang's object for it."""

    def __init__(self) -> None:
        self._said: WeakKeyDictionary[Any, OutputCounts] = WeakKeyDictionary()

    def apply(self, logits: torch.Tensor, reqs: Sequence[Any], trees: Sequence[FlatTree]) -> None:
        """Penalise `logits` (float [requests * width, vocabulary]), in place, for the path to each node."""
        width = trees[0].width
        found = [
            path_terms(req, self._counts(req, logits.shape[1]), tree, i * width)
            for i, (req, tree) in enumerate(zip(reqs, trees, strict=True))
            if counts_output(req.sampling_params) or req.sampling_params.min_new_tokens > len(req.output_ids)
        ]
        for terms in zip(*found, strict=True):
            apply_terms(logits, Terms(*(np.concatenate(parts, axis=-1) for parts in zip(*terms, strict=True))), width)

    def _counts(self, req: Any, vocabulary: int) -> OutputCounts:
        said = self._said.get(req)
        if said is None:
            self._said[req] = said = OutputCounts(vocabulary)
        said.follow(req.output_ids)
        return said

    def take_over(self, info: Any, reqs: Sequence[Any]) -> None:
        """Before a prefill: SGLang's sampler asks us, where it would have asked its own penalizers.

        info: the copy of the batch's SamplingBatchInfo that SGLang makes for one forward, and then drops.
        """
        info.acc_additive_penalties = info.acc_scaling_penalties = None
        info.penalizer_orchestrator = PrefillPenalties(self, reqs)


def silence_sglang(original: Callable[..., Any], info: Any, batch: Any, vocab_size: int) -> None:
    """Hook of `SamplingBatchInfo.adjusted_from_schedule_batch`: its penalizers would count, allocate and add dense rows
    every round, and nobody would look at what they came to. Only where SGL_SPEC decodes."""
    original(info, batch, vocab_size)
    if decodes_here():
        info.penalizer_orchestrator.release()


class PrefillPenalties:
    """What a SamplingBatchInfo asks of its penalizers in one prefill: a request that was taken back and resumed has an
    output already; another has min_new_tokens at most."""

    is_required = True

    def __init__(self, penalties: Penalties, reqs: Sequence[Any]) -> None:
        self._penalties = penalties
        self._reqs = reqs

    def apply(self, logits: torch.Tensor) -> None:
        """logits: float [requests, vocabulary]."""
        only_a_root = flatten(DraftTree(0), width=1)
        self._penalties.apply(logits, self._reqs, [only_a_root] * len(self._reqs))
