"""All that requests ask of their logits, together, at every node: the bits of decoding alone by SGLang's own code, for
grammars of both backends, biases, penalties and custom processors beside each other."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from grammar_world import BACKENDS, CODEC, compiled, mask_of
from penalty_world import Batch, Request, alone, path_of, random_logits, same_bits, sampling_info
from sglang.srt.sampling.sampling_batch_info import ProcessorEntry

from sgl_spec.drafting.flat_tree import FlatTree, flatten
from sgl_spec.drafting.tree import Chain, DraftTree
from sgl_spec.server.logits import process_logits
from sgl_spec.server.penalties import Penalties

VOCABULARY = CODEC.vocab_size
WIDTH = 10
PENALTIES: tuple[dict[str, Any], ...] = (
    {},
    {"repetition_penalty": 1.3, "min_new_tokens": 9},
    {"frequency_penalty": 0.4, "presence_penalty": -0.2},
)


def random_tree(dice: random.Random, root: int, grammar: Any) -> FlatTree:
    """Chains of which most tokens are such as the grammar allows; without a grammar, any."""
    tree = DraftTree(root)
    for _ in range(3):
        tokens: list[int] = []
        here = None if grammar is None else grammar.copy()
        while len(tokens) < 3:
            allowed = range(VOCABULARY) if here is None or here.is_terminated() else sorted(mask_of(here))
            tokens.append(dice.choice(allowed) if dice.random() < 0.8 else dice.randrange(VOCABULARY))
            if here is None or here.is_terminated() or tokens[-1] not in allowed:
                break
            here.accept_token(tokens[-1])
        tree.graft(Chain(tuple(tokens), (0.1,) * len(tokens), "test"))
    return flatten(tree, WIDTH)


def grammar_at(grammar: Any, path: Sequence[int]) -> Any:
    """The grammar after `path`, or None where it does not go that way: no run gets there."""
    here = grammar.copy()
    for token in path:
        if here.is_terminated() or token not in mask_of(here):
            return None
        here.accept_token(token)
    return here


def bias_row(bias: dict[int, float]) -> torch.Tensor:
    row = torch.zeros(VOCABULARY)
    for token, value in bias.items():
        row[token] = value
    return row


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", ["regex", "array", "enums"])
def test_every_node_has_the_bits_of_decoding_alone(backend: str, case: str) -> None:
    dice = random.Random(f"{backend} {case}")
    grammars = [compiled(backend, case), None, compiled(backend, case)]
    outputs = [dice.choices(range(VOCABULARY), k=6) for _ in grammars]
    reqs = [Request(o, g, **p) for o, g, p in zip(outputs, grammars, PENALTIES, strict=True)]
    trees = [random_tree(dice, o[-1], g) for o, g in zip(outputs, grammars, strict=True)]
    bias = torch.stack([bias_row({dice.randrange(VOCABULARY): dice.uniform(-9, 9) for _ in range(5)}) for _ in reqs])
    before = random_logits(dice.randrange(999), len(reqs) * WIDTH, VOCABULARY)
    after = before.clone()
    process_logits(Batch(reqs, sampling_info(reqs, VOCABULARY, logit_bias=bias)), trees, after, Penalties())
    seen = masked = 0
    for i, (req, tree) in enumerate(zip(reqs, trees, strict=True)):
        for node in range(tree.size):
            path = path_of(tree, node)
            grammar = None if req.grammar is None else grammar_at(req.grammar, path)
            if req.grammar is not None and grammar is None:
                continue
            rules = None if grammar is None else [grammar]
            row = i * WIDTH + node
            wanted = alone(req, [*req.output_ids, *path], before[row], grammars=rules, logit_bias=bias[i : i + 1])
            assert same_bits(after[row], wanted)
            seen, masked = seen + (node > 0), masked + bool(wanted.isneginf().sum() > 5)
    assert seen > 8
    assert masked > 4


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_infinite_bias_lifts_no_mask(backend: str) -> None:
    grammar = compiled(backend, "regex")
    allowed = mask_of(grammar)
    forbidden = min(set(range(VOCABULARY)) - allowed)
    reqs = [Request([5], grammar)]
    info = sampling_info(reqs, VOCABULARY, logit_bias=bias_row({forbidden: math.inf})[None])
    logits = random_logits(0, 1, VOCABULARY)
    process_logits(Batch(reqs, info), [flatten(DraftTree(5), 1)], logits, Penalties())
    assert not logits.isnan().any()
    assert int(logits.argmax()) in allowed
    assert bool(logits[0, forbidden].isneginf())


class Recorder:
    """A custom processor that keeps what it was given."""

    def __init__(self) -> None:
        self.calls: list[tuple[torch.Tensor, Any]] = []

    def __call__(self, logits: torch.Tensor, params: Any) -> torch.Tensor:
        self.calls.append((logits.clone(), params))
        return logits + 1.0


def test_a_custom_processor_is_called_once_with_its_own_root_last_of_all() -> None:
    """It sees the penalised and biased logits, and no row but those of who asked for it."""
    reqs = [Request([7]), Request([7], frequency_penalty=1.5), Request([7])]
    params = [None, {"mine": 1}, None]
    processor = Recorder()
    info = sampling_info(
        reqs, VOCABULARY, logit_bias=torch.stack([bias_row({9: 2.0})] * 3), has_custom_logit_processor=True,
        custom_params=params, custom_logit_processor={0: ProcessorEntry(processor, [1], torch.tensor([1]))},
    )  # fmt: skip
    tree = DraftTree(7)
    tree.graft(Chain((3, 4), (0.5, 0.5), "test"))
    trees = [flatten(tree, 3), flatten(DraftTree(7), 3), flatten(tree, 3)]
    before = random_logits(3, 9, VOCABULARY)
    after = before.clone()
    process_logits(Batch(reqs, info), trees, after, Penalties())
    ((seen, given),) = processor.calls
    root = alone(reqs[1], [7], before[3], logit_bias=bias_row({9: 2.0})[None])
    assert same_bits(seen[0], root)
    assert given == [{"mine": 1}]
    assert same_bits(after[3], root + 1.0)
    for row in (0, 1, 2, 6, 7, 8):
        assert same_bits(after[row], before[row] + bias_row({9: 2.0}))


def test_nobody_asks_for_anything() -> None:
    reqs, before = [Request([7])] * 2, random_logits(3, 4, VOCABULARY)
    after = before.clone()
    process_logits(Batch(reqs, sampling_info(reqs, VOCABULARY)), [flatten(DraftTree(7), 2)] * 2, after, Penalties())
    assert same_bits(before, after)
