"""The training loop: order of samples -> packed batch -> target's features -> unrolled head -> one optimizer step.

Outside any round. Seeded and, on one machine with one number of threads, deterministic to the bit; resumable after any
checkpoint.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from sgl_spec.heads import checkpoint as checkpoints
from sgl_spec.heads.checkpoint import Checkpoint
from sgl_spec.heads.draft_vocabulary import DraftVocabulary, choose_vocabulary
from sgl_spec.heads.kept_features import KeptFeatures
from sgl_spec.heads.model import Eagle3Head, HeadShape
from sgl_spec.heads.packing import Order, pack
from sgl_spec.heads.sample_folder import Split
from sgl_spec.heads.start import start_from_target
from sgl_spec.heads.target import FrozenTarget
from sgl_spec.heads.train_log import Means, TrainLog
from sgl_spec.heads.train_settings import TrainSettings
from sgl_spec.heads.unroll import Batch, StepResult, Teacher, unrolled

BETAS = (0.9, 0.95)
LOWEST_RATE = 1 / 30
CHECKPOINT_SECONDS = 120.0
MEASURE_EVERY = 50
MEASURED_SAMPLES = 48  # held-out samples of a measurement during training


class Trained(NamedTuple):
    """A head, and the tokens its rows stand for."""

    head: Eagle3Head
    vocabulary: DraftVocabulary


class Reached(NamedTuple):
    """Where training stands: steps done of all, and the last step's numbers."""

    step: int
    steps: int
    means: Means


Progress = Callable[[Reached], None]


class Trainer:
    """One training run, kept in a folder.

    Args:
        folder: for checkpoints and the log.
        target: what the head is for.
        split: the samples.
        settings: of the run.
        resume: go on from the folder's checkpoint; there must be one.
        keep: keep the target's hidden states on disk for later epochs.

    Raises:
        ConfigError: the checkpoint is missing or belongs to another run, or there is nothing to train with.
    """

    def __init__(
        self,
        folder: Path,
        target: FrozenTarget,
        split: Split,
        settings: TrainSettings,
        *,
        resume: bool = False,
        keep: bool = False,
    ) -> None:
        self._folder, self._target, self._split, self._settings = folder, target, split, settings
        self._order = Order([len(sample.ids) for sample in split.train], settings.tokens_per_step, settings.seed)
        found = checkpoints.load(folder) if resume else None
        if found is not None:
            checkpoints.check_same_run(found, settings, len(split.train), folder)
        self._begin(found)
        self._kept = self._keep_features() if keep else None

    def _keep_features(self) -> KeptFeatures:
        config, dtype = self._target.config, self._target.embeddings.dtype
        return KeptFeatures(
            self._folder / "features", self._split.train, int(config.hidden_size), dtype, self._target.identity
        )

    def _begin(self, found: Checkpoint | None) -> None:
        settings, target = self._settings, self._target
        torch.manual_seed(settings.seed)
        head = Eagle3Head(target.config, HeadShape(settings.inner, settings.draft_vocabulary))
        size = int(target.config.vocab_size)
        if found is None:
            vocabulary = choose_vocabulary(self._split.train, settings.draft_vocabulary, size)
            start_from_target(head, target, vocabulary)
        else:
            vocabulary = DraftVocabulary(found.vocabulary.numpy(), size)
            head.load_state_dict(found.head)
        self.trained = Trained(head.to(target.device), vocabulary)
        self._teacher = Teacher(target, vocabulary)
        self._optimizer = torch.optim.AdamW(head.parameters(), lr=settings.learning_rate, betas=BETAS, weight_decay=0.0)
        if found is not None:
            self._optimizer.load_state_dict(found.optimizer)
        self.step = 0 if found is None else found.step
        self._log = TrainLog(self._folder)
        self._log.begin_at(self.step)

    def run(self, progress: Progress = lambda reached: None, until: int | None = None) -> Trained:
        """Trains to the last step, or to `until`, and leaves a checkpoint, also when it is interrupted."""
        saved = time.monotonic()
        last = self._settings.steps if until is None else min(until, self._settings.steps)
        try:
            while self.step < last:
                if self.step % MEASURE_EVERY == 0:
                    self._measure()
                means = self._train_step()
                self.step += 1
                progress(Reached(self.step, self._settings.steps, means))
                if time.monotonic() - saved > CHECKPOINT_SECONDS:
                    self._save()
                    saved = time.monotonic()
        finally:
            self._save()
        if self.step == self._settings.steps:
            self._measure()
        return self.trained

    def _train_step(self) -> Means:
        began = time.monotonic()
        rate = learning_rate(self._settings, self.step)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        results = self._results(self._batch(self._order.step(self.step)))
        self._optimizer.zero_grad()
        weighted_loss(results, self._settings.step_decay).backward()
        torch.nn.utils.clip_grad_norm_(self.trained.head.parameters(), self._settings.clip)
        self._optimizer.step()
        means = mean_results([results], self._settings.step_decay)
        rows, seconds = int(results[0].rows), round(time.monotonic() - began, 3)
        self._log.add(self.step, **means._asdict(), rate=rate, rows=rows, seconds=seconds)
        return means

    def _batch(self, numbers: Sequence[int]) -> Batch:
        """These training samples, with the target's states kept or computed."""
        packed = pack([self._split.train[number] for number in numbers])
        features = None if self._kept is None else self._kept.get(numbers)
        if features is None:
            features = self._target.features(packed)
            if self._kept is not None:
                self._kept.put(numbers, packed, features)
        return self._teacher.batch(packed, features)

    def _results(self, batch: Batch) -> list[StepResult]:
        with arithmetic(self._settings.dtype, self._target.device):
            return unrolled(self.trained.head, self._target.embeddings, batch, self._settings.draft_steps)

    @torch.no_grad()
    def _measure(self) -> None:
        """The same held-out samples every time, spread over all of them."""
        held = self._split.held_out
        if not held:
            return
        chosen = [held[int(at)] for at in np.linspace(0, len(held) - 1, min(len(held), MEASURED_SAMPLES))]
        steps = Order([len(sample.ids) for sample in chosen], self._settings.tokens_per_step, 0)
        batches = [[chosen[number] for number in steps.step(at)] for at in range(steps.steps_of(1))]
        means = mean_results(
            [self._results(self._teacher.batch(pack(batch))) for batch in batches], self._settings.step_decay
        )
        self._log.add(self.step, held_out=means._asdict())

    def _save(self) -> None:
        head, optimizer = self.trained.head.state_dict(), self._optimizer.state_dict()
        tokens = torch.from_numpy(self.trained.vocabulary.tokens)
        checkpoints.save(
            self._folder, Checkpoint(self._settings, self.step, head, optimizer, tokens, len(self._split.train))
        )


def arithmetic(dtype: str, device: str) -> AbstractContextManager[object]:
    """The context in which linear layers compute in `dtype` whatever their weights are kept in."""
    if dtype == "float32":
        return nullcontext()
    return torch.autocast(torch.device(device).type, dtype=getattr(torch, dtype))


def learning_rate(settings: TrainSettings, step: int) -> float:
    """Of step `step`, from 0: a linear rise, then a cosine."""
    rise = min(1.0, (step + 1) / (settings.warmup_steps + 1))
    done = step / settings.steps
    fall = LOWEST_RATE + (1 - LOWEST_RATE) * 0.5 * (1 + math.cos(math.pi * done))
    return settings.learning_rate * rise * fall


def weighted_loss(results: Sequence[StepResult], decay: float) -> torch.Tensor:
    """The mean loss of each draft step, and of these the mean with weights 1, decay, decay ** 2, ..."""
    weights = [decay**step for step in range(len(results))]
    means = [result.loss / result.rows.clamp(min=1) for result in results]
    return sum((w * mean for w, mean in zip(weights, means, strict=True)), torch.zeros(())) / sum(weights)


def mean_results(batches: Sequence[Sequence[StepResult]], decay: float) -> Means:
    """The means over all predictions of several batches."""
    losses, right = [], []
    for results in zip(*batches, strict=True):
        rows = max(1, sum(int(result.rows) for result in results))
        losses.append(sum(float(result.loss.detach()) for result in results) / rows)
        right.append(sum(int(result.right) for result in results) / rows)
    weights = [decay**step for step in range(len(losses))]
    loss = sum(w * value for w, value in zip(weights, losses, strict=True)) / sum(weights)
    return Means(loss, tuple(losses), tuple(right))
