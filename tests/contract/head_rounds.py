"""Run by test_head_rounds.py: `python head_rounds.py stock|ours|itself FOLDER`; prints one JSON line.

FOLDER is what tiny_models.py made. "stock" is SGLang's own EAGLE3, "ours" is SGL_SPEC with the same head, "itself" is
SGL_SPEC with the target as its own small draft model.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

LENGTHS = (48, 48, 48, 48, 20, 90)
SAMPLED = {"temperature": 0.8, "sampling_seed": 11, "top_p": 0.95}
TREES = {"speculative_num_steps": 4, "speculative_eagle_topk": 4, "speculative_num_draft_tokens": 16}
HEAD_ALONE = {"version": 1, "origins": ["eagle"]}
OFF = {"version": 1, "off": True}
# Everything the head finds is verified, and the head is asked whenever it may be: what stock EAGLE does.
CONFIG = {"min_gain": 0.0, "adaptive": False, "drafters": ["head_oracle:Oracle"]}


def prompts() -> list[list[int]]:
    """Some begin alike; the longer ones are prefilled in chunks."""
    rng = random.Random(1)
    common = [rng.randrange(2, 256) for _ in range(30)]
    return [common[: rng.randrange(30)] + [rng.randrange(2, 256) for _ in range(rng.randrange(3, 90))] for _ in LENGTHS]


def _engine(algorithm: str, folder: str, draft: str = "head", **arguments: Any) -> Any:
    from scheduler_harness import Engine

    return Engine(
        f"{folder}/target", speculative_algorithm=algorithm, speculative_draft_model_path=f"{folder}/{draft}",
        chunked_prefill_size=64, **TREES, **arguments,
    )  # fmt: skip


def stock(folder: str) -> dict[str, Any]:
    engine = _engine("EAGLE3", folder, speculative_draft_attention_backend="intel_amx")
    for i, prompt in enumerate(prompts()):
        engine.submit(f"r{i}", prompt, LENGTHS[i])
    engine.run()
    return {"rounds": engine.rounds}


class Ours:
    """Our engine, and what the head's part of the KV pool held for every request when it ended."""

    def __init__(self, folder: str) -> None:
        self.engine = _engine("SGL_SPEC", folder)
        self.head = self.engine.scheduler.draft_worker.head
        self.keys: dict[str, Any] = {}
        self._finish: Callable[[Any], None] = self.head.finish
        self.head.finish = self._kept

    def _kept(self, req: Any) -> None:
        self._finish(req)
        runner = self.head.draft_worker.draft_runner
        rows = len(req.origin_input_ids) + len(req.output_ids) - 2
        slots = runner.req_to_token_pool.req_to_token[req.kv.req_pool_idx, :rows].long()
        self.keys[req.rid] = [
            buffer[0][slots] for buffer in (runner.token_to_kv_pool.k_buffer, runner.token_to_kv_pool.v_buffer)
        ]

    @contextmanager
    def head_asked(self, asked: Callable[[], bool]) -> Iterator[list[int]]:
        """`asked` decides instead of the rule; yields the rows of every span the head is given."""
        given: list[int] = []
        drafter, worker = self.head._head._drafter, self.head.draft_worker
        steps, extend = drafter.steps, worker.extend
        drafter.steps = lambda round_, most, load: [most * asked() for _ in round_]
        worker.extend = lambda spans: (given.extend(len(span.tokens) for span in spans), extend(spans))[1]
        yield given
        drafter.steps, worker.extend = steps, extend

    def answers(self, name: str, hint: Any = None, joins: int = 0) -> dict[str, list[int]]:
        """Greedy and sampled requests, all at once or one every `joins` steps; the cache is empty before and after."""
        reqs = []
        for i, prompt in enumerate(prompts()):
            sampling = SAMPLED if i in (2, 5) else {}
            reqs.append(self.engine.submit(f"{name}{i}", prompt, LENGTHS[i], hint, **sampling))
            for _ in range(joins):
                self.engine.step()
        self.engine.run()
        assert not self.head.failing
        self.engine.forget_prefixes()
        self.accounts = [req.customized_info["sgl_spec"][-1] for req in reqs]
        return {req.rid[len(name) :]: list(req.output_ids) for req in reqs}

    def differing_rows(self, one: str, other: str) -> int:
        """Rows whose keys or values differ by a bit, over all requests of two runs."""
        pairs = [(self.keys[f"{one}{i}"], self.keys[f"{other}{i}"]) for i in range(len(LENGTHS))]
        return sum(int((a != b).flatten(1).any(1).sum()) for two in pairs for a, b in zip(*two, strict=True))

    def conversation(self) -> list[tuple[int, int]]:
        """Each prompt is the last one, its answer and a little more: tokens of the last, cached tokens of the next."""
        prompt, found, before = prompts()[0], [], 0
        for turn in range(4):
            req = self.engine.submit(f"turn{turn}", prompt, 20)
            self.engine.run()
            found.append((before, req.cached_tokens))
            before = len(prompt) + len(req.output_ids)
            prompt = [*prompt, *req.output_ids, 7, 8, 9]
        self.engine.forget_prefixes()
        return found[1:]


def ours(folder: str) -> dict[str, Any]:
    import head_oracle

    run = Ours(folder)
    for i, prompt in enumerate(prompts()):
        run.engine.submit(f"alone{i}", prompt, LENGTHS[i], HEAD_ALONE)
    run.engine.run()
    run.engine.forget_prefixes()
    rounds = {rid.replace("alone", "r"): lengths for rid, lengths in run.engine.rounds.items()}
    off = run.answers("off", OFF)
    always = run.answers("always")
    head_oracle.ANSWERS.update({tuple(p): off[str(i)] for i, p in enumerate(prompts())})
    rng = random.Random(3)
    with run.head_asked(lambda: rng.random() < 0.25) as given:
        seldom = run.answers("seldom", joins=3)
        accounts = run.accounts
    with run.head_asked(lambda: False) as unasked:
        never = run.answers("never")
    head_oracle.ANSWERS.clear()
    return {
        "rounds": rounds, "off": off, "always": always, "seldom": seldom, "never": never,
        "accepted_of_others": sum(account["accepted"].get("oracle", 0) for account in accounts),
        "accepted_of_the_head": sum(account["accepted"].get("eagle", 0) for account in accounts),
        "given": given, "unasked": unasked, "rows": sum(len(k) for (k, _) in run.keys.values()),
        "differing": {name: run.differing_rows("always", name) for name in ("off", "seldom", "never")},
        "conversation": run.conversation(),
    }  # fmt: skip


def itself(folder: str) -> dict[str, Any]:
    """How far the logarithms of the scores of candidates are from those the target gives their paths, by depth."""
    import torch
    from transformers import LlamaForCausalLM

    engine, grown = _engine("SGL_SPEC", folder, draft="target"), []
    worker = engine.scheduler.draft_worker.head.draft_worker
    grow = worker.grow

    def kept(spans: Any, first: Any, steps: int) -> Any:
        found = grow(spans, first, steps)
        texts = [[*span.req.origin_input_ids, *span.req.output_ids] for span in spans]
        grown.extend(zip(texts, found, strict=True))
        return found

    worker.grow = kept
    for i, prompt in enumerate(prompts()[:3]):
        engine.submit(f"r{i}", prompt, 8, HEAD_ALONE)
    engine.run()
    model = LlamaForCausalLM.from_pretrained(f"{folder}/target", dtype=torch.bfloat16).eval()
    errors: dict[int, list[float]] = {}
    for text, candidates in grown[::3]:
        paths: list[list[int]] = []
        for token, parent in zip(candidates.tokens.tolist(), candidates.parents.tolist(), strict=True):
            paths.append([*(paths[parent] if parent >= 0 else []), token])
        for path, score in zip(paths, candidates.scores.tolist(), strict=True):
            with torch.no_grad():
                logits = model(torch.tensor([text + path])).logits[0, len(text) - 1 : -1].float()
            own = torch.log_softmax(logits, -1).gather(1, torch.tensor(path)[:, None]).sum()
            errors.setdefault(len(path), []).append(abs(float(own - torch.tensor(score).log())))
    return {"errors": errors, "rounds": engine.rounds}


if __name__ == "__main__":
    os.environ["SGLSPEC_CONFIG"] = json.dumps(CONFIG)
    os.environ["SGLANG_USE_CPU_ENGINE"] = "1"
    print(json.dumps({"stock": stock, "ours": ours, "itself": itself}[sys.argv[1]](sys.argv[2])))
