"""SGLang's sampler with the choice of the token replaced by `sampling.target_tokens`.

Where it stands in a round: before the first one: it samples the token that a prefill produces, with the same noise
as the verifier uses for all later ones. Registered as sampling backend "sgl_spec" and selected by the algorithm.
"""

from __future__ import annotations

from typing import Any

import torch
from sglang.srt.layers.sampler import Sampler

from sgl_spec.server.sampling import RowParams, target_tokens

BACKEND = "sgl_spec"


def row_params(info: Any) -> RowParams:
    """The parameters of a SamplingBatchInfo, one row per request. The worker has put each request's seed in it."""
    return RowParams(info.temperatures.flatten(), info.top_ks.long(), info.top_ps, info.min_ps, info.sampling_seed)


class SeededSampler(Sampler):
    """Chooses tokens by `target_tokens` wherever the batch carries seeds; otherwise behaves as stock."""

    _chosen: torch.Tensor | None = None

    def forward(self, logits_output: Any, sampling_info: Any, *args: Any, **kwargs: Any) -> Any:
        positions = kwargs.get("positions", args[3] if len(args) > 3 else None)
        if sampling_info.sampling_seed is not None and not sampling_info.is_all_greedy:
            logits = self._preprocess_logits(logits_output.next_token_logits, sampling_info)
            self._chosen = target_tokens(logits, row_params(sampling_info), positions)
        try:
            return super().forward(logits_output, sampling_info, *args, **kwargs)
        finally:
            self._chosen = None

    def _preprocess_logits(self, logits: torch.Tensor, sampling_info: Any) -> torch.Tensor:
        # Custom processors change the logits in place, so they run once: in `forward` above when it needs them.
        return logits if self._chosen is not None else super()._preprocess_logits(logits, sampling_info)

    def _sample_from_probs(
        self, probs: torch.Tensor, sampling_info: Any, positions: torch.Tensor, simple_sampling_case: bool
    ) -> Any:
        if self._chosen is None:
            return super()._sample_from_probs(probs, sampling_info, positions, simple_sampling_case)
        return self._chosen.to(torch.int32), None
