"""What the contract tests of `heads` share: a tiny random Llama, samples for it, and SGLang's models in this process.

SGLang's model classes run here without a server: one process as its own tensor-parallel group, and an attention backend
of a few lines. Weights and layers are SGLang's own.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from transformers import LlamaConfig, LlamaForCausalLM

from sgl_spec.heads.samples import Sample, Span

VOCABULARY, LAYERS = 300, 8


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Tiny matrices are not worth a second thread, least of all on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def tiny_config(**changed: Any) -> LlamaConfig:
    sizes = {
        "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": LAYERS, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 16, "vocab_size": VOCABULARY, "max_position_embeddings": 256,
    }  # fmt: skip
    return LlamaConfig(**{**sizes, **changed})


def save_tiny_model(folder: Path, **changed: Any) -> Path:
    """A random Llama with opinions: larger weights than usual make its next token depend on the text, and be likely."""
    torch.manual_seed(7)
    model = LlamaForCausalLM(tiny_config(**changed))
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 2:
                weight.mul_(4)
        model.lm_head.weight.mul_(8)
    model.save_pretrained(folder)
    return folder


def samples(count: int, seed: int = 0, held_out: bool = False) -> tuple[Sample, ...]:
    """Random texts with one or two answers."""
    rng = random.Random(seed)
    made = []
    for number in range(count):
        spans = [Span(5, rng.randint(12, 30))]
        if rng.random() < 0.4:
            spans.append(Span(spans[0].end + 3, spans[0].end + rng.randint(8, 20)))
        ids = np.array([rng.randrange(VOCABULARY) for _ in range(spans[-1].end + rng.randint(0, 4))])
        made.append(Sample(ids, tuple(spans), rng.choice(("chat", "math")), number, held_out, 0.0))
    return tuple(made)


class CausalAttention:
    """An SGLang attention backend for one sequence from its first token on, without a cache."""

    def forward(
        self, q: Any, k: Any, v: Any, layer: Any, forward_batch: Any, save_kv_cache: bool = True
    ) -> torch.Tensor:
        queries, keys, values = (x.view(len(q), -1, layer.head_dim).transpose(0, 1)[None] for x in (q, k, v))
        out = F.scaled_dot_product_attention(
            queries, keys, values, is_causal=True, scale=layer.scaling, enable_gqa=True
        )
        return out[0].transpose(0, 1).reshape(len(q), -1)


@contextmanager
def sglang_models(folder: Path, tmp_path: Path) -> Iterator[None]:
    """Inside, SGLang's model classes can be made and run; afterwards its process-wide state is as before."""
    from sglang.srt import runtime_context
    from sglang.srt.distributed import parallel_state
    from sglang.srt.model_executor.forward_context import ForwardContext, forward_context
    from sglang.srt.server_args import ServerArgs

    before = runtime_context.snapshot_context()
    arguments = ServerArgs(model_path=str(folder), device="cpu", dtype="float32", skip_tokenizer_init=True)
    runtime_context.publish(arguments, role="test", ranks=runtime_context.SpawnRanks(world_rank=0))
    parallel_state.init_distributed_environment(
        backend="gloo", world_size=1, rank=0, local_rank=0, distributed_init_method=f"file://{tmp_path}/rendezvous"
    )
    try:
        parallel_state.initialize_model_parallel()
        with torch.no_grad(), forward_context(ForwardContext(attn_backend=CausalAttention())):
            yield
    finally:
        parallel_state.destroy_model_parallel()
        parallel_state.destroy_distributed_environment()
        runtime_context.restore_context(before)


class Extend:
    """As much of a ForwardBatch as a model reads in a prefill; what it has not is None."""

    def __init__(self, **values: Any) -> None:
        from sglang.srt.model_executor.forward_batch_info import ForwardMode

        self.__dict__.update(forward_mode=ForwardMode.EXTEND, **values)

    def contains_mm_inputs(self) -> bool:
        return False

    def __getattr__(self, name: str) -> None:
        return None
