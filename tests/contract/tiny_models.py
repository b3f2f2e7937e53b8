"""A tiny random Llama, and an EAGLE-3 head that has learnt to foretell some of it: seconds to make, 1 MB.

`python tiny_models.py FOLDER` writes FOLDER/target and FOLDER/head. The head's layer is written down once more here, in
plain torch, from the shapes of SGLang's `llama_eagle3.py`.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM

HIDDEN, HEADS, KEY_HEADS, SIZE, INNER, LAYERS, VOCABULARY, DRAFT_VOCABULARY = 64, 4, 2, 16, 128, 8, 256, 192
STEPS, TEXTS, LENGTH = 300, 64, 96


def make_target(folder: Path) -> LlamaForCausalLM:
    config = LlamaConfig(
        hidden_size=HIDDEN, num_attention_heads=HEADS, num_key_value_heads=KEY_HEADS, head_dim=SIZE,
        intermediate_size=INNER, vocab_size=VOCABULARY, num_hidden_layers=LAYERS, max_position_embeddings=2048,
        tie_word_embeddings=False, rope_theta=10000.0, bos_token_id=0, eos_token_id=1, rms_norm_eps=1e-5,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 2:  # loud embeddings: the last tokens then decide most of what comes
                weight.normal_(0, (8.0 if "embed" in name else 1.0) / math.sqrt(weight.shape[1]))
    model = model.bfloat16().eval()
    model.save_pretrained(folder)
    return model


def _linear(inputs: int, outputs: int) -> nn.Linear:
    return nn.Linear(inputs, outputs, bias=False)


def _rotated(x: Tensor) -> Tensor:
    angle = torch.arange(x.shape[2])[:, None] * 10000.0 ** -(torch.arange(0, SIZE, 2) / SIZE)
    cos, sin = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


class Head(nn.Module):
    """fc, one decoder layer over [embedding, state], norm, lm_head."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.lm_head = _linear(3 * HIDDEN, HIDDEN), _linear(HIDDEN, VOCABULARY)
        self.q_proj = _linear(2 * HIDDEN, HEADS * SIZE)
        self.k_proj, self.v_proj = (_linear(2 * HIDDEN, KEY_HEADS * SIZE) for _ in range(2))
        self.o_proj, self.down_proj = _linear(HEADS * SIZE, HIDDEN), _linear(INNER, HIDDEN)
        self.gate_proj, self.up_proj = _linear(HIDDEN, INNER), _linear(HIDDEN, INNER)
        for name in ("hidden_norm", "input_layernorm", "post_attention_layernorm", "norm"):
            setattr(self, name, nn.RMSNorm(HIDDEN, eps=1e-5))

    def layer(self, embedded: Tensor, state: Tensor) -> Tensor:
        batch, length, _ = state.shape
        x = torch.cat([self.input_layernorm(embedded), self.hidden_norm(state)], -1)
        q, k, v = (p(x).view(batch, length, -1, SIZE).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        q, k = _rotated(q), _rotated(k)
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        state = state + self.o_proj(seen.transpose(1, 2).reshape(batch, length, -1))
        y = self.post_attention_layernorm(state)
        return state + self.down_proj(functional.silu(self.gate_proj(y)) * self.up_proj(y))


def train_head(target: LlamaForCausalLM) -> Head:
    """On the target's own samples; two steps deep, the second on the head's own states."""
    with torch.no_grad():
        ids = target.generate(
            torch.randint(2, VOCABULARY, (TEXTS, 4)), max_new_tokens=LENGTH, do_sample=True, temperature=0.5, top_k=0,
            eos_token_id=None, pad_token_id=0,
        )  # fmt: skip
        seen = target.model(ids, output_hidden_states=True)
        states = torch.cat([seen.hidden_states[i] for i in (2, LAYERS // 2, LAYERS - 3)], -1).float()
        wanted = torch.softmax(2 * target.lm_head(seen.last_hidden_state).float(), -1)
        embedded = target.model.embed_tokens(ids).float()
    head = Head()
    optimizer = torch.optim.AdamW(head.parameters(), lr=3e-3)
    for _ in range(STEPS):
        some = torch.randperm(TEXTS)[:16]
        first = head.layer(embedded[some, 1:], head.fc(states[some, :-1]))
        second = head.layer(embedded[some, 2:], first[:, :-1])
        loss = sum(
            -(wanted[some, depth:] * torch.log_softmax(head.lm_head(head.norm(state)), -1)).sum(-1).mean()
            for depth, state in ((1, first), (2, second))
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return head


def save_head(head: Head, target: LlamaForCausalLM, folder: Path) -> None:
    """In SGLang's checkpoint format, with a reduced vocabulary."""
    kept = torch.randperm(VOCABULARY)[:DRAFT_VOCABULARY].sort().values
    places = {"self_attn": ("q_proj", "k_proj", "v_proj", "o_proj"), "mlp": ("gate_proj", "up_proj", "down_proj")}
    names = {name: f"midlayer.{place}.{name}" for place, inside in places.items() for name in inside}
    names |= {name: f"midlayer.{name}" for name in ("hidden_norm", "input_layernorm", "post_attention_layernorm")}
    weights = {
        f"{names.get(name, name)}.weight": module.weight.detach().bfloat16().contiguous()
        for name, module in head.named_children()
    }
    weights["lm_head.weight"] = weights["lm_head.weight"][kept].contiguous()
    weights["d2t"] = kept - torch.arange(DRAFT_VOCABULARY)
    weights["t2d"] = torch.isin(torch.arange(VOCABULARY), kept)
    folder.mkdir()
    save_file(weights, folder / "model.safetensors")
    config = target.config.to_dict() | {
        "architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1, "draft_vocab_size": DRAFT_VOCABULARY,
        "target_hidden_size": HIDDEN,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))


def main(folder: Path) -> None:
    torch.manual_seed(0)
    target = make_target(folder / "target")
    save_head(train_head(target), target, folder / "head")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
