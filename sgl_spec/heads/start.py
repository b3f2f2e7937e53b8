"""What a head begins training with: the target's own last layer, norm and output rows.

Before the first training step. A head so begun predicts something from the start, which a small training set rewards.
"""

from __future__ import annotations

import torch

from sgl_spec.heads.draft_vocabulary import DraftVocabulary
from sgl_spec.heads.model import Eagle3Head
from sgl_spec.heads.target import FrozenTarget


@torch.no_grad()
def start_from_target(head: Eagle3Head, target: FrozenTarget, vocabulary: DraftVocabulary) -> None:
    """Copies what fits. The state passes unchanged from the high layer, and embeddings do not act yet.

    The feed-forward layer is copied as far as the head's is as wide; what it has more stays as it is, and what it has
    less takes the target's first rows.
    """
    layer, last, hidden = head.midlayer, target.last_layer, head.fc.out_features
    head.fc.weight.zero_()
    head.fc.weight[:, -hidden:] = torch.eye(hidden)
    for name in ("q_proj", "k_proj", "v_proj"):
        weight = getattr(layer.self_attn, name).weight
        weight[:, :hidden].zero_()
        weight[:, hidden:] = getattr(last.self_attn, name).weight.float()
    layer.self_attn.o_proj.weight.copy_(last.self_attn.o_proj.weight)
    inner = min(head.shape.inner, last.mlp.gate_proj.weight.shape[0])
    for name in ("gate_proj", "up_proj"):
        getattr(layer.mlp, name).weight[:inner] = getattr(last.mlp, name).weight[:inner].float()
    layer.mlp.down_proj.weight[:, :inner] = last.mlp.down_proj.weight[:, :inner].float()
    layer.hidden_norm.weight.copy_(last.input_layernorm.weight)
    layer.post_attention_layernorm.weight.copy_(last.post_attention_layernorm.weight)
    head.norm.weight.copy_(target.final_norm)
    head.lm_head.weight.copy_(target.output_rows[torch.from_numpy(vocabulary.tokens)])
