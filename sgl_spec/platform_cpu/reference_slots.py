"""The slow twins of the integer ops: slots of the KV pool, and trees as arrays. See `reference`.

Everything is lists of Python integers; a slot table row is read and written one position at a time.
"""

from __future__ import annotations

import torch

ABSENT = -1


# ---- slots ----------------------------------------------------------------------------------------------------------


def assign_extend_cache_locs_cpu(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start: torch.Tensor,
    end: torch.Tensor,
    out_cache_loc: torch.Tensor,
    pool_len: int,
) -> None:
    """Read each request's slots at positions [start, end), one request after the other."""
    written = 0
    for i, request in enumerate(req_pool_indices.tolist()):
        for position in range(int(start[i]), int(end[i])):
            out_cache_loc[written] = int(req_to_token[request, position])
            written += 1


def assign_req_to_token_pool_cpu(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start: torch.Tensor,
    end: torch.Tensor,
    out_cache_loc: torch.Tensor,
    pool_len: int,
) -> None:
    """Write each request's slots at positions [start, end), taking the given ones in order."""
    taken = 0
    for i, request in enumerate(req_pool_indices.tolist()):
        for position in range(int(start[i]), int(end[i])):
            req_to_token[request, position] = int(out_cache_loc[taken])
            taken += 1


def assign_draft_cache_locs_contiguous_cpu(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    out_cache_loc: torch.Tensor,
    pool_len: int,
    topk: int,
    num_steps: int,
) -> None:
    """Read the topk * num_steps slots that follow each request's sequence."""
    count = topk * num_steps
    for i, request in enumerate(req_pool_indices.tolist()):
        for j in range(count):
            out_cache_loc[i * count + j] = int(req_to_token[request, int(seq_lens[i]) + j])


def build_draft_decode_metadata_cpu(
    req_to_token: torch.Tensor,
    req_pool_indices: torch.Tensor,
    seq_lens: torch.Tensor,
    topk: int,
    num_steps: int,
    pool_len: int,
) -> torch.Tensor:
    """Row (i, k): the slots of request i's sequence, then branch k's own num_steps slots; -1 where neither.

    What stands where we have -1 is nobody's to read; compare only the others.
    """
    width = int(seq_lens.max()) + num_steps
    table = torch.full((len(seq_lens) * topk, width), ABSENT, dtype=req_to_token.dtype)
    for i, request in enumerate(req_pool_indices.tolist()):
        length = int(seq_lens[i])
        for branch in range(topk):
            for position in range(length):
                table[i * topk + branch, position] = req_to_token[request, position]
            for step in range(num_steps):
                source = length + branch * num_steps + step
                table[i * topk + branch, length + step] = req_to_token[request, source]
    return table


def fill_accept_out_cache_loc_cpu(
    accept_index: torch.Tensor, out_cache_loc: torch.Tensor, accept_out_cache_loc: torch.Tensor
) -> None:
    """The slots of the accepted nodes, in order, without gaps."""
    written = 0
    for node in accept_index.flatten().tolist():
        if node != ABSENT:
            accept_out_cache_loc[written] = int(out_cache_loc[node])
            written += 1


def fill_bonus_tokens_cpu(
    accept_tokens: torch.Tensor, accept_lens: torch.Tensor, bonus_tokens: torch.Tensor, accept_stride: int
) -> None:
    """The last of each request's accept_lens tokens; its tokens start at a multiple of accept_stride."""
    tokens = accept_tokens.flatten().tolist()
    for i, length in enumerate(accept_lens.tolist()):
        bonus_tokens[i] = tokens[i * accept_stride : i * accept_stride + length][-1]


# ---- trees ----------------------------------------------------------------------------------------------------------


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
    """From the root on: the first child, else its first sibling, whose token is the target's; until there is none."""
    deepest = accept_index.shape[1] - 1
    for b in range(len(candidates)):
        path = [0]
        while len(path) <= deepest:
            token = int(target_predict[b, path[-1]])
            child = int(retrive_next_token[b, path[-1]])
            while child != ABSENT and int(candidates[b, child]) != token:
                child = int(retrive_next_sibling[b, child])
            if child == ABSENT:
                break
            path.append(child)
        for depth, node in enumerate(path):
            accept_index[b, depth] = retrive_index[b, node]
            predicts[int(retrive_index[b, node])] = target_predict[b, node]
        accept_token_num[b] = len(path) - 1


def _parents_in_mask(mask: list[list[bool]]) -> list[int]:
    """The nearest ancestor: the last of the earlier nodes that the row sees."""
    return [max((j for j in range(i) if row[j]), default=ABSENT) for i, row in enumerate(mask)]


def _link(parents: list[int], child: torch.Tensor, sibling: torch.Tensor) -> None:
    """Every node's first child, and the next child of its parent after it; a node without a parent has no sibling."""
    for node, parent in enumerate(parents):
        children = [i for i, p in enumerate(parents) if p == node]
        after = [i for i, p in enumerate(parents) if p == parent and i > node and parent != ABSENT]
        child[node] = min(children, default=ABSENT)
        sibling[node] = min(after, default=ABSENT)


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
    """A node's depth is the number of its ancestors; links from the parents."""
    masks = tree_mask.view(batch, width, width).tolist()
    for b in range(batch):
        for i in range(width):
            positions[b * width + i] = int(seq_len[b]) + sum(masks[b][i][:i])
            retrive_index[b, i] = b * width + i
        _link(_parents_in_mask(masks[b]), retrive_next_token[b], retrive_next_sibling[b])


def _parents_of_selected(selected: list[int], parent_list: list[int], topk: int) -> list[int]:
    """By node, the root first. A candidate that came from the head's first step hangs under the root; any other under
    the node of the candidate it was expanded from, and under none when that was not selected."""
    parents = [ABSENT]
    for candidate in selected:
        expanded = candidate // topk
        if expanded == 0:
            parents.append(0)
        else:
            parents.append(selected.index(parent_list[expanded]) + 1 if parent_list[expanded] in selected else ABSENT)
    return parents


def _path(node: int, parents: list[int]) -> list[int]:
    """The node and its ancestors, without the root."""
    path = []
    while node > 0:
        path.append(node)
        node = parents[node]
    return path


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
    """Mask, positions and links of the selected candidates. Every node sees the root, itself and its ancestors; the
    subtree of a candidate whose parent was not selected is linked from nowhere."""
    mask = tree_mask.view(len(seq_lens), width, width)
    for b in range(len(seq_lens)):
        parents = _parents_of_selected(selected_index[b].tolist(), parent_list[b].tolist(), topk)
        for i in range(width):
            path = _path(i, parents)
            for j in range(width):
                mask[b, i, j] = j == 0 or j in path
            positions[b * width + i] = int(seq_lens[b]) + len(path)
            retrive_index[b, i] = b * width + i
        _link(parents, retrive_next_token[b], retrive_next_sibling[b])
