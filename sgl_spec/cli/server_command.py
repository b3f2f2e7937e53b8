"""Builds the one command line that starts an SGLang server: our defaults, then the user's flags, which always win.

Where it stands in a round: before the first; nothing here runs a server (see `server_process`).
"""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from sgl_spec.config import CONFIG_VARIABLE, SpecConfig
from sgl_spec.errors import ConfigError

OUR_ALGORITHM = "SGL_SPEC"
OUR_SAMPLER = "sgl_spec"  # `server.algorithm.SAMPLING_BACKEND`; importing it would import SGLang
NOT_BESIDE_OUR_SAMPLER = ("--enable-watermark", "--rl-on-policy-target")  # SGLang wants its own there
DEFAULT_HOST = "127.0.0.1"
ALIASES = {"--model": "--model-path"}  # the second spelling SGLang takes for a flag that we set


class Flag(NamedTuple):
    """One flag as typed: its canonical name and every word it came with (the first is the name as typed)."""

    name: str
    words: tuple[str, ...]

    @property
    def value(self) -> str | None:
        """The flag's value, or None for a switch. Of several values, the first."""
        head = self.words[0].partition("=")
        if head[1]:
            return head[2]
        return self.words[1] if len(self.words) > 1 else None


class CpuDefaults(NamedTuple):
    """What a server needs on a machine without an accelerator."""

    env: dict[str, str]
    flags: tuple[Flag, ...]


class ServerRequest(NamedTuple):
    """What the user asked of a server.

    Attributes:
        algorithm: the name for --speculative-algorithm, or None to decode plainly.
        port: None picks a free one.
        user_flags: SGLang flags as typed; they override every default of ours.
        model: the folder or name served when `user_flags` names none.
        on_cpu: this machine has no accelerator.
        cores: threads to compute with when the environment does not say.
        memory: file the server loads its memory of past outputs from and saves it to.
    """

    algorithm: str | None
    port: int | None
    user_flags: tuple[str, ...]
    model: str
    on_cpu: bool
    cores: int
    memory: Path | None = None


class ServerCommand(NamedTuple):
    """A command ready to run. `env` holds only what is added to the caller's environment."""

    argv: tuple[str, ...]
    env: dict[str, str]
    url: str
    model: str
    algorithm: str | None

    def as_shell(self) -> str:
        """The same, as one line a shell takes."""
        settings = [f"{name}={shlex.quote(value)}" for name, value in sorted(self.env.items())]
        return " ".join((["env", *settings] if settings else []) + [shlex.join(self.argv)])


def cpu_server_defaults(cores: int) -> CpuDefaults:
    """Environment and flags of a server on a machine without an accelerator.

    The engine's switch must be in the environment before any sglang import, in every process. An idle scheduler
    otherwise spins on a core, which on a small machine falsifies every measurement of its neighbour. The token pool
    is zero-filled at the start, and SGLang would size it to most of the memory: 13 GB, 40 seconds. With the pool's size
    given, the memory fraction only decides when SGLang refuses to start because other processes took memory meanwhile.
    SGLang's overlap schedule is off with any speculation on a CPU; without speculation it gains nothing here, and stock
    penalties lag one token behind in it, so plain decoding runs on the same schedule.
    """
    return CpuDefaults(
        env={"SGLANG_USE_CPU_ENGINE": "1", "OMP_NUM_THREADS": str(cores)},
        flags=(
            Flag("--device", ("--device", "cpu")),
            Flag("--sleep-on-idle", ("--sleep-on-idle",)),
            Flag("--disable-overlap-schedule", ("--disable-overlap-schedule",)),
            Flag("--max-total-tokens", ("--max-total-tokens", "32768")),
            Flag("--max-running-requests", ("--max-running-requests", "16")),
            Flag("--mem-fraction-static", ("--mem-fraction-static", "0.9")),
        ),
    )


def build_server_command(request: ServerRequest, environment: dict[str, str]) -> ServerCommand:
    """The command for a request, given the environment it will run in (whose settings win over ours).

    Raises:
        ConfigError: a flag contradicts another, the port is not one, or the memory's file cannot be one.
    """
    user = parse_flags(request.user_flags)
    if request.port is not None:
        user = (*user, Flag("--port", ("--port", str(request.port))))
    given = {flag.name: flag.value for flag in (*_config_file_flags(user), *user)}
    cpu = cpu_server_defaults(request.cores) if _wants_cpu(request, given) else CpuDefaults({}, ())
    host = given.get("--host") or DEFAULT_HOST
    port = _port(given.get("--port"))
    algorithm = given.get("--speculative-algorithm") or request.algorithm
    ours = [*_request_flags(request, host, port), *cpu.flags]
    if algorithm is None and not any(name in given for name in NOT_BESIDE_OUR_SAMPLER):
        # So that a seed is honoured, and means the same as with speculation.
        ours.append(Flag("--sampling-backend", ("--sampling-backend", OUR_SAMPLER)))
    flags = [*(flag for flag in ours if flag.name not in given), *user]
    env = {name: value for name, value in cpu.env.items() if name not in environment}
    if request.memory is not None:
        env[CONFIG_VARIABLE] = _config_with_memory(request.memory, algorithm, environment)
    return ServerCommand(
        argv=(sys.executable, "-m", "sglang.launch_server", *(word for flag in flags for word in flag.words)),
        env=env,
        url=f"http://{_reachable(host)}:{port}",
        model=given.get("--model-path") or request.model,
        algorithm=algorithm,
    )


def _config_with_memory(file: Path, algorithm: str | None, environment: dict[str, str]) -> str:
    """The user's settings, as JSON, and the memory's file. The flag wins over a file the settings name."""
    if (algorithm or "").upper() != OUR_ALGORITHM:
        without = "--off" if algorithm is None else f"--speculative-algorithm {algorithm}"
        raise ConfigError(
            f"--memory {file} with {without}: only {OUR_ALGORITHM} has a memory; leave one of the two out."
        )
    file = file.absolute()
    if not file.parent.is_dir():
        raise ConfigError(f"--memory {file}: there is no folder {file.parent}; make it first, or name another file.")
    if file.is_dir():
        raise ConfigError(f"--memory {file} is a folder; name a file.")
    return dataclasses.replace(SpecConfig.from_environment(environment), memory_file=str(file)).to_json()


def parse_flags(words: Sequence[str]) -> tuple[Flag, ...]:
    """Groups typed words into flags; a value belongs to the flag before it.

    Raises:
        ConfigError: a word stands before any flag.
    """
    groups: list[list[str]] = []
    for word in words:
        if word.startswith("--"):
            groups.append([word])
        elif groups:
            groups[-1].append(word)
        else:
            raise ConfigError(f"Unexpected word {word!r} before any flag: SGLang flags start with '--'.")
    return tuple(Flag(_canonical(group[0]), tuple(group)) for group in groups)


def has_flag(words: Sequence[str], name: str) -> bool:
    """True when the user's own flags set `name`, on the command line or in a --config file."""
    user = parse_flags(words)
    return any(flag.name == name for flag in (*user, *_config_file_flags(user)))


def _canonical(word: str) -> str:
    name = word.partition("=")[0]
    return ALIASES.get(name, name)


def _request_flags(request: ServerRequest, host: str, port: int) -> Iterable[Flag]:
    yield Flag("--model-path", ("--model-path", request.model))
    yield Flag("--host", ("--host", host))
    yield Flag("--port", ("--port", str(port)))
    if request.algorithm is not None:
        yield Flag("--speculative-algorithm", ("--speculative-algorithm", request.algorithm))


def _wants_cpu(request: ServerRequest, given: dict[str, str | None]) -> bool:
    device = given.get("--device")
    return request.on_cpu if device is None else device == "cpu"


def _port(text: str | None) -> int:
    if text is None:
        from sgl_spec.frontend.process_tree import free_port

        return free_port()
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise ConfigError(f"--port is {text}; it must be a number from 1 to 65535.")
    return int(text)


def _reachable(host: str) -> str:
    """The address to poll for a server that listens on `host`."""
    if host in ("0.0.0.0", "::"):
        return DEFAULT_HOST
    return f"[{host}]" if ":" in host else host


def _config_file_flags(user: Sequence[Flag]) -> tuple[Flag, ...]:
    """What SGLang's own `--config FILE` (YAML, one key per flag) sets: it is the user's word too."""
    names = [flag.value for flag in user if flag.name == "--config"]
    if not names or names[-1] is None:
        return ()
    import yaml

    try:
        content = yaml.safe_load(Path(names[-1]).read_text()) or {}
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"--config is {names[-1]}; it cannot be read as YAML: {error}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"--config is {names[-1]}; it must hold one 'flag: value' per line.")
    flags = (("--" + str(key).replace("_", "-"), str(value)) for key, value in content.items())
    return tuple(Flag(_canonical(name), (name, value)) for name, value in flags)
