"""Training-time test: the head runs its own draft steps in training (EAGLE-3, arXiv 2503.01840, section 3.2).

One training step's forward pass. Step 0 is fed with the target's hidden states; each later one with the states the head
made in the step before, as in a round, and with the tokens of the text, which a drafted path that is still right has.
Every step predicts the target's whole next-token distribution over the draft vocabulary.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from sgl_spec.heads.draft_vocabulary import DraftVocabulary
from sgl_spec.heads.model import Draft, Eagle3Head, KeysValues, attend
from sgl_spec.heads.packing import Packed
from sgl_spec.heads.soft_cross_entropy import soft_cross_entropy
from sgl_spec.heads.target import Features, FrozenTarget


class Batch(NamedTuple):
    """A packed batch on the device, with what the target says about it.

    ids, positions: int64 [rows]; active, left: int64 [trained]; see `Packed`.
    cuts, active_cuts: where samples begin.
    fused: [rows, 3 * hidden].
    wanted: float32 [trained, draft vocabulary], the target's distribution one row after each trained one.
    best: int64 [trained], its most likely token.
    known: bool [trained], whether the text's token there can be drafted.
    """

    ids: Tensor
    positions: Tensor
    active: Tensor
    left: Tensor
    cuts: list[int]
    active_cuts: list[int]
    fused: Tensor
    wanted: Tensor
    best: Tensor
    known: Tensor


class StepResult(NamedTuple):
    """Of one draft step: summed loss and right guesses over `rows` predictions. Tensors without dimensions."""

    loss: Tensor
    right: Tensor
    rows: Tensor


class Teacher:
    """Makes batches: the frozen target, seen through a draft vocabulary."""

    def __init__(self, target: FrozenTarget, vocabulary: DraftVocabulary) -> None:
        self.target = target
        self._known = torch.from_numpy(vocabulary.t2d).to(target.device)
        self._rows = target.output_rows[torch.from_numpy(vocabulary.tokens).to(target.device)]

    @torch.no_grad()
    def batch(self, packed: Packed, features: Features | None = None) -> Batch:
        """The batch; `features` spares the target's pass where it has been made."""
        made = self.target.features(packed) if features is None else features
        made = Features(*(part.to(self.target.device) for part in made))
        ids, positions, active, left = (
            torch.from_numpy(array).to(self.target.device)
            for array in (packed.ids, packed.positions, packed.active, packed.left)
        )
        wanted = torch.softmax(F.linear(made.final, self._rows).float(), dim=-1)
        known = self._known[ids[active + 2]]
        return Batch(
            ids, positions, active, left, packed.cuts.tolist(), packed.active_cuts.tolist(), made.fused, wanted,
            wanted.argmax(-1), known,
        )  # fmt: skip


class Unroll:
    """The draft steps of one batch, one after the other. `embeddings`: the target's, [vocabulary, hidden]."""

    def __init__(self, head: Eagle3Head, embeddings: Tensor, batch: Batch) -> None:
        self._head, self._embeddings, self._batch = head, embeddings, batch
        self._own: list[KeysValues] = []

    def first(self) -> Draft:
        """Step 0. Keys are made for all rows, predictions for the trained ones."""
        head, batch = self._head, self._batch
        states = head.fc(batch.fused)
        # The last row of a sample gets the next sample's first token; no trained row of its sample lies so late.
        mixed = head.mix(self._embeddings[batch.ids.roll(-1)], states)
        self.prefix = head.keys_values(mixed, batch.positions)
        queries = head.queries(mixed[batch.active], batch.positions[batch.active])
        return head.finish(states[batch.active], self._attend(queries))

    def next(self, before: Draft) -> Draft:
        """The step after `before`: its states, and the text's next token."""
        head, batch = self._head, self._batch
        step = len(self._own) + 1
        rows = (batch.active + 1 + step).clamp(max=len(batch.ids) - 1)
        mixed = head.mix(self._embeddings[batch.ids[rows]], before.hidden)
        positions = batch.positions[batch.active] + step
        self._own.append(head.keys_values(mixed, positions))
        return head.finish(before.hidden, self._attend(head.queries(mixed, positions)))

    def _attend(self, queries: Tensor) -> Tensor:
        batch = self._batch
        visible = batch.positions[batch.active] + 1
        parts = []
        samples = zip(batch.cuts, batch.cuts[1:], batch.active_cuts, batch.active_cuts[1:], strict=False)
        for start, end, first, last in samples:
            prefix = KeysValues(self.prefix.keys[start:end], self.prefix.values[start:end])
            own = [KeysValues(step.keys[first:last], step.values[first:last]) for step in self._own]
            parts.append(attend(queries[first:last], prefix, visible[first:last], own))
        return torch.cat(parts)


def unrolled(head: Eagle3Head, embeddings: Tensor, batch: Batch, steps: int) -> list[StepResult]:
    """Runs so many draft steps and compares each with the target.

    A prediction counts while everything its path needs can be drafted and lies in the answer.
    """
    run = Unroll(head, embeddings, batch)
    results: list[StepResult] = []
    counted = torch.ones_like(batch.known)
    draft = run.first()
    for step in range(steps):
        if step:
            draft = run.next(draft)
        # The target's word on this step of a row is its word on step 0 of the row `step` rows later. The last rows
        # have none, and none of them has so many steps left.
        rows = len(batch.known) - step
        counted = counted[:rows] & (batch.left[:rows] > step) & batch.known[step:]
        results.append(_compare(draft.logits[:rows], batch, step, counted))
    return results


def _compare(logits: Tensor, batch: Batch, step: int, counted: Tensor) -> StepResult:
    loss = soft_cross_entropy(logits, batch.wanted[step:], counted.float())
    with torch.no_grad():
        right = ((logits.argmax(-1) == batch.best[step:]) & counted).sum()
    return StepResult(loss, right, counted.sum())
