"""Trees as SGLang's kernels see them: built from a head's top-k, linked from a mask, walked greedily.

Where it stands in a round: `build_tree` (stock EAGLE) and `reconstruct` (stock NGRAM) before the verify forward,
`verify_tree_greedy` after it (stock algorithms and ours). Loops run in numba, over nodes, never over a vocabulary.
"""

from __future__ import annotations

import numpy as np
import torch

from sgl_spec.compiled import kept_njit
from sgl_spec.errors import PlatformError

_QLEN_ONLY = 1  # SGLang's TreeMaskMode.QLEN_ONLY: the mask covers the tree only, not the prefix


@kept_njit()
def _walk(predicts, accept_index, accept_num, candidates, index, child, sibling, target):  # type: ignore[no-untyped-def]
    for b in range(candidates.shape[0]):
        node, accepted = 0, 0
        accept_index[b, 0] = index[b, 0]
        while accepted + 1 < accept_index.shape[1]:
            predicts[index[b, node]] = target[b, node]
            found = child[b, node]
            while found != -1 and candidates[b, found] != target[b, node]:
                found = sibling[b, found]
            if found == -1:
                break
            accepted += 1
            accept_index[b, accepted] = index[b, found]
            node = found
        predicts[index[b, node]] = target[b, node]
        accept_num[b] = accepted


def verify_tree_greedy_cpu(
    predicts: torch.Tensor,
    accept_index: torch.Tensor,
    accept_token_num: torch.Tensor,
    candidates: torch.Tensor,
    retrive_index: torch.Tensor,
    retrive_next_token: torch.Tensor,
    retrive_next_sibling: torch.Tensor,
    target_predict: torch.Tensor,
) -> None:
    """Follow the target's token from the root as long as a child carries it.

    candidates, target_predict, retrive_*: [requests, width]; accept_index: [requests, depth], -1 beforehand,
    becomes flat node numbers; accept_token_num[b] = accepted drafts; predicts[flat node] = the target's token there.
    """
    _walk(predicts.numpy(), accept_index.numpy(), accept_token_num.numpy(), candidates.numpy(),
          retrive_index.numpy(), retrive_next_token.numpy(), retrive_next_sibling.numpy(),
          target_predict.numpy())  # fmt: skip


@kept_njit()
def _link(parent, child, sibling):  # type: ignore[no-untyped-def]
    """First-child and next-sibling links, siblings in increasing node number."""
    child[:] = -1
    sibling[:] = -1
    for node in range(parent.shape[0] - 1, -1, -1):
        above = parent[node]
        if above >= 0:
            sibling[node] = child[above]
            child[above] = node


@kept_njit()
def _reconstruct(mask, lengths, positions, index, child, sibling):  # type: ignore[no-untyped-def]
    batch, width = mask.shape[0], mask.shape[1]
    parent = np.empty(width, np.int64)
    for b in range(batch):
        for i in range(width):
            depth = 0
            parent[i] = -1
            for j in range(i):
                if mask[b, i, j]:
                    depth += 1
                    parent[i] = j
            positions[b * width + i] = lengths[b] + depth
            index[b, i] = b * width + i
        _link(parent, child[b], sibling[b])


def reconstruct_indices_from_tree_mask(
    tree_mask: torch.Tensor,
    seq_len: torch.Tensor,
    positions: torch.Tensor,
    retrive_index: torch.Tensor,
    retrive_next_token: torch.Tensor,
    retrive_next_sibling: torch.Tensor,
    batch: int,
    width: int,
) -> None:
    """Positions and links of trees given as ancestor masks (bool, flat [batch, width, width])."""
    mask = tree_mask[: batch * width * width].view(batch, width, width)
    _reconstruct(mask.numpy(), seq_len.numpy(), positions.numpy(), retrive_index.numpy(),
                 retrive_next_token.numpy(), retrive_next_sibling.numpy())  # fmt: skip


@kept_njit()
def _build(parents, selected, lengths, mask, positions, index, child, sibling, topk):  # type: ignore[no-untyped-def]
    batch, width = mask.shape[0], mask.shape[1]
    parent = np.empty(width, np.int64)
    for b in range(batch):
        mask[b] = False
        for i in range(width):
            parent[i] = -1 if i == 0 else 0
            if i > 0 and selected[b, i - 1] >= topk:
                # A candidate's number // topk is its parent's place in parent_list, which holds candidate numbers.
                # Where that parent was not selected the node has none and is linked from nowhere, as in SGLang.
                parent[i] = -1
                wanted = parents[b, selected[b, i - 1] // topk]
                for j in range(width - 1):
                    if selected[b, j] == wanted:
                        parent[i] = j + 1
            depth, node = 0, i
            mask[b, i, 0] = True
            while node > 0:
                mask[b, i, node] = True
                node = parent[node]
                depth += 1
            positions[b * width + i] = lengths[b] + depth
            index[b, i] = b * width + i
        _link(parent, child[b], sibling[b])


def build_tree_kernel_efficient_cpu(
    parent_list: torch.Tensor,
    selected_index: torch.Tensor,
    seq_lens: torch.Tensor,
    tree_mask: torch.Tensor,
    positions: torch.Tensor,
    retrive_index: torch.Tensor,
    retrive_next_token: torch.Tensor,
    retrive_next_sibling: torch.Tensor,
    topk: int,
    depth: int,
    width: int,
    tree_mask_mode: int,
) -> None:
    """The tree of the candidates an EAGLE head selected (EAGLE-2, section 4.2, as SGLang numbers them).

    selected_index: [requests, width - 1], increasing candidate numbers; parent_list: [requests, parents].
    """
    if int(tree_mask_mode) != _QLEN_ONLY:
        raise PlatformError(f"tree mask mode {tree_mask_mode!r}: the CPU platform builds QLEN_ONLY masks")
    batch = len(seq_lens)
    mask = tree_mask[: batch * width * width].view(batch, width, width)
    parents = parent_list.to(torch.int64).numpy()
    if parents.shape[1] == 0:
        parents = np.full((batch, 1), -1, np.int64)
    _build(parents, selected_index.to(torch.int64).numpy(), seq_lens.numpy(), mask.numpy(), positions.numpy(),
           retrive_index.numpy(), retrive_next_token.numpy(), retrive_next_sibling.numpy(), topk)  # fmt: skip
