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
SINGLE_ORIGINS = ("lookup", "grammar", "memory", "template")  # each a mode of that name, drafting from it alone


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
        needs_head: it runs with the draft head that `--head` names.
    """

    name: str
    title: str
    server: str
    algorithm: str | None
    flags: tuple[str, ...] = ()
    must_match: bool = False
    hint: Hint = Hint()
    needs_head: bool = False


def _ours(name: str, title: str, hint: Hint) -> Mode:
    return Mode(name, f"sgl_spec, {title}", MERGED, OUR_ALGORITHM, must_match=True, hint=hint)


MODES = {
    mode.name: mode
    for mode in (
        Mode(BASELINE, "SGLang without speculation", BASELINE, None),
        Mode("ngram", "SGLang's own NGRAM speculation", "ngram", "NGRAM"),
        Mode("eagle3", "SGLang's own EAGLE-3 speculation", "eagle3", "EAGLE3", needs_head=True),
        _ours(MERGED, "every drafter it has", Hint()),
        _ours("cold", "every drafter, no memory: each call as if it were the first of its slot", Hint(memory="off")),
        *(_ours(name, f"drafts from {name} alone", Hint(origins=frozenset({name}))) for name in SINGLE_ORIGINS),
    )
}


def head_flags(head: Path, on_cpu: bool) -> tuple[str, ...]:
    """The flags of stock EAGLE3 with a head: 4 steps, 4 branches, 16 nodes. On the CPU platform its draft steps need
    the platform's attention named, for SGLang knows no default there."""
    flags = (
        *("--speculative-draft-model-path", str(head), "--speculative-num-steps", "4"),
        *("--speculative-eagle-topk", "4", "--speculative-num-draft-tokens", "16"),
    )
    return (*flags, "--speculative-draft-attention-backend", "intel_amx") if on_cpu else flags


def with_head(modes: Sequence[Mode], head: Path | None, on_cpu: bool) -> tuple[Mode, ...]:
    """The modes, those that need a head with the flags for it.

    Raises:
        ConfigError: a mode needs a head and there is none, or it is no folder with a config.json.
    """
    needing = [mode.name for mode in modes if mode.needs_head]
    if needing and head is None:
        raise ConfigError(f"--modes holds {needing[0]!r}, which needs a draft head: name its folder with --head.")
    if head is not None and not (head / "config.json").is_file():
        raise ConfigError(f"--head is {head}; it must be a folder that holds a head's config.json.")
    flags = () if head is None else head_flags(head, on_cpu)
    return tuple(mode._replace(flags=(*mode.flags, *flags)) if mode.needs_head else mode for mode in modes)


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
