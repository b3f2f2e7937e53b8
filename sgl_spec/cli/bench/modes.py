"""The servers a measurement compares. A further rival is one more row of `MODES`."""

from __future__ import annotations

from typing import NamedTuple

from sgl_spec.cli.server_command import OUR_ALGORITHM
from sgl_spec.errors import ConfigError

BASELINE = "off"


class Mode(NamedTuple):
    """One way to serve.

    Attributes:
        name: what `--modes` calls it.
        title: what it is, for the file and the log.
        algorithm: for --speculative-algorithm; None decodes plainly.
        flags: further SGLang flags of this mode.
        must_match: an output that differs from the baseline's makes the measurement fail. True for what we promise;
            a rival's differences are shown, and are the rival's.
    """

    name: str
    title: str
    algorithm: str | None
    flags: tuple[str, ...] = ()
    must_match: bool = False


MODES = {
    mode.name: mode
    for mode in (
        Mode(BASELINE, "SGLang without speculation", None),
        Mode("ngram", "SGLang's own NGRAM speculation", "NGRAM"),
        Mode("full", "sgl_spec, every drafter it has", OUR_ALGORITHM, must_match=True),
    )
}


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
