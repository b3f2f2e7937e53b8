"""What SGLang is told about SGL_SPEC: how it behaves in the scheduler, and how it changes the server's arguments.

Where it stands in a round: before all of them; SGLang asks while it starts.
"""

from __future__ import annotations

from typing import Any

from sglang.srt.runtime_context import get_spec
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm
from sglang.srt.speculative.spec_registry import CustomSpecAlgo

from sgl_spec.config import SpecConfig
from sgl_spec.errors import ConfigError, ContractError
from sgl_spec.server.eagle import head_args
from sgl_spec.server.eagle.head_kind import HeadKind, served_kind

NAME = "SGL_SPEC"
SAMPLING_BACKEND = "sgl_spec"  # what --sampling-backend calls `sampler.SeededSampler`
# As stock NGRAM sets it, when the user did not say: the KV reserve grows with width times requests.
DEFAULT_MAX_RUNNING_REQUESTS = 48

# Set by the plugin when the installed SGLang does not match the contract: the name stays known, and refuses.
refusal: str | None = None


def decodes_here() -> bool:
    """Whether this is a server that decodes with SGL_SPEC: the plugin is in the processes of every server."""
    return (get_spec().speculative_algorithm or "").upper() == NAME


class SglSpecAlgorithm(CustomSpecAlgo):
    """SGL_SPEC: to the scheduler it looks like NGRAM, whose trees also live on the host only.

    With a draft model it looks like STANDALONE besides (SGLang then accounts for the draft model's KV), and with an
    EAGLE-3 head also like EAGLE3 (the target then hands out three layers' hidden states). Never like EAGLE: SGLang
    would key the radix cache by pairs of tokens and refuse the last tokens of the context, and a client can see both.
    """

    def is_ngram(self) -> bool:
        return True

    def is_standalone(self) -> bool:
        return served_kind() is not None

    def is_eagle3(self) -> bool:
        return served_kind() is HeadKind.EAGLE3

    def has_draft_kv(self) -> bool:
        return served_kind() is not None

    # The scheduler calls these three; CustomSpecAlgo of 0.5.23 lacks them.
    def carries_draft_hidden_states(self) -> bool:
        return False

    def need_topk(self) -> bool:
        return False

    def create_future_map(self, *args: Any, **kwargs: Any) -> Any:
        return SpeculativeAlgorithm.create_future_map(self, *args, **kwargs)  # type: ignore[arg-type]

    def handle_server_args(self, server_args: Any) -> None:
        """Fill in what the user left open, refuse what cannot work."""
        if refusal is not None:
            raise ContractError(refusal)
        _refuse_what_cannot_work(server_args)
        config = SpecConfig.from_environment()
        if server_args.speculative_num_draft_tokens is None:
            server_args.speculative_num_draft_tokens = config.width
        if server_args.speculative_draft_model_path is None:
            _size_trees(server_args, server_args.speculative_num_draft_tokens)
        else:
            head_args.fill_in(server_args)
        if server_args.max_running_requests is None:
            server_args.max_running_requests = DEFAULT_MAX_RUNNING_REQUESTS
        server_args.disable_overlap_schedule = True
        server_args.enable_mixed_chunk = False
        server_args.sampling_backend = SAMPLING_BACKEND


def _size_trees(server_args: Any, width: int) -> None:
    """Our trees have no fixed branching or depth. The product of the two sizes SGLang's KV reserve; more than one
    branch also tells attention backends to read the tree mask (FlashAttention 3 ignores it for one)."""
    server_args.speculative_eagle_topk = 2 if width > 1 else 1
    server_args.speculative_num_steps = max(width // 2, 1)


def _refuse_what_cannot_work(server_args: Any) -> None:
    if server_args.grammar_backend == "outlines":
        raise ConfigError(
            f"--grammar-backend outlines cannot roll back, which {NAME} needs; use xgrammar (the default) or llguidance"
        )
    for flag, wrong in (
        ("--enable-watermark", server_args.enable_watermark),
        # What they capture stays at the tree's slots when accepted keys and values move.
        ("--enable-return-routed-experts", server_args.enable_return_routed_experts),
        ("--enable-return-indexer-topk", server_args.enable_return_indexer_topk),
        ("--enable-dp-attention", server_args.enable_dp_attention),
        ("--rl-on-policy-target", server_args.rl_on_policy_target is not None),
        ("--disaggregation-mode", server_args.disaggregation_mode != "null"),
        ("--pp-size above 1", server_args.pp_size > 1),
        # Its HTTP workers load no plugins, and then do not know the algorithm's name.
        ("--tokenizer-worker-num above 1", server_args.tokenizer_worker_num > 1),
    ):
        if wrong:
            raise ConfigError(f"{flag} does not work with {NAME} yet; leave one of the two out")
    width = server_args.speculative_num_draft_tokens
    if width is not None and not 1 <= width <= 256:
        raise ConfigError(f"--speculative-num-draft-tokens {width}: {NAME} wants 1 to 256 (the root included)")
    if server_args.device != "cpu":
        _refuse_backends_without_trees(server_args)


def _refuse_backends_without_trees(server_args: Any) -> None:
    """What stock NGRAM refuses too, and a backend that has no tree mask."""
    backends = {server_args.attention_backend, server_args.decode_attention_backend}
    if (server_args.page_size or 1) > 1 and server_args.attention_backend != "flashinfer":
        raise ConfigError(f"--page-size {server_args.page_size}: trees need --page-size 1, or flashinfer")
    if "trtllm_mha" in backends:
        raise ConfigError(
            f"--attention-backend trtllm_mha has no tree mask, which {NAME} needs; use flashinfer or triton"
        )


def register() -> None:
    """Make `--speculative-algorithm SGL_SPEC` known. The worker is imported when SGLang asks for it."""

    @SpeculativeAlgorithm.register(NAME, supports_overlap=True, spec_class=SglSpecAlgorithm)
    def create_worker(server_args: Any) -> type:
        from sgl_spec.server.worker import SglSpecWorker

        return SglSpecWorker
