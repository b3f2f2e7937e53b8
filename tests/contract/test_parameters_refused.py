"""What SGLang refuses for us: parameters and flags that no speculative algorithm of somebody else's may have."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from round_world import published
from sglang.srt.arg_groups.lora_hook import check_lora_speculative_compatibility
from sglang.srt.beam_search.coordinator import BeamCoordinator
from sglang.srt.managers.tokenizer_manager import _validate_watermark_request
from sglang.srt.runtime_context import get_context
from sglang.srt.sampling.sampling_params import SamplingParams
from sglang.srt.speculative.spec_sampling_mask import validate_spec_sampling_mask_request

from sgl_spec.server.algorithm import NAME, SglSpecAlgorithm
from sgl_spec.server.parameter_table import REQUEST, SAMPLING

ALGORITHM = SglSpecAlgorithm(NAME, lambda _: object, supports_overlap=True)
HOW = {row.name: row.how for row in (*REQUEST, *SAMPLING)}


def test_beam_search() -> None:
    coordinator: Any = SimpleNamespace(spec_algorithm=ALGORITHM)
    req: Any = SimpleNamespace(sampling_params=SamplingParams(beam_width=2))
    refusal = BeamCoordinator.validate_and_init(coordinator, req, None)
    assert refusal is not None
    assert refusal in HOW["beam_width"]


def test_sampling_masks() -> None:
    refusal = validate_spec_sampling_mask_request(None, ALGORITHM)  # type: ignore[arg-type]
    assert refusal is not None
    assert refusal in HOW["return_sampling_mask"]


def test_lora() -> None:
    with published(), pytest.raises(ValueError, match=f"LoRA is only compatible with .*, not {NAME}"):
        check_lora_speculative_compatibility(get_context().server_args)


def test_a_watermark_on_a_server_without() -> None:
    with get_context().override_server_args(), pytest.raises(ValueError, match="--enable-watermark"):
        _validate_watermark_request(SamplingParams(watermark={"enabled": True}))
