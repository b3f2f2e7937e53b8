"""SGLang's own Scheduler in this process, one iteration at a time, without a tokenizer and without its clients.

Knows SGLang only: no drafting. Shows what no client of a server sees: each round's accept lengths, the KV pools.
One model per process: SGLang keeps its configuration in globals.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import torch
from sglang.srt.plugins import load_plugins

load_plugins()  # before anything else of SGLang asks which device it is on

from sglang.srt.managers.io_struct import TokenizedGenerateReqInput  # noqa: E402
from sglang.srt.managers.scheduler import Scheduler  # noqa: E402
from sglang.srt.runtime_context import SpawnRanks, publish, spawn_world_rank  # noqa: E402
from sglang.srt.sampling.sampling_params import SamplingParams  # noqa: E402
from sglang.srt.server_args import PortArgs, ServerArgs  # noqa: E402


class Engine:
    """A scheduler. `arguments`: of ServerArgs. rounds: for each request the accept lengths of its decode rounds."""

    def __init__(self, model: str, **arguments: Any) -> None:
        given = ServerArgs(
            model_path=model, device="cpu", skip_tokenizer_init=True, disable_overlap_schedule=True, random_seed=1,
            max_total_tokens=4096, max_running_requests=8, log_level="warning", **arguments,
        )  # fmt: skip
        given.resolve_once()
        ports = PortArgs.init_new(given)
        ranks = SpawnRanks(world_rank=spawn_world_rank(given, tp_rank=0, pp_rank=0), gpu_id=0)
        publish(given, role="scheduler", ranks=ranks)
        self.scheduler = Scheduler(given, ports)
        self.rounds: dict[str, list[int]] = {}

    def submit(self, rid: str, prompt: Sequence[int], length: int, hint: Any = None, **sampling: Any) -> Any:
        """A new request, greedy unless `sampling` says otherwise; it ends after `length` tokens. SGLang's Req."""
        params = SamplingParams(
            max_new_tokens=length, ignore_eos=True, custom_params=None if hint is None else {"sgl_spec": hint},
            **{"temperature": 0, **sampling},
        )  # fmt: skip
        params.normalize(None)
        self.scheduler.handle_generate_request(
            TokenizedGenerateReqInput(
                rid=rid, input_text=None, input_ids=array("q", prompt), input_embeds=None, mm_inputs=None,
                token_type_ids=None, sampling_params=params, return_logprob=False, logprob_start_len=-1,
                top_logprobs_num=0, token_ids_logprob=None, stream=False,
            )
        )  # fmt: skip
        return self.scheduler.waiting_queue[-1]

    @torch.no_grad()
    def step(self) -> bool:
        """One iteration, as `event_loop_normal` does it. False when there was nothing to do."""
        scheduler = self.scheduler
        plan = scheduler.get_next_batch_to_run(running_batch=scheduler.running_batch, last_batch=scheduler.last_batch)
        scheduler.running_batch, batch = plan.running_batch, plan.batch_to_run
        if batch:
            decodes, reqs = batch.forward_mode.is_decode(), list(batch.reqs)
            result = scheduler.run_batch(batch)
            if decodes and result.accept_lens is not None:
                for req, length in zip(reqs, result.accept_lens.tolist(), strict=True):
                    self.rounds.setdefault(req.rid, []).append(length)
            scheduler.process_batch_result(batch, result)
        scheduler.last_batch = batch
        return bool(batch)

    def run(self) -> None:
        """Until every request is over."""
        while self.step():
            pass

    def forget_prefixes(self) -> None:
        """Empty the radix cache."""
        assert self.scheduler.flush_cache()
