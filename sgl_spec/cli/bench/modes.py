"""The ways of serving that a measurement compares. A further rival is one more row of `MODES`.

Some modes differ by the hint alone. They share one server, so that an ablation does not need a server for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from sgl_spec.cli.server_command import OUR_ALGORITHM
from sgl_spec.drafting.hint import Hint
from sgl_spec.errors import ConfigError

BASELINE = "off"
MERGED = "full"
SINGLE_ORIGINS = ("lookup", "grammar", "memory", "template", "eagle")  # each a mode of that name: drafts from it alone
_WITHOUT_HEAD = frozenset({"lookup", "grammar", "memory", "template", "predict"})


class Mode(NamedTuple):
    """One way to serve.

    Attributes:
        name: what `--modes` calls it.
        title: what it is, for the file and the log.
        server: name of the server it runs on; modes of one server have the same algorithm and flags.
        algorithm: for --speculative-algorithm; None decodes plainly.
        flags: further SGLang flags of this mode.
        must_match: an output that differs from the baseline's makes the measurement fail. True for what we promise;
            a rival's differences are shown, and are the rival's.
        hint: what each of its requests asks of the drafters, beside the names of program and slot.
        needs_head: it is nothing without the draft head that `--head` names. Other modes of ours have the head too
            when there is one.
    """

    name: str
    title: str
    server: str
    algorithm: str | None
    flags: tuple[str, ...] = ()
    must_match: bool = False
    hint: Hint = Hint()
    needs_head: bool = False


def _ours(name: str, title: str, hint: Hint, needs_head: bool = False) -> Mode:
    return Mode(name, f"sgl_spec, {title}", MERGED, OUR_ALGORITHM, must_match=True, hint=hint, needs_head=needs_head)


def _alone(origin: str) -> Mode:
    return _ours(origin, f"drafts from {origin} alone", Hint(origins=frozenset({origin})), origin == "eagle")


MODES = {
    mode.name: mode
    for mode in (
        Mode(BASELINE, "SGLang without speculation", BASELINE, None),
        Mode("ngram", "SGLang's own NGRAM speculation", "ngram", "NGRAM"),
        Mode("eagle3", "SGLang's own EAGLE-3 speculation", "eagle3", "EAGLE3", needs_head=True),
        _ours(MERGED, "every drafter it has", Hint()),
        _ours("cold", "every drafter, no memory: each call as if it were the first of its slot", Hint(memory="off")),
        _ours("no-head", "every drafter but the head", Hint(origins=_WITHOUT_HEAD), needs_head=True),
        *(_alone(origin) for origin in SINGLE_ORIGINS),
    )
}


def head_flags(mode: Mode, head: Path, on_cpu: bool) -> tuple[str, ...]:
    """The flags of a mode with a head. Ours sets the rest by itself; stock EAGLE3 gets 4 steps, 4 branches, 16 nodes,
    and on the CPU platform the attention of its draft steps, for which SGLang has no default there."""
    named = ("--speculative-draft-model-path", str(head))
    if mode.algorithm == OUR_ALGORITHM:
        return named
    sizes = ("--speculative-num-steps", "4", "--speculative-eagle-topk", "4", "--speculative-num-draft-tokens", "16")
    attention = ("--speculative-draft-attention-backend", "intel_amx") if on_cpu else ()
    return (*named, *sizes, *attention)


def with_head(modes: Sequence[Mode], head: Path | None, on_cpu: bool) -> tuple[Mode, ...]:
    """The modes, stock EAGLE3 and ours with the flags for the head where there is one.

    Raises:
        ConfigError: a mode needs a head and there is none, or it is no folder with a config.json.
    """
    needing = [mode.name for mode in modes if mode.needs_head]
    if needing and head is None:
        raise ConfigError(f"--modes holds {needing[0]!r}, which needs a draft head: name its folder with --head.")
    if head is None:
        return tuple(modes)
    if not (head / "config.json").is_file():
        raise ConfigError(f"--head is {head}; it must be a folder that holds a head's config.json.")
    takes = [mode.needs_head or mode.algorithm == OUR_ALGORITHM for mode in modes]
    return tuple(
        mode._replace(flags=(*mode.flags, *head_flags(mode, head, on_cpu))) if took else mode
        for mode, took in zip(modes, takes, strict=True)
    )


def parse_modes(text: str) -> tuple[Mode, ...]:
    """Modes from a comma-separated list, the baseline first.

    Raises:
        ConfigError: a name is unknown or given twice, or the baseline is missing.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in MODES:
            raise ConfigError(f"--modes holds {name!r}; known modes are {', '.join(MODES)}.")
        if names.count(name) > 1:
            raise ConfigError(f"--modes holds {name!r} {names.count(name)} times; give each mode once.")
    if BASELINE not in names:
        raise ConfigError(f"--modes is {text!r}; it must contain {BASELINE!r}, which the others are compared with.")
    return tuple(MODES[name] for name in sorted(names, key=lambda name: name != BASELINE))
