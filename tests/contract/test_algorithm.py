"""What SGL_SPEC does to the server's arguments: fills in, refuses with a sentence, and asks for tree masks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sgl_spec import ConfigError, ContractError
from sgl_spec.server import algorithm


def _args(**changes: Any) -> SimpleNamespace:
    values: dict[str, Any] = {
        "speculative_draft_model_path": None, "grammar_backend": "xgrammar", "enable_watermark": False,
        "enable_dp_attention": False, "rl_on_policy_target": None, "disaggregation_mode": "null", "pp_size": 1,
        "tokenizer_worker_num": 1, "enable_return_routed_experts": False, "enable_return_indexer_topk": False,
        "speculative_num_draft_tokens": None, "device": "cpu", "page_size": 1, "attention_backend": "torch_native",
        "decode_attention_backend": None, "max_running_requests": None, "sampling_backend": "pytorch",
        "disable_overlap_schedule": False, "enable_mixed_chunk": True,
    }  # fmt: skip
    return SimpleNamespace(**{**values, **changes})


def _handle(args: SimpleNamespace) -> SimpleNamespace:
    algorithm.SglSpecAlgorithm("SGL_SPEC", lambda _: object, supports_overlap=True).handle_server_args(args)
    return args


def test_fills_in_what_was_left_open() -> None:
    args = _handle(_args())
    assert args.speculative_num_draft_tokens == 16
    assert args.sampling_backend == "sgl_spec"
    assert args.disable_overlap_schedule
    assert not args.enable_mixed_chunk


@pytest.mark.parametrize("width", [2, 3, 8, 16, 17])
def test_backends_are_told_of_branches_and_the_reserve_stays_the_width(width: int) -> None:
    args = _handle(_args(speculative_num_draft_tokens=width))
    # FlashAttention 3 ignores the tree mask when it is told of one branch.
    assert args.speculative_eagle_topk > 1
    assert args.speculative_eagle_topk * args.speculative_num_steps <= width


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokenizer_worker_num": 2}, "--tokenizer-worker-num above 1 does not work"),
        ({"grammar_backend": "outlines"}, "--grammar-backend outlines cannot roll back"),
        ({"enable_watermark": True}, "--enable-watermark"),
        ({"enable_return_routed_experts": True}, "--enable-return-routed-experts"),
        ({"enable_return_indexer_topk": True}, "--enable-return-indexer-topk"),
        ({"enable_dp_attention": True}, "--enable-dp-attention"),
        ({"rl_on_policy_target": "fsdp"}, "--rl-on-policy-target"),
        ({"disaggregation_mode": "decode"}, "--disaggregation-mode"),
        ({"pp_size": 2}, "--pp-size"),
        ({"speculative_num_draft_tokens": 0}, "wants 1 to 256"),
        ({"speculative_num_draft_tokens": 257}, "wants 1 to 256"),
        ({"device": "cuda", "page_size": 16}, "--page-size 16: trees need"),
        ({"device": "cuda", "attention_backend": "trtllm_mha"}, "has no tree mask"),
    ],
)
def test_refuses_with_a_sentence(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        _handle(_args(**changes))


def test_refuses_on_a_broken_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(algorithm, "refusal", "SGL_SPEC cannot run on this SGLang: because")
    with pytest.raises(ContractError, match="because"):
        _handle(_args())
