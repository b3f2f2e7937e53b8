"""A head's card: the README.md beside its weights. After training; written by `sgl-spec train-head`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from sgl_spec.heads.data_settings import DataSettings
from sgl_spec.heads.report import Report, report_table
from sgl_spec.heads.sample_folder import Split
from sgl_spec.heads.samples import Sample, answer_tokens
from sgl_spec.heads.train_settings import TrainSettings

_CARD = """\
# EAGLE-3 head for {model}

One decoder layer that drafts for the target (EAGLE-3, arXiv 2503.01840), in SGLang's checkpoint format: {millions:.2f}
million weights in bfloat16, {megabytes:.2f} MB. It has no embedding: it shares the target's. It changes no output; it
only decides how many tokens a round of decoding yields.

Made with:

    {command}

## Data

Prompts are drawn from seed {data_seed}, by templates of this project or written by the target itself. Answers are the
target's own, greedy and sampled. No public data set was used.

{samples}

## Training

{steps} steps of about {train.tokens_per_step} tokens ({epochs:.1f} epochs), seed {train.seed}, {train.draft_steps}
unrolled draft steps, learning rate {train.learning_rate:g}, arithmetic in {train.dtype}; draft vocabulary
{train.draft_vocabulary}, feed-forward size {train.inner}. Loss curves: `loss.svg`, `right.svg`.

## Tokens per round on held-out prompts

{results}
"""


class CardFacts(NamedTuple):
    """What a card tells. size: bytes of the weights file; command: that made the head; report: None when not made."""

    data: DataSettings
    split: Split
    train: TrainSettings
    steps_done: int
    epochs: float
    size: int
    parameters: int
    command: str
    report: Report | None


def card(facts: CardFacts) -> str:
    """The whole text, in Markdown."""
    data, train = facts.data, facts.train
    return _CARD.format(
        model=data.model,
        millions=facts.parameters / 1e6,
        megabytes=facts.size / 1e6,
        command=facts.command,
        data_seed=data.seed,
        samples="\n".join(_data_table(facts.split)),
        steps=facts.steps_done,
        epochs=facts.epochs,
        train=train,
        results="\n".join(_results(facts.report)),
    )


def _data_table(split: Split) -> list[str]:
    rows = ["| kind of work | training samples | their answer tokens | held out |", "|---|---|---|---|"]
    train, held = _by_kind(split.train), Counter(sample.kind for sample in split.held_out)
    for kind in sorted({*train, *held}):
        samples = train.get(kind, [])
        rows.append(f"| {kind} | {len(samples)} | {answer_tokens(samples)} | {held[kind]} |")
    rows.append(f"| all | {len(split.train)} | {answer_tokens(split.train)} | {len(split.held_out)} |")
    return rows


def _by_kind(samples: Sequence[Sample]) -> dict[str, list[Sample]]:
    found: dict[str, list[Sample]] = {}
    for sample in samples:
        found.setdefault(sample.kind, []).append(sample)
    return found


def _results(report: Report | None) -> list[str]:
    if report is None:
        return ["Not measured yet (`--stage report`)."]
    return [
        "Simulated on the target's greedy answers; one token per round is plain decoding. "
        f"{report.covered:.1%} of the held-out",
        "answer tokens are in the draft vocabulary.",
        "",
        report_table(report),
    ]
