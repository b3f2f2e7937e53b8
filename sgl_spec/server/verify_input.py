"""Trees as the tensors that the target forward and the attention backends read.

Where it stands in a round: between drafting and the verify forward. The class derives from SGLang's
NgramVerifyInput, whose fields and methods the attention backends know; widths may differ from round to round.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from sglang.srt.speculative.ngram_info import NgramVerifyInput

from sgl_spec.drafting.flat_tree import FlatTree


class TreeVerifyInput(NgramVerifyInput):
    """One round's trees: tensors [requests * width] unless said otherwise.

    draft_token, positions: int64; custom_mask: bool, flat, either [width, width] per request (CPU) or
    [width, prefix + width] per request (GPU backends); retrieve_*: int64 [requests, width], links as flat_tree has
    them and -1 for none.
    """


class TreeCarry(NgramVerifyInput):
    """What SGLang carries from one round to the next. We keep our state by request id, so it is empty."""

    def __init__(self, new_seq_lens: torch.Tensor) -> None:
        super().__init__(new_seq_lens=new_seq_lens, draft_token_num=1)

    def filter_batch(self, new_indices: torch.Tensor, new_indices_cpu: list[int] | None = None) -> None:
        self.new_seq_lens = self.new_seq_lens[new_indices]

    def merge_batch(self, spec_info: TreeCarry) -> None:
        self.new_seq_lens = torch.cat((self.new_seq_lens, spec_info.new_seq_lens))


def build(
    trees: Sequence[FlatTree], seq_lens: torch.Tensor, seq_lens_cpu: torch.Tensor, full_mask: bool
) -> TreeVerifyInput:
    """Tensors of a round on the device of `seq_lens` (int64 [requests], tokens already in the cache)."""
    device, width, batch = seq_lens.device, trees[0].width, len(trees)
    mask = torch.from_numpy(np.stack([tree.mask for tree in trees])).to(device)
    depths = _stack([tree.depths for tree in trees], device)
    return TreeVerifyInput(
        draft_token=_stack([tree.tokens for tree in trees], device).flatten(),
        custom_mask=with_prefix(mask, seq_lens_cpu) if full_mask else mask.flatten(),
        positions=(depths + seq_lens[:, None]).flatten(),
        retrieve_index=torch.arange(batch * width, device=device).view(batch, width),
        retrieve_next_token=_stack([tree.next_child for tree in trees], device),
        retrieve_next_sibling=_stack([tree.next_sibling for tree in trees], device),
        draft_token_num=width,
    )


def _stack(arrays: Sequence[np.ndarray], device: torch.device) -> torch.Tensor:
    return torch.from_numpy(np.stack(arrays)).to(device, non_blocking=True)


def with_prefix(mask: torch.Tensor, seq_lens_cpu: torch.Tensor) -> torch.Tensor:
    """The mask GPU backends want: for each request [width, prefix + width], the prefix visible, flat and joined."""
    width = mask.shape[1]
    parts = [
        torch.cat((mask.new_ones(width, length), tree), dim=1).flatten()
        for tree, length in zip(mask, seq_lens_cpu.tolist(), strict=True)
    ]
    return torch.cat(parts)
