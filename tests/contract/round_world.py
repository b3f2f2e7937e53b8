"""Rounds of the real worker over a target without weights, and the same requests by SGLang's own parts, one token at a
time.

What stands in for SGLang's scheduler here does with a request only what the scheduler does. The target's logits are a
pure function of the tokens whose keys it finds, in the cache and under the tree's mask: so a wrong mask, a wrong
position or a key that was not moved gives another text.
"""

from __future__ import annotations

import copy
import random
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
from grammar_world import BACKENDS, TOKENIZER
from sglang.srt.constrained.reasoner_grammar_backend import ReasonerGrammarObject
from sglang.srt.layers.sampler import apply_custom_logit_processor
from sglang.srt.managers.schedule_batch import Req
from sglang.srt.managers.scheduler_components.batch_result_processor import SchedulerBatchResultProcessor
from sglang.srt.model_executor.forward_batch_info import ForwardMode
from sglang.srt.runtime_context import get_context, get_parallel
from sglang.srt.sampling.sampling_batch_info import SamplingBatchInfo
from sglang.srt.sampling.sampling_params import SamplingParams
from sglang.srt.speculative.spec_registry import get_spec
from transformers import PretrainedConfig

from sgl_spec.drafting.acceptance import sample_token
from sgl_spec.drafting.budget import DraftBudget
from sgl_spec.drafting.drafter import Drafter, DraftRequest
from sgl_spec.drafting.planner import DraftPlanner
from sgl_spec.drafting.tree import Chain
from sgl_spec.server import algorithm, run_end, worker
from sgl_spec.server.algorithm import NAME, SAMPLING_BACKEND
from sgl_spec.server.eagle.head import NoHead
from sgl_spec.server.penalties import Penalties
from sgl_spec.server.report import FIELD
from sgl_spec.server.request_states import RequestStates
from sgl_spec.server.seeds import put_seeds
from sgl_spec.testing.fake_target import FakeTarget

TOKENIZER.additional_stop_token_ids = None  # SGLang sets it on every tokenizer it loads
EOS = TOKENIZER.eos_token_id
VOCABULARY = len(TOKENIZER) + 5
PROMPT = tuple(TOKENIZER.encode("Today is Monday, the 3rd of June."))
THINK_END = tuple(TOKENIZER.encode("b\n"))  # stands for "</think>", which is several tokens too
XGRAMMAR = BACKENDS["xgrammar"]
SCRIPT, SCRIPT_AT = tuple(TOKENIZER.encode("<function=get_")), 3
WIDTH, MOST_TOKENS = 12, 48
TARGET = FakeTarget(VOCABULARY, context=2, sharpness=2.0)


def logits_after(path: Sequence[int]) -> np.ndarray:
    """float32 [VOCABULARY]. The target likes what it just said, says SCRIPT early on, and wants to end every eleventh
    token."""
    row = TARGET.logits(path)
    row[list(path[-4:])] += 3.0
    row[EOS] = row.max() + 1.0 if len(path) % 11 == 0 else -20.0
    place = len(path) - len(PROMPT) - SCRIPT_AT
    if 0 <= place < len(SCRIPT):
        row[SCRIPT[place]] += 40.0
    return row.astype(np.float32)


def state_after(path: Sequence[int]) -> float:
    """Stands for a hidden state."""
    return float(len(path) * VOCABULARY + path[-1])


class Asked(NamedTuple):
    """A request: sampling parameters of SGLang, and fields of `/generate`. thinks: most tokens of reasoning, if any."""

    params: Mapping[str, Any]
    fields: Mapping[str, Any] = {}
    thinks: int | None = None


class Answer(NamedTuple):
    """What a client is told. states: `state_after` of what each token followed, where hidden states were asked for.
    account: what `meta_info` says under our name; None without speculation."""

    logprobs: list[float]
    top_logprobs: list[list[float]]
    chosen_logprobs: list[list[float]]
    states: list[float]
    tokens: Sequence[int] = ()
    reason: Any = None
    reasoning_tokens: int = 0
    account: dict[str, Any] | None = None

    def ended(self, req: Req, account: dict[str, Any] | None = None) -> Answer:
        assert req.finished_reason is not None
        return Answer(*self[:4], list(req.output_ids), req.finished_reason.to_json(), req.reasoning_tokens, account)


def no_answer() -> Answer:
    return Answer([], [], [], [])


def request(rid: str, asked: Asked) -> Req:
    params = SamplingParams(**{"max_new_tokens": MOST_TOKENS, **copy.deepcopy(asked.params)})
    params.normalize(TOKENIZER)
    made = Req(rid, "", array("q", PROMPT), params, eos_token_ids={EOS}, vocab_size=VOCABULARY, **asked.fields)
    made.tokenizer = TOKENIZER
    for kind in ("json_schema", "regex", "ebnf", "structural_tag"):
        text = getattr(params, kind)
        if text is not None:
            made.grammar = getattr(XGRAMMAR, "dispatch_" + kind.removesuffix("_schema"))(text).copy()
    if asked.thinks is not None:
        made.grammar = thinking(made.grammar, asked.thinks)
    return made


def thinking(grammar: Any, most: int) -> ReasonerGrammarObject:
    """The grammar of `--enable-strict-thinking` with `max_thinking_tokens`; after the reasoning, `grammar`."""
    made = ReasonerGrammarObject(
        grammar, THINK_END, max_think_tokens=most, enable_token_filter=True, token_filter_fn=XGRAMMAR.set_token_filter,
        allocate_vocab_mask_fn=XGRAMMAR.allocate_vocab_mask, move_vocab_mask_fn=XGRAMMAR.move_vocab_mask,
        apply_vocab_mask_fn=XGRAMMAR.apply_vocab_mask,
    )  # fmt: skip
    made.maybe_init_reasoning(True)
    return made


class Batch:
    """As much of SGLang's ScheduleBatch as one forward needs."""

    device = "cpu"

    def __init__(self, reqs: Sequence[Req]) -> None:
        self.reqs = list(reqs)
        self.has_grammar = any(req.grammar is not None for req in reqs)
        self.return_logprob = any(req.return_logprob for req in reqs)
        self.top_logprobs_nums = [req.logprob.top_logprobs_num for req in reqs]
        self.token_ids_logprobs = [req.logprob.token_ids_logprob for req in reqs]
        self.seq_lens_cpu = torch.tensor([len(PROMPT) + len(req.output_ids) - 1 for req in reqs])
        self.seq_lens = self.seq_lens_cpu.clone()
        self.forward_mode = ForwardMode.DECODE
        self.sampling_info = SamplingBatchInfo.from_schedule_batch(self, VOCABULARY)
        put_seeds(lambda *_: None, self.sampling_info, self, VOCABULARY)  # in a server a hook (`plugin.hooks`)


@contextmanager
def published() -> Iterator[None]:
    """SGLang's settings, as in a server of ours."""
    if get_spec(NAME) is None:
        algorithm.register()
    settings = {
        "speculative_algorithm": NAME,
        "sampling_backend": SAMPLING_BACKEND,
        "enable_custom_logit_processor": True,
    }
    with (
        get_context().override_server_args(**settings),
        get_parallel().override(tp_group=SimpleNamespace(world_size=1)),
    ):
        yield


# ---- one token at a time, by SGLang's own parts ------------------------------------------------------------------


def step(req: Req, batch: Batch, answer: Answer) -> None:
    """One decode step of SGLang: penalties, mask, bias, processor; the token; the end. `batch` is of this request."""
    path = (*PROMPT, *req.output_ids)
    logits = torch.from_numpy(logits_after(path))[None]
    batch.sampling_info.grammars = None if req.grammar is None else [req.grammar]
    info = batch.sampling_info.copy_for_forward()
    info.update_regex_vocab_mask()
    with torch.compiler.set_stance("force_eager"):  # compiling takes seconds; the division is the same
        info.apply_logits_bias(logits)
    if info.has_custom_logit_processor:
        apply_custom_logit_processor(logits, info)
    params = req.sampling_params
    if params.top_k == 1:
        token = int(logits.argmax())
    else:
        filters = (params.temperature, params.top_k, params.top_p, params.min_p)
        token = sample_token(logits[0].numpy(), params.sampling_seed, len(path) - 1, *filters)
    logprobs = torch.log_softmax(logits[0] / params.temperature, dim=-1)
    answer.logprobs.append(float(logprobs[token]))
    answer.top_logprobs.append(logprobs.topk(req.logprob.top_logprobs_num).values.tolist())
    answer.chosen_logprobs.append(logprobs[req.logprob.token_ids_logprob or []].tolist())
    answer.states.append(state_after(path))
    batch.sampling_info.penalizer_orchestrator.cumulate_output_tokens(torch.tensor([token]))
    take(req, [token])


def take(req: Req, tokens: Sequence[int]) -> None:
    """As the scheduler does with what a step or a round brought."""
    if req.grammar is not None:
        tokens = SchedulerBatchResultProcessor._accept_grammar_tokens(None, req, list(tokens))  # type: ignore[arg-type]
    req.output_ids.extend(tokens)
    if req.require_reasoning:
        req.update_reasoning_tokens(list(tokens), list(THINK_END))
    run_end.judge_last_token(Req.update_finish_state, req, len(tokens))
    if req.grammar is not None:
        req.grammar.finished = req.finished()


def alone(asked: Asked) -> Answer:
    """What SGLang answers without speculation."""
    req, answer = request("alone", asked), no_answer()
    batch = Batch([req])
    while not req.finished():
        step(req, batch, answer)
    return answer.ended(req)


# ---- in rounds, by the worker --------------------------------------------------------------------------------------


class Prophet(Drafter):
    """Knows what each request will say, and says it, with lies beside it and after it."""

    origin = "prophet"

    def __init__(self, futures: Mapping[str, Sequence[int]]) -> None:
        self._futures, self._said, self._dice = futures, dict.fromkeys(futures, 0), random.Random(3)

    def observe(self, rid: str, tokens: Sequence[int]) -> None:
        self._said[rid] += len(tokens)

    def start(self, request: DraftRequest) -> None:
        self._said[request.rid] = 0

    def propose(self, rid: str, max_tokens: int) -> list[Chain]:
        future = [*self._futures[rid][self._said[rid] :], *self._lies(3)][: self._dice.randint(1, 6)]
        lies = [(*future[:depth], *self._lies(2)) for depth in range(len(future))]
        chains = [*(self._dice.sample(lies, 1) if self._dice.random() < 0.3 else lies), tuple(future)]
        return [Chain(tuple(chain), (0.5,) * len(chain), self.origin) for chain in chains]

    def _lies(self, count: int) -> list[int]:
        return [self._dice.randrange(VOCABULARY) for _ in range(count)]


class Cache:
    """The pool of keys and values: what a slot holds is the token that was computed there."""

    def __init__(self, requests: int) -> None:
        length = len(PROMPT) + MOST_TOKENS + 2 * WIDTH
        self.tokens = torch.full((requests * length,), -1)
        self.req_to_token = torch.arange(requests * length, dtype=torch.int32).view(requests, length)
        self.tokens[self.req_to_token[:, : len(PROMPT)].long()] = torch.tensor(PROMPT)

    def get_kvcache(self) -> Cache:
        return self

    def move_kv_cache(self, to: torch.Tensor, source: torch.Tensor) -> None:
        self.tokens[to] = self.tokens[source].clone()


class TargetWorker:
    """SGLang's target worker with a FakeTarget in it."""

    model_config = SimpleNamespace(hf_config=PretrainedConfig(), linear_attn_registry_result=None)
    model_runner = SimpleNamespace(decode_cuda_graph_runner=None, model_config=model_config)

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def forward_batch_generation(self, batch: Any, *, is_verify: bool, capture_hidden_mode: Any, **_: Any) -> Any:
        assert is_verify
        assert capture_hidden_mode is None
        requests, width = len(batch.reqs), batch.spec_info.draft_token_num
        self._cache.tokens[batch.out_cache_loc] = batch.input_ids
        masks = batch.spec_info.custom_mask.view(requests, width, width)
        positions = batch.spec_info.positions.view(requests, width)
        slots = batch.out_cache_loc.view(requests, width)
        rows, states = [], []
        for i, index in enumerate(batch.req_pool_indices.tolist()):
            prefix = self._cache.tokens[self._cache.req_to_token[index, : batch.seq_lens[i]].long()].tolist()
            for node in range(width):
                seen = sorted(masks[i, node].nonzero().flatten().tolist(), key=lambda n: int(positions[i, n]))
                path = [*prefix, *self._cache.tokens[slots[i, seen]].tolist()]
                rows.append(logits_after(path))
                states.append(state_after(path))
        logits, hidden = torch.from_numpy(np.stack(rows)), torch.tensor(states)
        output = SimpleNamespace(next_token_logits=logits, hidden_states=hidden)
        return SimpleNamespace(logits_output=output, can_run_cuda_graph=False)


class RoundWorker(worker.SglSpecWorker):
    """The worker without what a server has around it."""

    def __init__(self, cache: Cache, drafter: Drafter) -> None:
        self._target_worker = TargetWorker(cache)
        self.width, self.device = WIDTH, "cpu"
        self.token_to_kv_pool_allocator = cache
        self.requests = RequestStates(DraftPlanner([drafter], DraftBudget(WIDTH - 1, 0.0), vocab_size=VOCABULARY))
        self.penalties = Penalties()
        self.head = NoHead()


def in_rounds(asked: Mapping[str, Asked], futures: Mapping[str, Sequence[int]]) -> dict[str, Answer]:
    """All requests in one batch, which three join before each round and which they leave as they end. Their first
    tokens come from a prefill: by `step`."""
    reqs = [request(rid, one) for rid, one in asked.items()]
    answers = {rid: no_answer() for rid in asked}
    cache = Cache(len(reqs))
    rounds = RoundWorker(cache, Prophet(futures))
    waiting, running = list(enumerate(reqs)), {}
    while waiting or running:
        for _ in range(min(3, len(waiting))):
            place, req = waiting.pop(0)
            step(req, Batch([req]), answers[req.rid])
            running[place] = req
        running = {place: req for place, req in running.items() if not req.finished()}
        if running:
            batch = Batch(list(running.values()))
            batch.req_pool_indices = torch.tensor(list(running))
            batch.req_to_token_pool = SimpleNamespace(req_to_token=cache.req_to_token)
            _settle(batch, rounds._decode_round(batch, None), answers)
    for req in reqs:
        rounds.note_request_finished(rid=req.rid, natural_stop=True)
        answers[req.rid] = answers[req.rid].ended(req, req.customized_info[FIELD][0:1][0])
    return answers


def _settle(batch: Batch, result: Any, answers: Mapping[str, Answer]) -> None:
    stride = result.speculative_num_draft_tokens
    tokens, output = result.next_token_ids.tolist(), result.logits_output
    for i, (req, length) in enumerate(zip(batch.reqs, result.accept_lens.tolist(), strict=True)):
        answer = answers[req.rid]
        if req.return_logprob:
            answer.logprobs.extend(output.next_token_logprobs[i, :length].tolist())
            rows = range(i * stride, i * stride + length)
            answer.top_logprobs.extend(output.next_token_top_logprobs_val[row].tolist() for row in rows)
            answer.chosen_logprobs.extend(output.next_token_token_ids_logprobs_val[row].tolist() for row in rows)
        answer.states.extend(output.hidden_states[i * stride : i * stride + length].tolist())
        take(req, tokens[i * stride : i * stride + length])
