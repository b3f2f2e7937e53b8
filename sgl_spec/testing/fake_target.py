"""A target model without weights: takes the model's place in the verify part of a round.

Its logits are a pure function of the tokens before, as a real model's are, so decoding alone and decoding in
rounds can be compared token by token.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sgl_spec.drafting.flat_tree import FlatTree


class FakeTarget:
    """Deterministic logits over a small vocabulary.

    Args:
        vocab_size: tokens are 0 to vocab_size - 1.
        context: how many of the last tokens the logits depend on; None: on all of them. With a small context
            the text soon repeats itself, which gives lookup something to find.
        sharpness: standard deviation of the logits. At 0.5 sampled text is noise; at 5 it is almost greedy.
        salt: another number is another model.
    """

    def __init__(self, vocab_size: int, context: int | None = None, sharpness: float = 2.0, salt: int = 0) -> None:
        self.vocab_size = vocab_size
        self._context = context
        self._sharpness = sharpness
        self._salt = salt

    def logits(self, path: Sequence[int]) -> NDArray[np.float64]:
        """float64[vocab_size] for the token after `path`, the whole sequence so far."""
        seen = path if self._context is None else path[max(len(path) - self._context, 0) :]
        key = np.array([self._salt, len(seen), *seen], dtype=np.int64).tobytes()
        seed = int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little")
        return np.random.default_rng(seed).normal(scale=self._sharpness, size=self.vocab_size)

    def tree_logits(self, committed: Sequence[int], flat: FlatTree) -> NDArray[np.float64]:
        """float64[w, vocab_size] at every row of `flat`; `committed` ends with the root.

        A row sees exactly what its mask lets it attend, in order of depth, so a wrong mask gives wrong
        logits. Padding rows get noise, so that reading one is noticed.
        """
        rows = [self._row(committed, flat, node) for node in range(flat.width)]
        return np.array(rows)

    def _row(self, committed: Sequence[int], flat: FlatTree, node: int) -> NDArray[np.float64]:
        if node >= flat.size:
            return self.logits([-node, *committed])
        attended = sorted(np.flatnonzero(flat.mask[node]), key=lambda row: flat.depths[row])
        return self.logits([*committed[:-1], *(int(flat.tokens[row]) for row in attended)])
