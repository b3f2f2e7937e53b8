"""What a server would accept of a head's drafts on texts that are known: chains and trees, without a server.

Offline twin of the rounds of SGLang's EAGLE worker on greedy text. For every place of an answer at once, the head
drafts from there; `accept_walk` then makes rounds of it. Later draft steps see their own branch's slots, as in SGLang,
where the keys of branch i stay in slot i although another branch may have become its parent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from sgl_spec.heads.accept_walk import Rounds, total, walk
from sgl_spec.heads.draft_vocabulary import DraftVocabulary
from sgl_spec.heads.model import Draft, Eagle3Head, KeysValues, attend
from sgl_spec.heads.packing import pack
from sgl_spec.heads.samples import Sample
from sgl_spec.heads.tree_growth import Branches, TreeGrowth, TreeShape
from sgl_spec.heads.unroll import Batch, Teacher, Unroll


class Accepted(NamedTuple):
    """Rounds over texts, drafted as one chain of the likeliest tokens, and as a tree."""

    chain: Rounds
    tree: Rounds


class Simulator:
    """Drafts with `head` on samples of its target.

    Args:
        head, vocabulary: the head.
        teacher: its target.
        shape: of the tree; a chain has as many steps.
    """

    def __init__(self, head: Eagle3Head, vocabulary: DraftVocabulary, teacher: Teacher, shape: TreeShape) -> None:
        self._head, self._teacher, self._shape = head, teacher, shape
        self._tokens = torch.from_numpy(vocabulary.tokens).to(teacher.target.device)
        # The row of each of the target's tokens; -1 where it cannot be drafted.
        self._row_of = torch.full((vocabulary.target_size,), -1, dtype=torch.int64, device=self._tokens.device)
        self._row_of[self._tokens] = torch.arange(len(self._tokens), device=self._tokens.device)

    @torch.no_grad()
    def run(self, sample: Sample) -> Accepted:
        """Rounds over the answers of one sample, which is to be greedy text of the target."""
        packed = pack([sample])
        batch = self._teacher.batch(packed)
        truth = self._truth(batch)
        chain = self._chain(batch, truth)
        tree = self._tree(batch, truth)
        # Two answers lie apart in `active`: rounds do not go from one to the other.
        ends = (torch.nonzero(batch.left == 1).flatten() + 1).tolist()
        return Accepted(_walks(chain, ends), _walks(tree, ends))

    def _truth(self, batch: Batch) -> Tensor:
        """[trained, steps], rows of the tokens that come next; -1 beyond the answer and for what cannot be drafted."""
        steps = torch.arange(self._shape.steps, device=batch.ids.device)
        rows = (batch.active[:, None] + 2 + steps).clamp(max=len(batch.ids) - 1)
        return torch.where(batch.left[:, None] > steps, self._row_of[batch.ids[rows]], -1)

    def _chain(self, batch: Batch, truth: Tensor) -> Tensor:
        """A chain's later steps matter only while the earlier ones were right, and then they saw the true tokens."""
        run = Unroll(self._head, self._teacher.target.embeddings, batch)
        draft = run.first()
        right = [draft.logits.argmax(-1) == truth[:, 0]]
        for step in range(1, self._shape.steps):
            draft = run.next(draft)
            right.append(right[-1] & (draft.logits.argmax(-1) == truth[:, step]))
        return torch.stack(right).sum(0)

    def _tree(self, batch: Batch, truth: Tensor) -> Tensor:
        run = Unroll(self._head, self._teacher.target.embeddings, batch)
        growth = TreeGrowth(self._shape)
        draft = run.first()
        branches = growth.first(_probabilities(draft))
        rows, topk = branches.tokens.shape
        hidden = draft.hidden.repeat_interleave(topk, dim=0)
        own: list[KeysValues] = []
        for _ in range(1, self._shape.steps):
            draft = self._branch_step(batch, run.prefix, branches, hidden, own)
            branches = growth.extend(_probabilities(draft).view(rows, topk, -1))
            parents = branches.parents + torch.arange(rows, device=hidden.device)[:, None] * topk
            hidden = draft.hidden[parents.flatten()]
        return growth.agreement(truth)

    def _branch_step(
        self, batch: Batch, prefix: KeysValues, branches: Branches, hidden: Tensor, own: list[KeysValues]
    ) -> Draft:
        """One draft step of every branch of every root; its keys are added to `own`."""
        topk = branches.tokens.shape[1]
        positions = (batch.positions[batch.active] + 1 + len(own)).repeat_interleave(topk)
        embeds = self._teacher.target.embeddings[self._tokens[branches.tokens.flatten()]]
        mixed = self._head.mix(embeds, hidden)
        own.append(self._head.keys_values(mixed, positions))
        visible = (batch.positions[batch.active] + 1).repeat_interleave(topk)
        return self._head.finish(hidden, attend(self._head.queries(mixed, positions), prefix, visible, own))


def _probabilities(draft: Draft) -> Tensor:
    return torch.softmax(draft.logits.float(), dim=-1)


def _walks(accepted: Tensor, ends: Sequence[int]) -> Rounds:
    counts = accepted.tolist()
    return total(walk(counts[start:end]) for start, end in zip([0, *ends], ends, strict=False))
