"""The held-out report: how much of a head's drafts its target would accept, by kind of work.

After training, without a server: see `simulate`. Read from the exported folder, in bfloat16 as it is served.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sgl_spec.errors import ConfigError
from sgl_spec.heads.accept_walk import total
from sgl_spec.heads.draft_vocabulary import coverage
from sgl_spec.heads.export import load_head
from sgl_spec.heads.samples import Sample
from sgl_spec.heads.simulate import Accepted, Simulator
from sgl_spec.heads.target import FrozenTarget
from sgl_spec.heads.train import arithmetic
from sgl_spec.heads.tree_growth import TreeShape
from sgl_spec.heads.unroll import Teacher

REPORT_FILE = "report.json"
ALL = "all"


class KindResult(NamedTuple):
    """One kind of work. texts: held-out greedy samples; chain, tree: tokens per round, the bonus token included."""

    kind: str
    texts: int
    chain: float
    tree: float


class Report(NamedTuple):
    """The whole report. covered: share of held-out answer tokens that the head can draft."""

    shape: TreeShape
    covered: float
    kinds: tuple[KindResult, ...]


def held_out_report(
    folder: Path,
    target: FrozenTarget,
    held_out: Sequence[Sample],
    shape: TreeShape,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Report:
    """Simulates drafting on every held-out text that was answered greedily.

    Args:
        folder: of the exported head.
        target: it was trained for.
        held_out: samples that training did not see.
        shape: of the drafted trees.
        progress: called with texts done and texts in all.

    Raises:
        ConfigError: the folder holds no head, or there is no greedy held-out text.
    """
    texts = [sample for sample in held_out if sample.temperature == 0]
    if not texts:
        raise ConfigError("held_out: no sample was kept out of training and answered greedily; make more data")
    loaded = load_head(folder, target.config)
    head = loaded.head.to(target.device).eval()
    simulator = Simulator(head, loaded.vocabulary, Teacher(target, loaded.vocabulary), shape)
    found: dict[str, list[Accepted]] = {}
    for done, sample in enumerate(texts, 1):
        with arithmetic("bfloat16", target.device):
            found.setdefault(sample.kind, []).append(simulator.run(sample))
        progress(done, len(texts))
    found[ALL] = [one for results in found.values() for one in results]
    kinds = tuple(_kind(kind, found[kind]) for kind in (*sorted(set(found) - {ALL}), ALL))
    return Report(shape, coverage(held_out, loaded.vocabulary), kinds)


def _kind(kind: str, results: Sequence[Accepted]) -> KindResult:
    chain, tree = (total(getattr(one, way) for one in results).tokens_per_round for way in ("chain", "tree"))
    return KindResult(kind, len(results), round(chain, 3), round(tree, 3))


def write_report(folder: Path, report: Report) -> None:
    """Writes report.json."""
    content = {
        "shape": report.shape._asdict(),
        "covered": round(report.covered, 4),
        "kinds": [kind._asdict() for kind in report.kinds],
    }
    (folder / REPORT_FILE).write_text(json.dumps(content, indent=1) + "\n")


def read_report(folder: Path) -> Report | None:
    """The folder's report, or None when there is none."""
    path = folder / REPORT_FILE
    if not path.is_file():
        return None
    try:
        content: dict[str, Any] = json.loads(path.read_text())
        kinds = tuple(KindResult(**kind) for kind in content["kinds"])
        return Report(TreeShape(**content["shape"]), float(content["covered"]), kinds)
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path}: cannot be read as a report: {error}") from error


def report_table(report: Report) -> str:
    """The report as a table of Markdown."""
    shape = report.shape
    rows = [f"| {kind.kind} | {kind.texts} | {kind.chain:.2f} | {kind.tree:.2f} |" for kind in report.kinds]
    head = f"| kind of work | texts | chain of {shape.steps} | tree of {shape.nodes} (topk {shape.topk}) |"
    return "\n".join([head, "|---|---|---|---|", *rows])
