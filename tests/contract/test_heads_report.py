"""The held-out report: simulated rounds against a slow twin, exported folders, and the command that makes them."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from sglang.srt.speculative import eagle_utils, spec_utils

from sgl_spec.cli import main
from sgl_spec.errors import ConfigError
from sgl_spec.heads.accept_walk import total, walk
from sgl_spec.heads.data_settings import DataSettings
from sgl_spec.heads.draft_vocabulary import DraftVocabulary, choose_vocabulary
from sgl_spec.heads.export import CONFIG_FILE, export_head, load_head
from sgl_spec.heads.model import Eagle3Head, HeadShape, KeysValues, attend
from sgl_spec.heads.packing import pack
from sgl_spec.heads.report import held_out_report, read_report, report_table, write_report
from sgl_spec.heads.sample_folder import SampleFolder
from sgl_spec.heads.samples import Sample, Shard, Span
from sgl_spec.heads.simulate import Simulator
from sgl_spec.heads.target import FrozenTarget
from sgl_spec.heads.tree_growth import TreeShape
from sgl_spec.heads.unroll import Teacher, Unroll
from tests.contract.heads_world import VOCABULARY, one_thread, samples, save_tiny_model  # noqa: F401

pytestmark = pytest.mark.usefixtures("one_thread")
FEW = 9  # tokens in the texts and in the draft vocabulary, so that random drafts are often right


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("target"))


@pytest.fixture(scope="module")
def target(model: Path) -> FrozenTarget:
    return FrozenTarget(model, torch.float32)


def _texts(count: int) -> list[Sample]:
    rng = random.Random(4)
    spans = (Span(4, 20), Span(23, 33))
    return [
        Sample(np.array([rng.randrange(FEW) for _ in range(34)]), spans, "chat", at, True, 0.0) for at in range(count)
    ]


def _head(target: FrozenTarget, tokens: int = FEW) -> Eagle3Head:
    torch.manual_seed(2)
    head = Eagle3Head(target.config, HeadShape(64, tokens))
    with torch.no_grad():
        for weight in head.parameters():
            weight.mul_(12 if weight.dim() == 2 else 1)  # confident, so that trees are deep and not only wide
    return head


def _branch(
    head: Eagle3Head, target: FrozenTarget, token: int, hidden: torch.Tensor, at: int
) -> tuple[torch.Tensor, KeysValues]:
    mixed = head.mix(target.embeddings[torch.tensor([token])], hidden)
    return mixed, head.keys_values(mixed, torch.tensor([at]))


def _slow_round(head: Eagle3Head, target: FrozenTarget, sample: Sample, row: int, shape: TreeShape) -> list[list[int]]:
    """The paths of the tree that SGLang would verify after this row, made branch by branch with SGLang's own selection.

    The draft vocabulary is the first tokens of the target's, so rows are tokens.
    """
    teacher = Teacher(target, DraftVocabulary(np.arange(FEW), VOCABULARY))
    batch = teacher.batch(pack([sample]))
    run = Unroll(head, target.embeddings, batch)
    first = run.first()
    at = batch.active.tolist().index(row)
    prefix = KeysValues(run.prefix.keys[: row + 1], run.prefix.values[: row + 1])
    hidden, logits = first.hidden[at : at + 1], first.logits[at : at + 1]
    slots: list[list[KeysValues]] = [[] for _ in range(shape.topk)]
    scores, lists = None, ([], [], [])
    for step in range(shape.steps):
        likely, tokens = torch.softmax(logits, -1).topk(shape.topk, dim=-1)
        ids, hidden, scores, info = spec_utils.select_top_k_tokens(step, likely, tokens, hidden, scores, shape.topk)
        for kept, part in zip(lists, info, strict=True):
            kept.append(part)
        drafts = []
        for branch in range(shape.topk):
            mixed, made = _branch(head, target, int(ids[branch]), hidden[branch : branch + 1], row + 1 + step)
            slots[branch].append(made)
            queries = head.queries(mixed, torch.tensor([row + 1 + step]))
            found = attend(queries, prefix, torch.tensor([row + 1]), slots[branch])
            drafts.append(head.finish(hidden[branch : branch + 1], found))
        hidden, logits = (torch.cat([getattr(draft, name) for draft in drafts]) for name in ("hidden", "logits"))
    parents, chosen, drafted = (part[0].tolist() for part in eagle_utils.organize_draft_results(*lists, shape.nodes))
    return [_path(number, parents, chosen, drafted, shape.topk) for number in range(len(chosen))]


def _path(number: int, parents: list[int], chosen: list[int], drafted: list[int], topk: int) -> list[int]:
    """The tokens from the root to a node, as SGLang's tree builder reads these lists: candidates in groups, each the
    children of the candidate that `parents` names for it (-1 is the root)."""
    parent = parents[chosen[number] // topk]
    before = [] if parent == -1 else _path(chosen.index(parent), parents, chosen, drafted, topk)
    return [*before, drafted[number]]


@pytest.mark.parametrize("shape", [TreeShape(4, 4, 16), TreeShape(3, 2, 6)])
def test_simulated_rounds_are_those_of_a_slow_twin(target: FrozenTarget, shape: TreeShape) -> None:
    head, deepest = _head(target), 0
    simulator = Simulator(
        head,
        DraftVocabulary(np.arange(FEW), VOCABULARY),
        Teacher(target, DraftVocabulary(np.arange(FEW), VOCABULARY)),
        shape,
    )
    for sample in _texts(3):
        slow = []
        with torch.no_grad(), torch.compiler.set_stance("force_eager"):
            for span in sample.spans:
                accepted = []
                for row in range(span.start - 1, span.end - 2):
                    truth = sample.ids[row + 2 : span.end].tolist()
                    paths = _slow_round(head, target, sample, row, shape)
                    accepted.append(max((len(path) for path in paths if truth[: len(path)] == path), default=0))
                slow.append(walk(accepted))
                deepest = max(deepest, *accepted)
        assert simulator.run(sample).tree == total(slow)
    assert deepest >= 2, "the texts must reach below the root's children"


def test_a_chain_is_the_first_guess_after_the_first_guess(target: FrozenTarget) -> None:
    head, vocabulary = _head(target), DraftVocabulary(np.arange(FEW), VOCABULARY)
    chain = Simulator(head, vocabulary, Teacher(target, vocabulary), TreeShape(4, 1, 5))
    results = [chain.run(sample) for sample in _texts(6)]
    assert all(result.chain == result.tree for result in results)
    assert total(result.chain for result in results).tokens_per_round > 1.0


def test_a_report_of_an_exported_head(model: Path, tmp_path: Path) -> None:
    target = FrozenTarget(model)
    held_out = [
        *_texts(4),
        *(text._replace(kind="math") for text in _texts(2)),
        *(t._replace(temperature=0.7) for t in _texts(1)),
    ]
    vocabulary = choose_vocabulary(held_out, FEW, VOCABULARY)
    export_head(tmp_path, _head(target), vocabulary, target.config)
    seen: list[tuple[int, int]] = []
    report = held_out_report(tmp_path, target, held_out, TreeShape(), lambda *at: seen.append(at))
    assert [(kind.kind, kind.texts) for kind in report.kinds] == [("chat", 4), ("math", 2), ("all", 6)]
    assert seen[-1] == (6, 6)
    assert report.covered == 1.0
    assert all(1 <= kind.chain <= kind.tree <= 5 for kind in report.kinds)
    write_report(tmp_path, report)
    assert read_report(tmp_path) == report
    assert "| math | 2 |" in report_table(report)
    with pytest.raises(ConfigError, match="no sample was kept out of training and answered greedily"):
        held_out_report(tmp_path, target, held_out[-1:], TreeShape())


def test_an_exported_head_is_read_back(target: FrozenTarget, tmp_path: Path) -> None:
    head = _head(target)
    size = export_head(tmp_path, head, choose_vocabulary(samples(5), FEW, VOCABULARY), target.config)
    assert size == (tmp_path / "model.safetensors").stat().st_size < 2.2 * sum(w.numel() for w in head.parameters())
    again = load_head(tmp_path, target.config)
    for name, weight in head.named_parameters():
        assert torch.equal(weight.bfloat16().float(), again.head.get_parameter(name))
    assert again.vocabulary.tokens.tolist() == choose_vocabulary(samples(5), FEW, VOCABULARY).tokens.tolist()
    (tmp_path / CONFIG_FILE).write_text("{}")
    with pytest.raises(ConfigError, match="holds no head for this target: KeyError"):
        load_head(tmp_path, target.config)
    assert read_report(tmp_path) is None


def _data(folder: Path, model: Path) -> None:
    made = SampleFolder.create(folder, DataSettings(model.name, VOCABULARY))
    texts = [text._replace(held_out=text.number % 3 == 0) for text in _texts(12)]
    made.append(Shard(tuple(texts), 12))


def _words(out: Path, model: Path, *more: str) -> list[str]:
    sizes = [
        "--tokens",
        "200",
        "--steps",
        "3",
        "--tokens-per-step",
        "90",
        "--draft-vocabulary",
        "40",
        "--dtype",
        "float32",
    ]
    return ["train-head", "--out", str(out), "--model-path", str(model), *sizes, *more]


def test_the_command_makes_a_head(tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All stages, with data that is there already."""
    _data(tmp_path / "data", model)
    words = _words(tmp_path, model)
    assert main(words) == 0
    head = tmp_path / "head"
    assert {path.name for path in head.iterdir()} == {
        "config.json", "model.safetensors", "README.md", "loss.svg", "right.svg", "report.json",
    }  # fmt: skip
    card = (head / "README.md").read_text()
    command = f"sgl-spec train-head --out DIR --model-path {model.name} --tokens 200 --steps 3 --seed 0"
    assert f"{command} --tokens-per-step 90 --draft-vocabulary 40 --dtype float32" in card
    assert "| chat | 8 | " in card
    assert "| all | 4 | " in card
    assert "| all | 4 | " in capsys.readouterr().out

    assert main(words) == 2
    assert "holds a checkpoint; add --resume to go on" in capsys.readouterr().err
    assert main([*words, "--resume"]) == 0, "nothing is left to do"
    assert main([*words, "--resume", "--draft-steps", "2"]) == 2
    assert "draft_steps is 4 there and 2 here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--stage", "train"), "holds no samples (there is no settings.json)"),
        (("--stage", "export"), "there is no checkpoint; train with --stage train"),
        (("--stage", "data", "--seed", "3"), "seed is 0 there and 3 here"),
        (("--stage", "data", "--tokens", "5000"), "of 5000 answer tokens; add --resume"),
        (("--stage", "train", "--dtype", "int8"), "--dtype is int8"),
        (("--stage", "train", "--draft-vocabulary", "301"), "draft_vocabulary = 301"),
        (("--stage", "report"), "holds no head for this target"),
    ],
)
def test_the_command_says_what_is_wrong(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...], said: str
) -> None:
    if "no samples" not in said:
        _data(tmp_path / "data", model)
    assert main(_words(tmp_path, model, *more)) == 2
    assert said in capsys.readouterr().err
