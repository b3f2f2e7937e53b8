"""SGLang's own ModelRunner in this process, and the three forwards that the bitwise test compares.

Knows SGLang only: no drafting, no trees of ours. It does what `sglang/benchmark/one_batch.py` does, except that the
caller says which slots of the KV pool a sequence is made of, so that many sequences can share a prefix.
One model per process: SGLang keeps its configuration in globals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from sglang.srt.plugins import load_plugins

load_plugins()  # before anything else of SGLang asks which device it is on

from sglang.benchmark import one_batch  # noqa: E402
from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode, ForwardBatch, ForwardMode  # noqa: E402
from sglang.srt.runtime_context import SpawnRanks, publish, spawn_world_rank  # noqa: E402
from sglang.srt.server_args import PortArgs, ServerArgs  # noqa: E402
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm  # noqa: E402

MOST_REQUESTS = 8


class Outputs(NamedTuple):
    """Row by row. hidden: [rows, hidden size], after the last norm; logits: [rows, vocabulary]."""

    hidden: torch.Tensor
    logits: torch.Tensor


class Model:
    """A loaded model. A slot is the number of a place in its KV pool; SGLang keeps slot 0 for padding.

    Args:
        path: folder of the model.
        dtype: "bfloat16" or "float32".
        slots: size of the KV pool.
        max_width: the widest tree.
    """

    def __init__(self, path: str, dtype: str, slots: int, max_width: int) -> None:
        arguments = ServerArgs(
            model_path=path, device="cpu", dtype=dtype, max_total_tokens=slots, max_running_requests=MOST_REQUESTS,
            speculative_algorithm="SGL_SPEC", speculative_num_draft_tokens=max_width,
        )  # fmt: skip
        arguments.resolve_once()
        ports = PortArgs.init_new(arguments)
        ranks = SpawnRanks(world_rank=spawn_world_rank(arguments, tp_rank=0, pp_rank=0), gpu_id=0)
        publish(arguments, role="scheduler", ranks=ranks)
        one_batch._init_process_global_configs()
        runner, _tokenizer = one_batch.load_model(arguments, ports, 0, 0)
        self._runner = runner.torch_runner
        self._table: torch.Tensor = self._runner.req_to_token_pool.req_to_token
        self.vocabulary = int(self._runner.model_config.vocab_size)

    def prefill(self, tokens: Sequence[int], slots: Sequence[int]) -> Outputs:
        """Compute the last `len(tokens)` of `slots`; those before are in the cache. Logits of the last row only."""
        done, count = len(slots) - len(tokens), len(tokens)
        return self._forward(
            ForwardMode.EXTEND, torch.tensor(tokens), [slots], [len(slots)], slots[done:],
            positions=torch.arange(done, len(slots)), extend_num_tokens=count,
            extend_seq_lens=torch.tensor([count], dtype=torch.int32), extend_seq_lens_cpu=[count],
            extend_prefix_lens=torch.tensor([done], dtype=torch.int32), extend_prefix_lens_cpu=[done],
            extend_start_loc=torch.zeros(1, dtype=torch.int32), extend_logprob_start_lens_cpu=[count],
        )  # fmt: skip

    def decode(self, tokens: Sequence[int], sequences: Sequence[Sequence[int]]) -> Outputs:
        """One token for each sequence: its key and value go to its last slot, the others are what it sees."""
        lengths = [len(slots) for slots in sequences]
        return self._forward(
            ForwardMode.DECODE, torch.tensor(tokens), sequences, lengths, [slots[-1] for slots in sequences],
            positions=torch.tensor(lengths) - 1,
        )  # fmt: skip

    def verify(self, spec_info: Any, prefixes: Sequence[Sequence[int]], own: Sequence[Sequence[int]]) -> Outputs:
        """The trees of `spec_info`, tree i over `prefixes[i]`, the keys and values of its rows in slots `own[i]`."""
        sequences = [[*prefix, *slots] for prefix, slots in zip(prefixes, own, strict=True)]
        return self._forward(
            ForwardMode.TARGET_VERIFY, spec_info.draft_token, sequences, [len(prefix) for prefix in prefixes],
            [slot for slots in own for slot in slots], positions=spec_info.positions, spec_info=spec_info,
        )  # fmt: skip

    @torch.no_grad()
    def _forward(
        self,
        mode: ForwardMode,
        tokens: torch.Tensor,
        sequences: Sequence[Sequence[int]],
        seq_lens: Sequence[int],
        write: Sequence[int],
        **fields: Any,
    ) -> Outputs:
        for row, slots in enumerate(sequences):
            self._table[row + 1, : len(slots)] = torch.tensor(slots, dtype=self._table.dtype)
        lengths = torch.tensor(seq_lens, dtype=torch.int64)
        batch = ForwardBatch(
            forward_mode=mode, batch_size=len(sequences), input_ids=tokens, seq_lens=lengths, seq_lens_cpu=lengths,
            seq_lens_sum=int(lengths.sum()), orig_seq_lens=lengths.to(torch.int32),
            req_pool_indices=torch.arange(1, len(sequences) + 1), out_cache_loc=torch.tensor(write),
            capture_hidden_mode=CaptureHiddenMode.FULL, spec_algorithm=SpeculativeAlgorithm.NONE, **fields,
        )  # fmt: skip
        translator = self._runner.kv_index_translator
        translator.own_plan(batch).bind(batch, translator)
        out = self._runner.forward(batch).logits_output
        return Outputs(out.hidden_states, out.next_token_logits)
