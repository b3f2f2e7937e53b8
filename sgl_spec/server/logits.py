"""What the requests asked for, done to the logits at every node of their trees.

Where it stands in a round: between the verify forward and the choice of tokens. After a prefill SGLang does the same
to its rows, with our penalties.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from sglang.srt.layers.sampler import apply_custom_logit_processor
from sglang.srt.speculative.spec_utils import GrammarTree, build_grammar_vocab_mask
from sglang.srt.utils.async_probe import sanitize_nan_logits

from sgl_spec.drafting.flat_tree import FlatTree
from sgl_spec.server.penalties import Penalties


def process_logits(batch: Any, trees: Sequence[FlatTree], logits: torch.Tensor, penalties: Penalties) -> None:
    """Penalties, logit_bias, grammar masks and custom processors, in place.

    batch: SGLang's ScheduleBatch; logits: [requests * width, vocabulary].
    SGLang adds the bias after the mask. The outcome is the same for every finite bias; in this order an infinite one
    cannot lift what the grammar forbids.
    """
    requests, width, info = len(trees), trees[0].width, batch.sampling_info
    penalties.apply(logits, batch.reqs, trees)
    if info.logit_bias is not None:
        logits.unflatten(0, (requests, width)).add_(info.logit_bias[:, None])
    mask = grammar_mask(batch, trees, logits.device) if batch.has_grammar else None
    if mask is not None:
        mask.apply(logits)
    if info.has_custom_logit_processor:
        # Who has one abstains, so only the root is theirs: called once for each request, as without speculation.
        apply_custom_logit_processor(logits[::width], info)
    sanitize_nan_logits(logits, "verify: processed logits")


def grammar_mask(batch: Any, trees: Sequence[FlatTree], device: torch.device) -> Any:
    """The grammars' mask at every node, by SGLang's own walk with rollback; None where no grammar has one."""
    child, sibling, tokens = (
        torch.stack([torch.from_numpy(getattr(tree, name)) for tree in trees])
        for name in ("next_child", "next_sibling", "tokens")
    )
    return build_grammar_vocab_mask(
        reqs=batch.reqs, tree=GrammarTree.from_host(child, sibling, tokens), sampling_info=batch.sampling_info,
        device=device, barrier=None,
    )  # fmt: skip
