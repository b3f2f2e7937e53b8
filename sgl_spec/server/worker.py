"""One round of the running batch: draft, verify in one target forward, accept.

SGLang's scheduler calls `forward_batch_generation` with a prefill or a decode batch. A prefill goes to the target as
it is. A decode batch becomes a tree for each request, all of one width, verified by SGLang's own target worker in
TARGET_VERIFY mode over the prefix RadixAttention has cached; the target's own token is sampled at every node, the
path that agrees is kept, and its keys and values are moved to where a plain decode would have written them.

The shape is that of SGLang's V2 workers (`ngram_worker.py`, `eagle_worker_v2.py`). A draft head, where there is one,
joins the plans before they are cut to one width, and gets the accepted rows' hidden states afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from sglang.kernels.ops.speculative.cache_locs import assign_extend_cache_locs_func
from sglang.kernels.ops.speculative.spec_tree import verify_tree_greedy_func
from sglang.srt.layers.logprob_processor import compute_spec_logprobs
from sglang.srt.managers.scheduler import GenerationBatchResult
from sglang.srt.model_executor.forward_batch_info import ForwardMode
from sglang.srt.observability.req_time_stats import set_time_batch
from sglang.srt.runtime_context import get_device, get_parallel, get_spec
from sglang.srt.speculative.base_spec_worker import BaseSpecWorker
from sglang.srt.speculative.spec_utils import (
    commit_mamba_states_after_verify,
    move_accept_tokens_to_target_kvcache,
    prepare_mamba_track_for_verify,
)

from sgl_spec.config import SpecConfig
from sgl_spec.drafting.acceptance import Acceptance
from sgl_spec.drafting.calibration.reliability import told
from sgl_spec.drafting.cost_model import CostModel, Load
from sgl_spec.drafting.flat_tree import FlatTree, flatten
from sgl_spec.drafting.head.head_drafter import HeadDrafter
from sgl_spec.drafting.head.head_rule import HeadRule
from sgl_spec.drafting.planner import DraftPlan
from sgl_spec.drafting.width_rule import WidthRule
from sgl_spec.server import verify_input
from sgl_spec.server.codec import make_codec
from sgl_spec.server.cost_probe import cost_table
from sgl_spec.server.drafters import Target, make_planner
from sgl_spec.server.eagle.guarded import guarded_head
from sgl_spec.server.eagle.head import make_head
from sgl_spec.server.eagle.head_kind import served_kind
from sgl_spec.server.kept_calibration import open_calibration
from sgl_spec.server.kept_memory import open_memory
from sgl_spec.server.logits import process_logits
from sgl_spec.server.model_name import model_name
from sgl_spec.server.penalties import Penalties
from sgl_spec.server.request_states import RequestStates
from sgl_spec.server.run_end import kept_tokens
from sgl_spec.server.sampler import row_params
from sgl_spec.server.sampling import node_targets
from sgl_spec.server.verify_input import TreeCarry, TreeVerifyInput


class Accepted(NamedTuple):
    """What a verify forward settled. Tensors on the device of the target.

    predict: int32 [requests * width], the target's token at each node on an accepted path (0 elsewhere).
    index: int32 [requests, width], the flat numbers of accepted nodes, root first, -1 after the last.
    lengths: int32 [requests], tokens committed: accepted drafts and the bonus.
    """

    predict: torch.Tensor
    index: torch.Tensor
    lengths: torch.Tensor

    def cut(self, lengths: Sequence[int]) -> Accepted:
        """Only the first lengths[i] tokens of request i."""
        kept = torch.tensor(lengths, dtype=torch.int32, device=self.index.device)
        column = torch.arange(self.index.shape[1], device=self.index.device)
        return Accepted(self.predict, self.index.masked_fill(column >= kept[:, None], -1), kept)


class SglSpecWorker(BaseSpecWorker):
    """The worker SGLang creates for `--speculative-algorithm SGL_SPEC`."""

    def __init__(self, server_args: Any, gpu_id: int, nccl_port: int, target_worker: Any) -> None:
        super().__init__()
        self._target_worker = target_worker
        self.config = SpecConfig.from_environment()
        self.width = int(get_spec().speculative_num_draft_tokens)
        self.device = get_device().device
        vocabulary = int(target_worker.model_runner.model_config.vocab_size)
        codec = make_codec(target_worker.tokenizer, vocabulary)
        identity = None if codec is None else codec.identity
        saves = get_parallel().tp_group.rank_in_group == 0
        memory = open_memory(self.config, identity, saves)
        calibration = open_calibration(self.config, model_name(target_worker.model_runner.model_config), saves)
        self._drafter = drafter = None if served_kind() is None else HeadDrafter(self.config.head_prior)
        target = Target(vocabulary, codec)
        self._planner = make_planner(self.config, target, self.width, memory, drafter, calibration)
        self.requests = RequestStates(self._planner, codec)
        self.penalties = Penalties()
        self.head = guarded_head(make_head(server_args, gpu_id, nccl_port, target_worker, self.requests, drafter))
        self._draft_worker = self.head.draft_worker

    @property
    def any_width(self) -> bool:
        """Whether each round may have its own width: captured graphs have one, and so do some GPU backends."""
        graphs = self._target_worker.model_runner.decode_cuda_graph_runner
        return str(self.device) == "cpu" and graphs is None

    def alloc_memory_pool(self, **kwargs: Any) -> None:
        super().alloc_memory_pool(**kwargs)
        self.req_to_token_pool, self.token_to_kv_pool_allocator = self._target_worker.get_memory_pool()

    def init_cuda_graphs(self) -> None:
        """SGLang's last step before serving: memory, attention and graphs are there, no request is."""
        super().init_cuda_graphs()
        # Ranks must agree on a width, and each one's clock says something else.
        if self.any_width and self.config.adaptive and get_parallel().tp_group.world_size == 1:
            self._adapt()

    def _adapt(self) -> None:
        """Measure what rounds cost, and let widths and heads be chosen by it."""
        runner = self._target_worker.model_runner
        rule = WidthRule(CostModel(cost_table(runner)), self.config.explore)
        self._planner.adapt(rule)
        costs = self.head.measure_costs(int(runner.model_config.hidden_size))
        if self._drafter is not None and costs is not None:
            self._drafter.adapt(HeadRule(rule, costs, self.width))

    def clear_cache_pool(self) -> None:
        """SGLang's /flush_cache. Our state belongs to running requests, of which there are none then."""
        self.requests.clear()
        self.head.clear()

    def state(self) -> dict[str, Any]:
        """For whoever runs the server, as JSON: how far off the probabilities of verified drafts were."""
        return {"calibration": told(self._planner.calibration_errors())}

    def note_request_finished(self, *, rid: str, natural_stop: bool) -> None:
        self.head.finish(self.requests.running(rid))
        self.requests.finish(rid)

    def forward_batch_generation(
        self, batch: Any, on_publish: Callable[[torch.Tensor], None] | None = None, pp_proxy_tensors: Any = None
    ) -> GenerationBatchResult:
        if batch.forward_mode.is_decode():
            result = self._decode_round(batch, pp_proxy_tensors)
        else:
            result = self._prefill(batch, pp_proxy_tensors)
        if on_publish is not None:
            on_publish(result.new_seq_lens)
        return result

    # ---- prefill ----------------------------------------------------------------------------------------------

    def _prefill(self, batch: Any, pp_proxy_tensors: Any) -> GenerationBatchResult:
        self.requests.interrupted()
        if not batch.forward_mode.is_idle():
            self.requests.open_reports(batch.reqs)
            self.penalties.take_over(batch.sampling_info, batch.reqs)
        result = self.target_worker.forward_batch_generation(
            batch, pp_proxy_tensors=pp_proxy_tensors, capture_hidden_mode=self.head.capture
        )
        if not batch.forward_mode.is_idle():
            self.head.after_prefill(batch, result)
        result.accept_lens = torch.ones(len(batch.reqs), dtype=torch.int32, device=self.device)
        result.new_seq_lens = batch.seq_lens.clone()
        result.next_draft_input = TreeCarry(result.new_seq_lens)
        result.speculative_num_draft_tokens = 1
        return result

    # ---- decode -----------------------------------------------------------------------------------------------

    def _decode_round(self, batch: Any, pp_proxy_tensors: Any) -> GenerationBatchResult:
        set_time_batch(batch.reqs, "set_spec_draft_start_time", trace_only=True)
        load = Load(len(batch.reqs), int(batch.seq_lens_cpu.sum()))
        wide = self.head.join(batch.reqs, self.requests.plan(batch.reqs, load), load)
        plans, width = self.requests.narrow(batch.reqs, wide)
        self.head.widened(width)
        width = width if self.any_width else self.width
        trees = [flatten(plan.tree, width) for plan in plans]
        set_time_batch(batch.reqs, "set_spec_draft_end_time", trace_only=True)

        verify = self._prepare_verify(batch, trees)
        result = self.target_worker.forward_batch_generation(
            batch, pp_proxy_tensors=pp_proxy_tensors, is_verify=True, capture_hidden_mode=self.head.capture
        )
        accepted = self._accept(batch, verify, trees, result.logits_output)
        paths = self._acceptances(accepted, plans, width)
        kept = [kept_tokens(req, path.tokens) for req, path in zip(batch.reqs, paths, strict=True)]
        if any(n < len(path.tokens) for n, path in zip(kept, paths, strict=True)):
            accepted = accepted.cut(kept)
        self._settle_caches(batch, accepted, width)
        if batch.return_logprob:
            compute_spec_logprobs(batch, result.logits_output, accepted.predict, accept_index=accepted.index)
        self.head.after_round(batch.reqs, paths, kept, result.logits_output.hidden_states, width)
        self.requests.commit(batch.reqs, plans, paths, kept)
        batch.forward_mode = ForwardMode.DECODE
        return self._decode_result(batch, result, accepted, width)

    def _prepare_verify(self, batch: Any, trees: list[FlatTree]) -> TreeVerifyInput:
        """Turn the decode batch into a verify batch. SGLang restores the batch's fields after the call."""
        width = trees[0].width
        verify = verify_input.build(trees, batch.seq_lens, batch.seq_lens_cpu, full_mask=str(self.device) != "cpu")
        batch.forward_mode = ForwardMode.TARGET_VERIFY
        batch.input_ids = verify.draft_token
        batch.out_cache_loc = assign_extend_cache_locs_func(
            req_pool_indices=batch.req_pool_indices,
            req_to_token=batch.req_to_token_pool.req_to_token,
            start_offset=batch.seq_lens,
            end_offset=batch.seq_lens + width,
            batch_size=len(trees),
            draft_token_num=width,
            device=self.device,
        )
        prepare_mamba_track_for_verify(batch)
        batch.spec_info = verify
        return verify

    def _accept(self, batch: Any, verify: TreeVerifyInput, trees: list[FlatTree], logits_output: Any) -> Accepted:
        requests, width = len(trees), trees[0].width
        logits = logits_output.next_token_logits
        process_logits(batch, trees, logits, self.penalties)
        target = node_targets(logits, row_params(batch.sampling_info), verify.positions, trees)
        predict = torch.zeros(requests * width, dtype=torch.int32, device=self.device)
        index = torch.full((requests, width), -1, dtype=torch.int32, device=self.device)
        drafts = torch.empty(requests, dtype=torch.int32, device=self.device)
        verify_tree_greedy_func(
            predicts=predict, accept_index=index, accept_token_num=drafts,
            candidates=verify.draft_token.view(requests, width), retrieve_index=verify.retrieve_index,
            retrieve_next_token=verify.retrieve_next_token, retrieve_next_sibling=verify.retrieve_next_sibling,
            target_predict=target.view(requests, width), topk=verify.tree_topk,
        )  # fmt: skip
        self._agree(predict, index, drafts)
        return Accepted(predict, index, drafts + 1)

    def _agree(self, *settled: torch.Tensor) -> None:
        """Tensor-parallel ranks take rank 0's choice, as stock verification does: a last-bit difference between them
        would let them commit different lengths, and hang."""
        group = get_parallel().tp_group
        for tensor in settled if group.world_size > 1 else ():
            group.broadcast(tensor, src=0)

    def _settle_caches(self, batch: Any, accepted: Accepted, width: int) -> None:
        commit_mamba_states_after_verify(self.target_worker, batch, accepted.lengths, accepted.index, width)
        move_accept_tokens_to_target_kvcache(
            batch, accepted.index, accepted.lengths - 1, self.token_to_kv_pool_allocator
        )

    def _acceptances(self, accepted: Accepted, plans: list[DraftPlan], width: int) -> list[Acceptance]:
        """The accepted paths on the host, where runs are cut: the round's only copy."""
        index, lengths, predict = (t.tolist() for t in (accepted.index, accepted.lengths, accepted.predict))
        paths = []
        for i in range(len(plans)):
            flat = index[i][: lengths[i]]
            paths.append(Acceptance(tuple(n - i * width for n in flat), tuple(predict[n] for n in flat)))
        return paths

    def _decode_result(self, batch: Any, result: Any, accepted: Accepted, width: int) -> GenerationBatchResult:
        new_seq_lens = batch.seq_lens + accepted.lengths
        return GenerationBatchResult(
            logits_output=result.logits_output,
            # Row stride = width; entries after a request's length are never read.
            next_token_ids=accepted.predict[accepted.index.long()].flatten(),
            can_run_cuda_graph=result.can_run_cuda_graph,
            accept_lens=accepted.lengths,
            new_seq_lens=new_seq_lens,
            next_draft_input=TreeCarry(new_seq_lens),
            speculative_num_draft_tokens=width,
        )
