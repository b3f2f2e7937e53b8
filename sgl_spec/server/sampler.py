"""SGLang's sampler with the choice of the token replaced by `sampling.target_tokens`.

Where it stands in a round: before the first one: it samples the token that a prefill produces, with the same noise
as the verifier uses for all later ones. Without speculation it samples every token. Registered as sampling backend
"sgl_spec", which the algorithm selects, and `sgl-spec serve --off`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from sglang.srt.arg_groups.overrides import declare_resolution
from sglang.srt.layers.sampler import Sampler, _SamplingMaskCapture
from sglang.srt.runtime_context import get_device

from sgl_spec.server.algorithm import SAMPLING_BACKEND
from sgl_spec.server.sampling import RowParams, filtered_logprobs, target_tokens


def keep_backend(server_args: Any, previous: Callable[[Any], None]) -> None:
    """Resolution hook of the last step that chooses a sampling backend: what was asked for stays.

    On a CPU, and for deterministic inference, SGLang otherwise takes its own, whatever the flag says.
    """
    previous(server_args)
    if server_args.sampling_backend == SAMPLING_BACKEND:
        declare_resolution(server_args, "sgl_spec", sampling_backend=SAMPLING_BACKEND)


def row_params(info: Any) -> RowParams:
    """The parameters of a SamplingBatchInfo, one row per request."""
    return RowParams(
        info.temperatures.flatten(), info.top_ks.long(), info.top_ps, info.min_ps, info.sampling_seed,
        all_greedy=info.is_all_greedy, ranked=info.need_top_k_sampling or info.need_top_p_sampling,
    )  # fmt: skip


class _Decided(NamedTuple):
    """The tokens, int64 [rows], and what `return_sampling_mask` asks for (SGLang's type), or None."""

    tokens: torch.Tensor
    capture: Any


class SeededSampler(Sampler):
    """Chooses tokens by `target_tokens` wherever the batch carries seeds (`seeds.put_seeds`)."""

    _decided: _Decided | None = None

    def __init__(self) -> None:
        super().__init__()
        if str(get_device().device) == "cpu":
            _compile()

    def forward(self, logits_output: Any, sampling_info: Any, *args: Any, **kwargs: Any) -> Any:
        positions = kwargs.get("positions", args[3] if len(args) > 3 else None)
        if sampling_info.sampling_seed is not None and not sampling_info.is_all_greedy:
            logits = self._preprocess_logits(logits_output.next_token_logits, sampling_info)
            params = row_params(sampling_info)
            capture = _capture(logits, params, sampling_info.sampling_mask_batch_indices)
            self._decided = _Decided(target_tokens(logits, params, positions), capture)
        try:
            return super().forward(logits_output, sampling_info, *args, **kwargs)
        finally:
            self._decided = None

    def _preprocess_logits(self, logits: torch.Tensor, sampling_info: Any) -> torch.Tensor:
        # Custom processors change the logits in place, so they run once: in `forward` above when it needs them.
        return logits if self._decided is not None else super()._preprocess_logits(logits, sampling_info)

    def _sample_from_probs(
        self, probs: torch.Tensor, sampling_info: Any, positions: torch.Tensor, simple_sampling_case: bool
    ) -> Any:
        if self._decided is None:
            return super()._sample_from_probs(probs, sampling_info, positions, simple_sampling_case)
        return self._decided.tokens.to(torch.int32), self._decided.capture


def _capture(logits: torch.Tensor, params: RowParams, rows: torch.Tensor | None) -> Any:
    """For the rows that ask for it: the weights of the tokens that the filters keep."""
    if rows is None:
        return None
    weights = filtered_logprobs(logits[rows], params.select(rows)).exp_()
    return _SamplingMaskCapture(weights=weights, token_ids=None, selected_weight=None, batch_rows=rows)


def _compile() -> None:
    """Run what is compiled once, before the first request."""
    one = torch.ones(1)
    params = RowParams(one, one.long() * 2, one, one * 0, one.long())
    target_tokens(torch.zeros(1, 2), params, one.long())
