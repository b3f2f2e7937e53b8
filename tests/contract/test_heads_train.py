"""Training: deterministic, resumable, and it learns; its loss is the one a slow twin computes."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from sgl_spec.errors import ConfigError
from sgl_spec.heads.checkpoint import CHECKPOINT_FILE, load
from sgl_spec.heads.draft_vocabulary import choose_vocabulary
from sgl_spec.heads.kept_features import KeptFeatures
from sgl_spec.heads.model import Eagle3Head, HeadShape
from sgl_spec.heads.packing import pack
from sgl_spec.heads.sample_folder import Split
from sgl_spec.heads.samples import Sample
from sgl_spec.heads.soft_cross_entropy import soft_cross_entropy
from sgl_spec.heads.target import FrozenTarget
from sgl_spec.heads.train import Reached, Trainer, learning_rate, mean_results, weighted_loss
from sgl_spec.heads.train_log import TrainLog
from sgl_spec.heads.train_settings import TrainSettings
from sgl_spec.heads.unroll import Teacher, Unroll, unrolled
from tests.contract.heads_world import VOCABULARY, one_thread, samples, save_tiny_model  # noqa: F401

SETTINGS = TrainSettings(
    steps=8, tokens_per_step=160, draft_vocabulary=120, inner=80, warmup_steps=2, learning_rate=3e-3, dtype="float32"
)
pytestmark = pytest.mark.usefixtures("one_thread")
SPLIT = Split(samples(24), samples(6, seed=9, held_out=True))


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> FrozenTarget:
    return FrozenTarget(save_tiny_model(tmp_path_factory.mktemp("target")), torch.float32)


def _losses(folder: Path, target: FrozenTarget, settings: TrainSettings, **how: Any) -> list[float]:
    """Trains in `folder`; the loss of every step run now."""
    until = how.pop("until", None)
    reached: list[Reached] = []
    Trainer(folder, target, SPLIT, settings, **how).run(reached.append, until)
    return [one.means.loss for one in reached]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_same_seed_gives_the_same_curve_also_after_a_stop(tmp_path: Path, target: FrozenTarget, dtype: str) -> None:
    if dtype == "bfloat16":
        target = FrozenTarget(save_tiny_model(tmp_path / "model"))
    settings = replace(SETTINGS, dtype=dtype, steps=5)
    once, twice, other = tmp_path / "once", tmp_path / "twice", tmp_path / "other"
    curve = _losses(once, target, settings)
    stopped = _losses(twice, target, settings, until=3)
    resumed = _losses(twice, target, settings, resume=True)
    assert len(curve) == settings.steps
    assert stopped + resumed == curve, "to the bit"
    assert curve != _losses(other, target, replace(settings, seed=1))
    # With the target's states kept on disk: those of the first epoch are read in the second, also by a resumed run.
    kept = _losses(tmp_path / "kept", target, settings, keep=True, until=4)
    kept += _losses(tmp_path / "kept", target, settings, keep=True, resume=True)
    assert kept == pytest.approx(curve, rel=1e-6 if dtype == "float32" else 2e-3)
    one, two = load(once), load(twice)
    assert all(torch.equal(one.head[name], two.head[name]) for name in one.head)
    logs = [[{**entry, "seconds": 0} for entry in TrainLog(folder).entries()] for folder in (once, twice)]
    assert logs[0] == logs[1]
    assert [entry["step"] for entry in logs[0] if "held_out" in entry] == [0, 5]


def test_a_head_learns(tmp_path: Path, target: FrozenTarget) -> None:
    """A few texts by heart: every draft step finds the target's first choice nearly always."""
    reached: list[Reached] = []
    settings = replace(SETTINGS, steps=50, learning_rate=1e-2)
    Trainer(tmp_path, target, Split(SPLIT.train[:5], SPLIT.held_out[:1]), settings).run(reached.append)
    first, last = reached[0].means, reached[-1].means
    assert last.loss < first.loss - 1
    assert max(first.right) < 0.4  # it starts from the target's last layer, which knows a little
    assert min(last.right) > 0.8


def test_other_settings_or_data_do_not_go_on(tmp_path: Path, target: FrozenTarget) -> None:
    with pytest.raises(ConfigError, match="there is no checkpoint; train with"):
        Trainer(tmp_path, target, SPLIT, SETTINGS, resume=True)
    _losses(tmp_path, target, SETTINGS, until=1)
    with pytest.raises(ConfigError, match=r"step_decay is 0.8 there and 0.5 here"):
        Trainer(tmp_path, target, SPLIT, replace(SETTINGS, step_decay=0.5), resume=True)
    with pytest.raises(ConfigError, match="trained with 24 samples, and now there are 23"):
        Trainer(tmp_path, target, Split(SPLIT.train[1:], SPLIT.held_out), SETTINGS, resume=True)
    (tmp_path / CHECKPOINT_FILE).write_bytes(b"nonsense")
    with pytest.raises(ConfigError, match="is not a checkpoint of this version"):
        Trainer(tmp_path, target, SPLIT, SETTINGS, resume=True)


def test_kept_states_are_those_of_their_samples(tmp_path: Path, target: FrozenTarget) -> None:
    def kept(chosen: tuple[Sample, ...], name: str = "one") -> KeptFeatures:
        return KeptFeatures(tmp_path, chosen, target.config.hidden_size, torch.float32, name)

    chosen = SPLIT.train[:6]
    store, packed = kept(chosen), pack([chosen[4], chosen[1]])
    assert store.get([4, 1]) is None
    store.put([4, 1], packed, target.features(packed))
    assert store.get([4, 2]) is None
    alone = target.features(pack([chosen[1], chosen[4]]))
    for again in (store, kept(chosen)):
        found = again.get([1, 4])
        assert found is not None
        for part, wanted in zip(found, alone, strict=True):
            torch.testing.assert_close(part, wanted)
    assert kept(chosen, "another target").get([1]) is None
    assert kept(chosen).get([1]) is None, "the other target's states took the place of these"
    assert kept(SPLIT.train[1:7]).get([0]) is None
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="hidden states cannot be kept there"):
        KeptFeatures(tmp_path / "file", chosen, 8, torch.float32, "")


def test_training_needs_samples(tmp_path: Path, target: FrozenTarget) -> None:
    with pytest.raises(ConfigError, match="no sample to train with"):
        Trainer(tmp_path, target, Split((), SPLIT.held_out), SETTINGS)


def test_an_interrupted_run_leaves_a_checkpoint(tmp_path: Path, target: FrozenTarget) -> None:
    def stop(reached: Reached) -> None:
        if reached.step == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Trainer(tmp_path, target, SPLIT, SETTINGS).run(stop)
    assert load(tmp_path).step == 5


def test_the_loss_is_that_of_a_slow_twin(target: FrozenTarget) -> None:
    """Row by row: which predictions count, and the cross entropy against the target's own next-token distribution."""
    chosen = SPLIT.train[:3]
    vocabulary = choose_vocabulary(chosen, 40, VOCABULARY)
    torch.manual_seed(0)
    head = Eagle3Head(target.config, HeadShape(64, 40))
    teacher, packed = Teacher(target, vocabulary), pack(chosen)
    results = unrolled(head, target.embeddings, teacher.batch(packed), 3)

    run = Unroll(head, target.embeddings, teacher.batch(packed))
    drafts = [run.first()]
    drafts += [run.next(drafts[-1])]
    drafts += [run.next(drafts[-1])]
    known = set(vocabulary.tokens.tolist())
    for step, draft in enumerate(drafts):
        loss, rows, right = 0.0, 0, 0
        for number, sample in enumerate(chosen):
            logits = target._model(torch.from_numpy(sample.ids)[None], cuts=[0, len(sample.ids)]).logits[0]
            for at in range(packed.active_cuts[number], packed.active_cuts[number + 1]):
                row = int(packed.active[at] - packed.cuts[number])
                (span,) = [span for span in sample.spans if span.start - 1 <= row < span.end - 2]
                path = sample.ids[row + 2 : row + 3 + step].tolist()
                if row + 2 + step >= span.end or not known.issuperset(path):
                    continue
                wanted = torch.softmax(logits[row + 1 + step][vocabulary.tokens], -1)
                said = torch.log_softmax(draft.logits[at], -1)
                loss -= float((wanted * said).sum().detach())
                right += int(wanted.argmax() == said.argmax())
                rows += 1
        assert int(results[step].rows) == rows > 5
        assert int(results[step].right) == right
        assert float(results[step].loss.detach()) == pytest.approx(loss, rel=1e-4)


def test_soft_cross_entropy_and_its_gradient() -> None:
    torch.manual_seed(0)
    logits = torch.randn(6, 11, dtype=torch.float32, requires_grad=True)
    wanted, weights = torch.softmax(torch.randn(6, 11), -1), torch.tensor([1.0, 0, 0.5, 2, 1, 0])
    slow = -((wanted * torch.log_softmax(logits, -1)).sum(-1) * weights).sum()
    (slow_gradient,) = torch.autograd.grad(3 * slow, logits)
    fast = soft_cross_entropy(logits, wanted, weights)
    (gradient,) = torch.autograd.grad(3 * fast, logits)
    torch.testing.assert_close(fast, slow)
    torch.testing.assert_close(gradient, slow_gradient)


def test_means_weigh_draft_steps(target: FrozenTarget) -> None:
    head = Eagle3Head(target.config, HeadShape(64, 40))
    teacher = Teacher(target, choose_vocabulary(SPLIT.train, 40, VOCABULARY))
    batches = [unrolled(head, target.embeddings, teacher.batch(pack([one])), 2) for one in SPLIT.train[:2]]
    means = mean_results(batches, 0.5)
    rows = [sum(int(batch[step].rows) for batch in batches) for step in range(2)]
    losses = [sum(float(batch[step].loss.detach()) for batch in batches) / rows[step] for step in range(2)]
    assert means.losses == pytest.approx(losses)
    assert means.loss == pytest.approx((losses[0] + 0.5 * losses[1]) / 1.5)
    one = mean_results(batches[:1], 0.5)
    assert float(weighted_loss(batches[0], 0.5)) == pytest.approx(one.loss)


def test_the_rate_rises_and_falls() -> None:
    settings = replace(SETTINGS, steps=100, warmup_steps=9, learning_rate=1.0)
    rates = [learning_rate(settings, step) for step in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[:10] == sorted(rates[:10])
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[-1] == pytest.approx(1 / 30, abs=1e-3)
    assert math.isclose(max(rates), 1.0, abs_tol=0.03)


@pytest.mark.parametrize(
    ("changed", "said"),
    [({"num_hidden_layers": 6}, "num_hidden_layers = 6.*at least 7"), ({"hidden_act": "gelu"}, "gelu")],
)
def test_models_that_no_head_fits_are_refused(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        FrozenTarget(save_tiny_model(tmp_path, **changed))
    with pytest.raises(ConfigError, match="cannot be loaded as a model"):
        FrozenTarget(tmp_path / "nothing")
