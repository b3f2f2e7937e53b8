"""A head and its target against SGLang's own classes: the same hidden states captured, the same logits computed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig

from sgl_spec.heads.draft_vocabulary import choose_vocabulary
from sgl_spec.heads.export import export_head, load_head
from sgl_spec.heads.model import Draft, Eagle3Head, HeadShape, KeysValues
from sgl_spec.heads.packing import pack
from sgl_spec.heads.samples import Sample
from sgl_spec.heads.target import FrozenTarget, captured_layers
from sgl_spec.heads.tree_growth import TreeGrowth, TreeShape
from sgl_spec.heads.unroll import Teacher, Unroll
from tests.contract.heads_world import LAYERS, VOCABULARY, Extend, samples, save_tiny_model, sglang_models

SHAPE = HeadShape(inner=72, draft_vocabulary=90)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("target"))


@pytest.fixture(scope="module")
def sglang(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with sglang_models(folder, tmp_path_factory.mktemp("sglang")):
        yield


@pytest.fixture(scope="module")
def target(folder: Path) -> FrozenTarget:
    return FrozenTarget(folder, torch.float32)


@pytest.fixture(scope="module")
def exported(target: FrozenTarget, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random head whose weights are bfloat16 numbers, so that nothing is lost in its file."""
    torch.manual_seed(3)
    head = Eagle3Head(target.config, SHAPE)
    with torch.no_grad():
        for weight in head.parameters():
            weight.copy_((torch.randn_like(weight) * 0.3 + (weight.dim() == 1)).bfloat16())
    path = tmp_path_factory.mktemp("head")
    export_head(path, head, choose_vocabulary(samples(9), SHAPE.draft_vocabulary, VOCABULARY), target.config)
    return path


def _one() -> Sample:
    return max(samples(9), key=lambda sample: len(sample.ids))


def _inputs(sample: Sample) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.from_numpy(sample.ids), torch.arange(len(sample.ids))


@pytest.mark.usefixtures("sglang")
def test_the_target_gives_what_sglang_captures(folder: Path, target: FrozenTarget) -> None:
    from sglang.srt.models.llama import LlamaForCausalLM

    stock = LlamaForCausalLM(AutoConfig.from_pretrained(folder))
    stock.load_weights(load_file(folder / "model.safetensors").items())
    stock.set_eagle3_layers_to_capture()
    assert tuple(stock.model.layers_to_capture) == captured_layers(LAYERS)
    sample = _one()
    last, captured = stock.model(*_inputs(sample), Extend())

    packed = pack([*samples(2, seed=8), sample])  # the neighbours in the batch make no difference
    features = target.features(packed)
    rows = slice(packed.cuts[2], packed.cuts[3])
    torch.testing.assert_close(features.fused[rows], torch.cat(captured, -1), rtol=1e-4, atol=1e-4)
    trained = torch.from_numpy(packed.active[packed.active_cuts[2] :] - packed.cuts[2])
    torch.testing.assert_close(features.final[packed.active_cuts[2] :], last[trained + 1], rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("sglang")
def test_the_exported_layers_are_those_sglang_captures(folder: Path, exported: Path) -> None:
    from sglang.srt.models.llama import LlamaForCausalLM

    stock = LlamaForCausalLM(AutoConfig.from_pretrained(folder))
    written = AutoConfig.from_pretrained(exported).eagle_config["eagle_aux_hidden_state_layer_ids"]
    stock.set_eagle3_layers_to_capture(written)
    assert tuple(stock.model.layers_to_capture) == captured_layers(LAYERS)


@pytest.fixture(scope="module")
def stock_head(sglang: None, exported: Path, target: FrozenTarget) -> Any:
    """The exported folder in SGLang's class, loaded as its loader does and with the target's embedding."""
    from sglang.srt.models.llama_eagle3 import LlamaForCausalLMEagle3

    head = LlamaForCausalLMEagle3(AutoConfig.from_pretrained(exported))
    for weight in head.parameters():
        weight.data.fill_(float("nan"))  # what the file does not hold would show
    head.load_weights(load_file(exported / "model.safetensors").items())
    head.model.embed_tokens.weight.data = target.embeddings
    return head


def _stock_logits(stock: Any, ids: torch.Tensor, positions: torch.Tensor, hidden: torch.Tensor) -> Draft:
    normed, (carried,) = stock.model(ids, positions, Extend(spec_info=SimpleNamespace(hidden_states=hidden)))
    # SGLang pads the rows of its output layer.
    return Draft(carried, normed @ stock.lm_head.weight[: SHAPE.draft_vocabulary].T)


def test_sglangs_head_gives_our_logits(stock_head: Any, exported: Path, target: FrozenTarget) -> None:
    """Step 0 over a whole text, fed as the EAGLE worker feeds a prefill: ids shifted by one, positions as they are."""
    ids, positions = _inputs(_one())
    loaded = load_head(exported, target.config)
    assert stock_head.hot_token_id.tolist() == loaded.vocabulary.tokens.tolist()
    fused = torch.randn(len(ids), 3 * target.config.hidden_size)
    stock = _stock_logits(stock_head, ids.roll(-1), positions, fused)

    packed = pack([_one()])
    batch = Teacher(target, loaded.vocabulary).batch(packed)._replace(fused=fused)
    ours = Unroll(loaded.head, target.embeddings, batch).first()
    torch.testing.assert_close(ours.logits, stock.logits[batch.active], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(ours.hidden, stock.hidden[batch.active], rtol=1e-4, atol=1e-4)


def test_a_later_draft_step_gives_our_logits(stock_head: Any, exported: Path, target: FrozenTarget) -> None:
    """Steps 1 and 2 after one row: SGLang runs them as further tokens, fed with the states of the step before."""
    packed = pack([_one()])
    loaded = load_head(exported, target.config)
    batch = Teacher(target, loaded.vocabulary).batch(packed)
    run = Unroll(loaded.head, target.embeddings, batch)
    ours = [run.first()]
    ours += [run.next(ours[-1])]
    ours += [run.next(ours[-1])]
    at = 4  # of the trained rows
    row = int(batch.active[at])
    states = stock_head.model.fc(batch.fused[: row + 1])
    for step in range(3):
        length = row + 1 + step
        stock = _stock_logits(stock_head, batch.ids[1 : length + 1], torch.arange(length), states)
        torch.testing.assert_close(ours[step].logits[at], stock.logits[-1], rtol=1e-3, atol=1e-3)
        # The next step of SGLang is fed with this step's state; earlier keys stay as they were made.
        states = torch.cat([states, stock.hidden[-1:]])


@pytest.mark.parametrize("shape", [TreeShape(4, 4, 16), TreeShape(3, 2, 6), TreeShape(5, 3, 30)])
def test_trees_grow_as_sglangs(shape: TreeShape) -> None:
    """The same nodes in the same order, and the same parents."""
    from sglang.srt.speculative import eagle_utils, spec_utils

    torch.manual_seed(shape.nodes)
    roots, vocabulary = 7, 40
    probabilities = [
        torch.rand(roots, *(() if step == 0 else (shape.topk,)), vocabulary) ** 6 for step in range(shape.steps)
    ]
    probabilities = [p / p.sum(-1, keepdim=True) for p in probabilities]
    growth = TreeGrowth(shape)
    branches = [growth.first(probabilities[0]), *(growth.extend(p) for p in probabilities[1:])]

    lists: list[list[torch.Tensor]] = [[], [], []]
    hidden, scores = torch.zeros(roots, 1), None
    with torch.compiler.set_stance("force_eager"):
        for step, p in enumerate(probabilities):
            likely, tokens = p.reshape(-1, vocabulary).topk(shape.topk, dim=-1)
            ids, hidden, scores, info = spec_utils.select_top_k_tokens(step, likely, tokens, hidden, scores, shape.topk)
            assert ids.tolist() == branches[step].tokens.flatten().tolist()
            for kept, part in zip(lists, info, strict=True):
                kept.append(part)
    _, chosen, drafted = eagle_utils.organize_draft_results(*lists, shape.nodes)
    kept = torch.cat(growth.selected(), dim=1)
    assert [torch.nonzero(row).flatten().tolist() for row in kept] == chosen.tolist()
    ours = torch.cat(growth._tokens, dim=1)
    assert ours.gather(1, chosen).tolist() == drafted.tolist()


def test_keys_and_values_are_named_apart(exported: Path, target: FrozenTarget) -> None:
    """A guard of the two tests above: swapping them would pass if both were alike."""
    head = load_head(exported, target.config).head
    made = head.keys_values(torch.randn(3, 2 * target.config.hidden_size), torch.arange(3))
    assert isinstance(made, KeysValues)
    assert not torch.allclose(made.keys, made.values, atol=0.1)
