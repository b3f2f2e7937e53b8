"""SGLang's draft workers (`eagle_worker_v2.py`, `standalone_worker_v2.py`), driven row by row.

Where it stands in a round: the head's part. They load the draft model, share the target's embeddings and keep its part
of the KV pool; the stock loop from a verified batch to a verify input is replaced by `extend` and `grow`, which know
nothing of rounds, so that a round may use them or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Sized
from contextlib import contextmanager
from typing import Any

import torch
from sglang.srt.layers.moe.utils import speculative_moe_a2a_backend_context, speculative_moe_backend_context
from sglang.srt.model_executor.forward_context import ForwardContext, forward_context
from sglang.srt.runtime_context import get_parallel
from sglang.srt.speculative.eagle_worker_v2 import EagleDraftWorker
from sglang.srt.speculative.spec_utils import draft_tp_context
from sglang.srt.speculative.standalone_worker_v2 import StandaloneDraftWorker
from sglang.srt.utils.common import fast_topk

from sgl_spec.drafting.head.candidates import HeadCandidates
from sgl_spec.errors import ConfigError
from sgl_spec.server.eagle.backlog import Span, text_slice
from sgl_spec.server.eagle.growing import Growing
from sgl_spec.server.eagle.head_batch import Steps, extend_batch, step_batch
from sgl_spec.server.eagle.head_kind import HeadKind


class _Driven:
    """What both kinds of draft worker are given. Attributes named here without a value are SGLang's."""

    draft_runner: Any
    draft_attn_backend: Any
    parallel_layout: Any
    hot_token_id: torch.Tensor | None
    topk: int
    speculative_num_steps: int
    reads_hidden_states = True
    shift = 1  # how far a row's token is after its position

    def extend(self, spans: Sequence[Span]) -> Any:
        """Give the model the rows of `spans`, which writes its keys and values for them.

        Returns:
            SGLang's LogitsProcessorOutput of each span's last row: next_token_logits [spans, draft vocabulary],
            hidden_states [spans, size].
        """
        with self._as_draft():
            batch = extend_batch(spans, self.draft_runner, self.reads_hidden_states)
            return self.draft_runner.forward(batch).logits_output

    def extend_prefill(self, batch: Any, result: Any) -> None:
        """The same for a prefill that the target has just computed, chunks and all: SGLang's own code.

        Args:
            batch: the scheduler's; its fields are changed, which SGLang undoes.
            result: what the target made of it: hidden states of every row, and the token after each request's last row,
                for where the prompt does not say.
        """
        output = result.logits_output
        with self._as_draft():
            self._draft_extend_for_prefill(  # type: ignore[attr-defined]
                batch, output.hidden_states, result.next_token_ids, output.mm_input_embeds
            )

    def grow(self, spans: Sequence[Span], first: Any, steps: int) -> list[HeadCandidates]:
        """Candidates after each span.

        Args:
            spans: the first of those given to `extend`.
            first: what `extend` returned.
            steps: levels, at least 1 and at most SGLang's speculative_num_steps.
        """
        count = len(spans)
        tree = Growing(*self._likeliest(first.next_token_logits[:count]))
        if steps > 1:
            hidden = first.hidden_states[:count] if self.reads_hidden_states else None
            with self._as_draft():
                prepared = step_batch(
                    spans, self.draft_runner, self.reads_hidden_states, self.topk, self.speculative_num_steps
                )
                self._step(tree, hidden, prepared, steps)
        return tree.candidates(_agree)

    def _step(self, tree: Growing, hidden: torch.Tensor | None, prepared: Steps, steps: int) -> None:
        batch, slots = prepared
        self.draft_attn_backend.init_forward_metadata(batch)
        batch.mark_forward_metadata_ready()
        hidden = None if hidden is None else hidden.repeat_interleave(self.topk, dim=0)
        for step in range(steps - 1):
            batch.input_ids, batch.out_cache_loc = tree.row_tokens.flatten(), slots[step]
            batch.spec_info.hidden_states = hidden
            backend = self.draft_attn_backend.attn_backends[step]
            with forward_context(ForwardContext(attn_backend=backend), forward_batch=batch):
                output = self.draft_runner.forward(batch).logits_output
            batch.positions.add_(1)
            above = tree.expand(*self._likeliest(output.next_token_logits))
            hidden = None if hidden is None else output.hidden_states[above]
            if step + 2 < steps:
                self._carry(slots[: step + 1], above)

    def _carry(self, slots: torch.Tensor, above: torch.Tensor) -> None:
        """Let every branch hold the keys and values of its own row's ancestors. (Stock drafting leaves them where they
        are, so a branch whose row now hangs below another branch's attends to tokens that are not before it.)"""
        source, target = slots[:, above].flatten(), slots.flatten()
        pool = self.draft_runner.token_to_kv_pool
        for buffer in (*pool.k_buffer, *pool.v_buffer):
            buffer[target] = buffer[source]

    def _likeliest(self, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The topk tokens of each row (as the target numbers them) and their probabilities, [rows, topk] each."""
        probs, tokens = fast_topk(torch.softmax(logits.float(), dim=-1), self.topk, dim=-1)
        return probs, tokens if self.hot_token_id is None else self.hot_token_id[tokens]

    @contextmanager
    def _as_draft(self) -> Iterator[None]:
        """SGLang's settings for the draft model's forwards."""
        with (
            draft_tp_context(self.parallel_layout),
            speculative_moe_backend_context(),
            speculative_moe_a2a_backend_context(),
        ):
            yield

    def _capture_cuda_graphs(self) -> None:
        """None: the stock graphs hold the stock loop."""
        self.cuda_graph_runner = None
        self.cuda_graph_runner_for_draft_extend = None


def _agree(tensor: torch.Tensor) -> None:
    """Tensor-parallel ranks take rank 0's candidates: all of them verify one tree."""
    group = get_parallel().tp_group
    if group.world_size > 1:
        group.broadcast(tensor, src=0)


class HeadWorker(_Driven, EagleDraftWorker):
    """An EAGLE or EAGLE-3 head."""


class ModelWorker(_Driven, StandaloneDraftWorker):
    """A whole small model with the target's vocabulary.

    Stock STANDALONE gives it the rows of a head, without the first token of the text. Here it reads the text as it is.
    """

    reads_hidden_states = False
    shift = 0

    def extend_prefill(self, batch: Any, result: Any) -> None:
        spans = zip(batch.reqs, batch.prefix_lens, batch.extend_lens, strict=True)
        self.extend([Span(req, start, text_slice(req, start, count), None) for req, start, count in spans])


def make_draft_model(kind: HeadKind, server_args: Any, gpu_id: int, nccl_port: int, target_worker: Any) -> _Driven:
    """Load the draft model named by SGLang's configuration.

    Raises:
        ConfigError: a small model has no embedding for some tokens of the target's tokenizer.
    """
    worker = HeadWorker if kind.reads_hidden_states else ModelWorker
    made = worker(server_args, gpu_id, nccl_port, target_worker)
    if kind is HeadKind.MODEL:
        check_vocabulary(int(made.draft_runner.model_config.vocab_size), target_worker.tokenizer)
    return made


def check_vocabulary(rows: int, tokenizer: Sized | None) -> None:
    """A small model reads the text itself: an id beyond its embedding's `rows` brings a GPU process down. (Models of
    one family pad their embeddings to different sizes, so it is the tokenizer that counts. A head has the target's.)

    Raises:
        ConfigError: the tokenizer has more tokens.
    """
    if tokenizer is not None and len(tokenizer) > rows:
        raise ConfigError(
            f"--speculative-draft-model-path: the draft model has {rows} token embeddings, the target's tokenizer "
            f"{len(tokenizer)} tokens; take a model with the same tokenizer"
        )
