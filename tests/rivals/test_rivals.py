"""Stock NGRAM and stock EAGLE3 run on the CPU platform: the same greedy text as plain decoding, and drafts accepted.

A tier of its own: NGRAM compiles C++ at its first start. The EAGLE3 head here is random, so nothing it drafts is good;
what is tested is the platform under it (top-k trees, draft decode, cache moves).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import torch
from safetensors.torch import save_file

from sgl_spec import Runtime
from sgl_spec.bundled_model import prepare

CODE = "def fib(n):\n    if n < 2:\n        return n\n    return fib(n - 1) + fib(n - 2)\n\ndef fib_memo(n, memo={}):\n"
DRAFT_VOCABULARY = 4096


def _generate(runtime: Runtime) -> list[dict[str, Any]]:
    params = {"temperature": 0, "max_new_tokens": 48, "ignore_eos": True}
    prompts = [CODE, "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11,"]
    body = {"text": prompts, "sampling_params": params}
    return requests.post(f"{runtime.url}/generate", json=body, timeout=300).json()


@pytest.fixture(scope="module")
def plain() -> Iterator[list[dict[str, Any]]]:
    with Runtime(off=True, max_total_tokens=8192) as runtime:
        yield _generate(runtime)


def _same_text(answers: list[dict[str, Any]], plain: list[dict[str, Any]]) -> None:
    assert [a["output_ids"] for a in answers] == [p["output_ids"] for p in plain]


def test_ngram(plain: list[dict[str, Any]]) -> None:
    with Runtime(speculative_algorithm="NGRAM", max_total_tokens=8192) as runtime:
        answers = _generate(runtime)
    _same_text(answers, plain)
    assert answers[1]["meta_info"]["spec_verify_ct"] < 40


def _random_head(folder: Path) -> None:
    """An untrained EAGLE-3 head for the bundled model, in SGLang's checkpoint format."""
    config = json.loads((prepare() / "config.json").read_text())
    hidden, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    torch.manual_seed(0)
    shapes = {
        "fc": (hidden, 3 * hidden),
        "lm_head": (DRAFT_VOCABULARY, hidden),
        "midlayer.self_attn.q_proj": (queries, 2 * hidden),
        "midlayer.self_attn.k_proj": (keys, 2 * hidden),
        "midlayer.self_attn.v_proj": (keys, 2 * hidden),
        "midlayer.self_attn.o_proj": (hidden, queries),
        "midlayer.mlp.gate_proj": (inner, hidden),
        "midlayer.mlp.up_proj": (inner, hidden),
        "midlayer.mlp.down_proj": (hidden, inner),
    }
    norms = ("norm", "midlayer.hidden_norm", "midlayer.input_layernorm", "midlayer.post_attention_layernorm")
    weights = {f"{name}.weight": (torch.randn(shape) * 0.02).bfloat16() for name, shape in shapes.items()}
    weights |= {f"{name}.weight": torch.ones(hidden).bfloat16() for name in norms}
    weights["d2t"] = torch.zeros(DRAFT_VOCABULARY, dtype=torch.long)
    weights["t2d"] = torch.arange(config["vocab_size"]) < DRAFT_VOCABULARY
    save_file(weights, folder / "model.safetensors")
    config |= {
        "architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1, "draft_vocab_size": DRAFT_VOCABULARY,
        "tie_word_embeddings": False, "target_hidden_size": hidden,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))


def test_eagle3(plain: list[dict[str, Any]], tmp_path: Path) -> None:
    _random_head(tmp_path)
    with Runtime(
        speculative_algorithm="EAGLE3", speculative_draft_model_path=tmp_path, speculative_num_steps=3,
        speculative_eagle_topk=4, speculative_num_draft_tokens=12, speculative_draft_attention_backend="intel_amx",
        max_total_tokens=8192,
    ) as runtime:  # fmt: skip
        answers = _generate(runtime)
    _same_text(answers, plain)
    assert all(a["meta_info"]["spec_verify_ct"] > 0 for a in answers)
