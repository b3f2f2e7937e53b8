"""`sgl-spec train-head`: an EAGLE-3 head for a model, from nothing but the model.

    data (a server answers prompts) -> train -> export (SGLang's format) -> report (held-out accept lengths, card)

Each stage can be run alone, and each goes on where it was interrupted. This module is the command line; what it runs
is imported only when it runs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sgl_spec.errors import ConfigError

if TYPE_CHECKING:
    from sgl_spec.heads.generate import Made
    from sgl_spec.heads.sample_folder import SampleFolder
    from sgl_spec.heads.target import FrozenTarget
    from sgl_spec.heads.train import Reached
    from sgl_spec.heads.train_settings import TrainSettings

STAGES = ("data", "train", "export", "report")
DESCRIPTION = """Lets the model answer prompts, trains an EAGLE-3 head on the answers, writes it in SGLang's checkpoint
format (OUT/head) and reports how much of its drafts the model would accept on prompts kept out of training. Any flag of
SGLang's own server may be added for the server that answers. See docs/train-a-head.md."""


class Folders(NamedTuple):
    """Where a run keeps what. data: samples; train: checkpoint and log; head: what SGLang loads."""

    data: Path
    train: Path
    head: Path
    log: Path


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `train-head`."""
    from sgl_spec.cli.run import positive_int

    parser = subparsers.add_parser(
        "train-head", help="train a draft head for a model", description=DESCRIPTION, allow_abbrev=False
    )
    add = parser.add_argument
    add("--model-path", metavar="DIR", help="the model's folder (default: the bundled model)")
    add("--out", type=Path, required=True, metavar="DIR", help="folder for everything the run makes")
    add("--stage", choices=("all", *STAGES), default="all", help="run one stage alone (default: %(default)s)")
    add("--resume", action="store_true", help="go on where an earlier run stopped")
    add("--seed", type=int, default=0, metavar="N", help="of prompts, weights and order (default: %(default)s)")
    add("--tokens", type=positive_int, default=1_000_000, metavar="N", help="answer tokens (default: %(default)s)")
    add("--data", type=Path, metavar="DIR", help="folder of the samples (default: OUT/data)")
    add("--server", metavar="URL", help="a running server of this model that answers (default: start one)")
    add("--workers", type=positive_int, default=64, metavar="N", help="prompts answered at once (default: %(default)s)")
    add("--epochs", type=positive_int, default=3, metavar="N", help="passes over the samples (default: %(default)s)")
    add("--steps", type=positive_int, metavar="N", help="training steps, instead of --epochs")
    add("--tokens-per-step", type=positive_int, default=2048, metavar="N", help="of training (default: %(default)s)")
    add("--draft-steps", type=positive_int, default=4, metavar="N", help="unrolled in training (default: %(default)s)")
    add(
        "--draft-vocabulary", type=positive_int, default=8192, metavar="N", help="tokens drafted (default: %(default)s)"
    )
    add("--inner", type=positive_int, metavar="N", help="size of the feed-forward layer (default: the model's)")
    add("--learning-rate", type=float, default=6e-4, metavar="X", help="highest (default: %(default)s)")
    add("--keep-features", action="store_true", help="keep hidden states on disk: later epochs take half the time")
    add("--dtype", default="bfloat16", metavar="NAME", help="bfloat16 or float32 (default: %(default)s)")
    parser.set_defaults(run=run, takes_server_flags=True)


def run(args: argparse.Namespace) -> int:
    """Runs the stages asked for, in order. 0 when all are done."""
    data = args.out / "data" if args.data is None else args.data
    folders = Folders(data, args.out / "train", args.out / "head", args.out / "server.log")
    model = _model(args.model_path)
    for stage in STAGES if args.stage == "all" else (args.stage,):
        {"data": _data, "train": _train, "export": _export, "report": _report}[stage](args, folders, model)
    return 0


def _model(path: str | None) -> Path:
    if path is None:
        from sgl_spec.bundled_model import prepare

        return prepare()
    if not (Path(path) / "config.json").is_file():
        raise ConfigError(f"--model-path is {path}; it must be a folder with a model (there is no config.json in it).")
    return Path(path)


# ---- data ------------------------------------------------------------------------------------------------------------


def _data(args: argparse.Namespace, folders: Folders, model: Path) -> None:
    from contextlib import nullcontext

    from sgl_spec.cli.completion_server import ServerPlan, answering_server
    from sgl_spec.heads.sample_folder import SampleFolder
    from sgl_spec.heads.samples import answer_tokens

    settings = _data_settings(args, model)
    folder = SampleFolder.create(folders.data, settings)
    have = sum(answer_tokens(shard.samples) for shard in folder.shards())
    if have >= args.tokens:
        _say(f"data: {folders.data} holds {have} answer tokens; nothing to do")
        return
    if have and not args.resume:
        raise ConfigError(
            f"--data: {folders.data} holds {have} of {args.tokens} answer tokens; add --resume to go on with it, or "
            f"name another folder."
        )
    room = args.workers * (settings.prompt_tokens + settings.answer_tokens) // 2
    plan = ServerPlan(str(model), tuple(args.server_flags), args.workers, room)
    args.out.mkdir(parents=True, exist_ok=True)
    with answering_server(plan, folders.log) if args.server is None else nullcontext(args.server) as url:
        _generate(args, folder, model, url)


def _data_settings(args: argparse.Namespace, model: Path) -> Any:
    from transformers import AutoConfig

    from sgl_spec.heads.data_settings import DataSettings
    from sgl_spec.heads.target import check_architecture

    config = AutoConfig.from_pretrained(model)
    check_architecture(config, model)  # now, and not after an hour of data
    return DataSettings(model.absolute().name, int(config.vocab_size), args.seed)


def _generate(args: argparse.Namespace, folder: SampleFolder, model: Path, url: str) -> None:
    from tqdm import tqdm
    from transformers import AutoTokenizer

    from sgl_spec.cli.completion_server import HttpCompleter
    from sgl_spec.heads.chat_format import ChatFormat
    from sgl_spec.heads.generate import generate

    chat = ChatFormat(AutoTokenizer.from_pretrained(model))
    with tqdm(total=args.tokens, desc="data", unit=" tokens", smoothing=0.02) as bar:

        def progress(made: Made) -> None:
            bar.set_postfix(samples=made.samples, dropped=sum(made.dropped.values()), refresh=False)
            bar.update(min(made.tokens, args.tokens) - bar.n)

        made = generate(folder, HttpCompleter(url), chat, args.tokens, args.workers, progress)
    dropped = ", ".join(f"{count} {reason}" for reason, count in sorted(made.dropped.items())) or "none"
    _say(f"data: {made.samples} samples, {made.tokens} answer tokens; dropped: {dropped}")


# ---- train -----------------------------------------------------------------------------------------------------------


def _train(args: argparse.Namespace, folders: Folders, model: Path) -> None:
    from tqdm import tqdm

    from sgl_spec.heads.checkpoint import CHECKPOINT_FILE
    from sgl_spec.heads.draft_vocabulary import coverage
    from sgl_spec.heads.sample_folder import SampleFolder
    from sgl_spec.heads.train import Trainer

    split = SampleFolder.open(folders.data).load()
    target = _target(model, args.dtype)
    settings = _train_settings(args, target, [len(sample.ids) for sample in split.train])
    exists = (folders.train / CHECKPOINT_FILE).exists()
    if exists and not args.resume:
        raise ConfigError(f"--out: {folders.train} holds a checkpoint; add --resume to go on, or name another folder.")
    trainer = Trainer(folders.train, target, split, settings, resume=exists, keep=args.keep_features)
    (folders.train / "command.txt").write_text(_command(args, settings) + "\n")
    covered = coverage(split.held_out, trainer.trained.vocabulary)
    _say(f"train: {len(split.train)} samples; {covered:.1%} of held-out answer tokens can be drafted")
    with tqdm(total=settings.steps, initial=trainer.step, desc="train", unit=" steps", smoothing=0.02) as bar:

        def progress(reached: Reached) -> None:
            right = " ".join(f"{share:.2f}" for share in reached.means.right)
            bar.set_postfix(loss=f"{reached.means.loss:.3f}", right=right, refresh=False)
            bar.update(reached.step - bar.n)

        trainer.run(progress)


def _target(model: Path, dtype: str) -> FrozenTarget:
    import torch

    from sgl_spec.cli.machine import physical_cores
    from sgl_spec.heads.target import FrozenTarget
    from sgl_spec.heads.train_settings import DTYPES

    if dtype not in DTYPES:
        raise ConfigError(f"--dtype is {dtype}; it must be one of {', '.join(DTYPES)}.")
    torch.set_num_threads(physical_cores())
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return FrozenTarget(model, getattr(torch, dtype), device)


def _train_settings(args: argparse.Namespace, target: FrozenTarget, lengths: list[int]) -> TrainSettings:
    from sgl_spec.heads.packing import Order
    from sgl_spec.heads.train_settings import TrainSettings

    steps = args.steps or Order(lengths, args.tokens_per_step, args.seed).steps_of(args.epochs)
    return TrainSettings(
        steps=steps,
        seed=args.seed,
        tokens_per_step=args.tokens_per_step,
        draft_steps=args.draft_steps,
        learning_rate=args.learning_rate,
        draft_vocabulary=args.draft_vocabulary,
        inner=args.inner or int(target.config.intermediate_size),
        dtype=args.dtype,
    )


def _command(args: argparse.Namespace, settings: TrainSettings) -> str:
    """The command that makes the same head again, for its card: without paths of this machine."""
    words = ["sgl-spec train-head --out DIR"]
    if args.model_path is not None:
        words.append(f"--model-path {Path(args.model_path).absolute().name}")
    chosen = {"tokens": args.tokens, "steps": settings.steps, "seed": args.seed}
    defaults = {"tokens_per_step": 2048, "draft_steps": 4, "draft_vocabulary": 8192, "learning_rate": 6e-4}
    chosen |= {name: getattr(args, name) for name, value in defaults.items() if getattr(args, name) != value}
    if args.inner is not None:
        chosen["inner"] = args.inner
    if args.dtype != "bfloat16":
        chosen["dtype"] = args.dtype
    return " ".join([*words, *(f"--{name.replace('_', '-')} {value}" for name, value in chosen.items())])


# ---- export and report -----------------------------------------------------------------------------------------------


def _export(args: argparse.Namespace, folders: Folders, model: Path) -> None:
    from sgl_spec.heads import checkpoint
    from sgl_spec.heads.draft_vocabulary import DraftVocabulary
    from sgl_spec.heads.export import export_head
    from sgl_spec.heads.model import Eagle3Head, HeadShape
    from sgl_spec.heads.train_log import TrainLog, loss_curve, right_curve

    found = checkpoint.load(folders.train)
    config = _target_config(model)
    head = Eagle3Head(config, HeadShape(found.settings.inner, found.settings.draft_vocabulary))
    head.load_state_dict(found.head)
    vocabulary = DraftVocabulary(found.vocabulary.numpy(), int(config.vocab_size))
    size = export_head(folders.head, head, vocabulary, config)
    entries = TrainLog(folders.train).entries()
    (folders.head / "loss.svg").write_text(loss_curve(entries))
    (folders.head / "right.svg").write_text(right_curve(entries))
    _write_card(folders)
    _say(f"export: {folders.head}, {size / 1e6:.2f} MB, after {found.step} of {found.settings.steps} steps")


def _target_config(model: Path) -> Any:
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(model)


def _report(args: argparse.Namespace, folders: Folders, model: Path) -> None:
    from tqdm import tqdm

    from sgl_spec.heads.report import held_out_report, report_table, write_report
    from sgl_spec.heads.sample_folder import SampleFolder
    from sgl_spec.heads.tree_growth import TreeShape

    split = SampleFolder.open(folders.data).load()
    with tqdm(desc="report", unit=" texts") as bar:

        def progress(done: int, of: int) -> None:
            bar.total = of
            bar.update(done - bar.n)

        report = held_out_report(folders.head, _target(model, "bfloat16"), split.held_out, TreeShape(), progress)
    write_report(folders.head, report)
    _write_card(folders)
    print(report_table(report))


def _write_card(folders: Folders) -> None:
    from sgl_spec.heads import checkpoint
    from sgl_spec.heads.card import CardFacts, card
    from sgl_spec.heads.export import WEIGHTS_FILE
    from sgl_spec.heads.packing import Order
    from sgl_spec.heads.report import read_report
    from sgl_spec.heads.sample_folder import SampleFolder

    data, found = SampleFolder.open(folders.data), checkpoint.load(folders.train)
    split = data.load()
    order = Order([len(sample.ids) for sample in split.train], found.settings.tokens_per_step, found.settings.seed)
    facts = CardFacts(
        data.settings, split, found.settings, found.step, found.step / order.steps_of(1),
        (folders.head / WEIGHTS_FILE).stat().st_size, sum(weight.numel() for weight in found.head.values()),
        (folders.train / "command.txt").read_text().strip(), read_report(folders.head),
    )  # fmt: skip
    (folders.head / "README.md").write_text(card(facts))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
