"""What this machine is: does it have an accelerator, how many cores, and its description for a measurement's file."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from typing import NamedTuple

from sgl_spec.errors import ConfigError


class Machine(NamedTuple):
    """Where a measurement was taken. `memory_bytes` is the whole machine's."""

    system: str
    processor: str
    cores: int
    memory_bytes: int
    device: str


def accelerator_name() -> str | None:
    """The accelerator torch can use ("cuda", "xpu", ...), or None on a machine with CPUs only. Imports torch.

    Raises:
        ConfigError: torch is not installed.
    """
    try:
        from sgl_spec.platform_cpu.activate import accelerator

        return accelerator()
    except ImportError as error:
        raise ConfigError(
            f"{error.name or 'torch'} cannot be imported ({error}). "
            f"Install this package's dependencies with: pip install sgl_spec"
        ) from error


def physical_cores() -> int:
    """Physical cores this process may run on: two hyperthreads of one core only get in each other's way."""
    import psutil

    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(allowed, psutil.cpu_count(logical=False) or allowed))


def describe_machine(device: str) -> Machine:
    """This machine, for the head of a measurement's file."""
    import psutil

    return Machine(platform.platform(), _processor_name(), physical_cores(), psutil.virtual_memory().total, device)


def versions() -> dict[str, str]:
    """Versions of what decides a measurement, without importing any of it. Absent packages are "not installed"."""
    found = {"python": platform.python_version()}
    for package in ("sgl_spec", "sglang", "torch", "transformers", "numpy"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def _processor_name() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    except OSError:
        named = []
    return named[0] if named else platform.processor() or platform.machine()
