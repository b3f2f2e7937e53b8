"""The tokens a head can draft: the most frequent ones of the data (EAGLE-3, arXiv 2503.01840, and its released heads).

Before training: the head's output layer has one row per token chosen here. A smaller vocabulary makes the layer, which
is nearly half of a small head's weights and time, cheaper; a token outside it is never drafted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sgl_spec.errors import ConfigError
from sgl_spec.heads.samples import Sample


class DraftVocabulary(NamedTuple):
    """Token ids of the target that can be drafted: int64, ascending and distinct. Row i of the head means tokens[i].

    target_size: number of tokens of the target.
    """

    tokens: npt.NDArray[np.int64]
    target_size: int

    @property
    def d2t(self) -> npt.NDArray[np.int64]:
        """What to add to a row's number to get the target's token, as SGLang's checkpoints store it."""
        return self.tokens - np.arange(len(self.tokens))

    @property
    def t2d(self) -> npt.NDArray[np.bool_]:
        """For each of the target's tokens, whether it can be drafted."""
        known = np.zeros(self.target_size, dtype=bool)
        known[self.tokens] = True
        return known


def choose_vocabulary(samples: Sequence[Sample], size: int, target_size: int) -> DraftVocabulary:
    """The `size` most frequent tokens of the answers, then of the prompts, then the smallest ids.

    Args:
        samples: to count in; those of training.
        size: tokens that can be drafted, at most `target_size`.
        target_size: tokens of the target.

    Raises:
        ConfigError: `size` is out of range.
    """
    if not 1 <= size <= target_size:
        raise ConfigError(
            f"draft_vocabulary = {size}: wanted a number from 1 to the target's vocabulary, {target_size}"
        )
    answers, prompts = np.zeros((2, target_size), dtype=np.int64)
    for sample in samples:
        prompts += np.bincount(sample.ids, minlength=target_size)
        for span in sample.spans:
            answers += np.bincount(sample.ids[span.start : span.end], minlength=target_size)
    # lexsort: by the last key first. Negated counts, so that ties fall to the smaller id.
    order = np.lexsort((np.arange(target_size), -prompts, -answers))
    return DraftVocabulary(np.sort(order[:size]).astype(np.int64), target_size)


def coverage(samples: Sequence[Sample], vocabulary: DraftVocabulary) -> float:
    """Share of the answers' tokens that can be drafted; 1 when there is none."""
    known = vocabulary.t2d
    answers = [sample.ids[span.start : span.end] for sample in samples for span in sample.spans]
    return float(known[np.concatenate(answers)].mean()) if answers else 1.0
