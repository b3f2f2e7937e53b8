"""Whole generations over a fake target: alone, and in rounds of draft, verify, accept. Both must agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sgl_spec.drafting.acceptance import Acceptance, accept_greedy, accept_sampled, sample_token
from sgl_spec.drafting.drafter import DraftRequest
from sgl_spec.drafting.flat_tree import FlatTree, flatten
from sgl_spec.drafting.planner import DraftPlanner
from sgl_spec.drafting.stats import SpecStats
from sgl_spec.testing.fake_target import FakeTarget


class Sampling(NamedTuple):
    """How a request samples; temperature 0 is greedy."""

    seed: int = 0
    temperature: float = 0.0
    top_k: int = -1
    top_p: float = 1.0
    min_p: float = 0.0


class Generation(NamedTuple):
    """Generated tokens and the counts of the rounds that made them."""

    tokens: list[int]
    stats: SpecStats


def decode_alone(target: FakeTarget, prompt: Sequence[int], n_tokens: int, sampling: Sampling) -> list[int]:
    """Plain decoding, one token a step."""
    text = list(prompt)
    for _ in range(n_tokens):
        text.append(sample_token(target.logits(text), sampling.seed, len(text), *sampling[1:]))
    return text[len(prompt) :]


def decode_in_rounds(
    target: FakeTarget,
    planner: DraftPlanner,
    prompt: Sequence[int],
    n_tokens: int,
    sampling: Sampling,
    width: int,
) -> Generation:
    """The same as decode_alone, speculatively: `planner` drafts trees of at most `width` nodes.

    The first token comes from the prefill, as on a server.
    """
    rid = "generation"
    planner.start(DraftRequest(rid, prompt))
    text = [*prompt, *decode_alone(target, prompt, min(n_tokens, 1), sampling)]
    planner.observe(rid, text[len(prompt) :])
    while (room := len(prompt) + n_tokens - len(text)) > 0:
        tree = planner.plan(rid, text[-1], room).tree
        acceptance = _verify(target, flatten(tree, width), text, sampling)
        planner.commit(rid, tree, acceptance, acceptance.tokens)
        text.extend(acceptance.tokens)
    stats = planner.stats(rid)
    planner.stop(rid)
    return Generation(text[len(prompt) :], stats)


def _verify(target: FakeTarget, flat: FlatTree, text: list[int], sampling: Sampling) -> Acceptance:
    logits = target.tree_logits(text, flat)
    if sampling.temperature == 0.0:
        return accept_greedy(flat, logits.argmax(axis=1))
    return accept_sampled(flat, logits, sampling.seed, len(text), *sampling[1:])
