"""Whether the CPU platform is wanted on this machine, and what it then installs.

Entry point of the group `sglang.srt.platforms`: SGLang calls `activate` once in every process, before its own
modules decide which device they run on. It always returns None, for a platform class would replace SGLang's own
choice; the stock CPU platform is what we want, given the kernels it lacks.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys

logger = logging.getLogger(__name__)

# SGLang's own switch for its CPU branches.
CPU_ENGINE = "SGLANG_USE_CPU_ENGINE"
_CPU_OP = "assign_req_to_token_pool_cpu"
# GNU OpenMP's idle threads spin for milliseconds, on the cores where the attention kernel's threads, the tokenizer
# and the HTTP server want to run. Read by torch when it loads, so it reaches the scheduler process, not this one.
_OPENMP_WAIT = {"OMP_WAIT_POLICY": "PASSIVE"}


def accelerator() -> str | None:
    """The name of the accelerator torch can use here, or None."""
    import torch

    if torch.cuda.is_available():
        return "hip" if torch.version.hip else "cuda"
    for name in ("xpu", "npu", "musa"):
        device = getattr(torch, name, None)
        if device is not None and device.is_available():
            return name
    return "mps" if torch.backends.mps.is_available() else None


def has_cpu_kernels() -> bool:
    """Whether a `sgl_kernel` with SGLang's CPU functions is installed and loads. None other stays loaded."""
    before = set(sys.modules)
    try:
        if hasattr(importlib.import_module("sgl_kernel"), _CPU_OP):
            return True
    except Exception as error:  # the CUDA wheel raises ImportError, OSError or worse where libcuda is missing
        logger.debug("sgl_kernel does not load: %s", error)
    for name in [name for name in sys.modules if name.partition(".")[0] == "sgl_kernel" and name not in before]:
        del sys.modules[name]
    return False


def wanted() -> str | None:
    """Why the platform stays out of the way here, or None when it is wanted."""
    if os.environ.get(CPU_ENGINE) == "0":
        return f"{CPU_ENGINE}=0"
    found = accelerator()
    if found is not None:
        return f"torch sees an accelerator ({found})"
    if has_cpu_kernels():
        return "a working sgl_kernel with CPU kernels is installed"
    return None


def is_active() -> bool:
    from sgl_spec.platform_cpu import kernel_module

    return kernel_module.is_installed()


def activate() -> None:
    """Install the platform where it is wanted; SGLang then takes its CPU branches. Idempotent."""
    from sgl_spec.platform_cpu import kernel_module

    if kernel_module.is_installed() or wanted() is not None:
        return
    os.environ[CPU_ENGINE] = "1"
    for name, value in _OPENMP_WAIT.items():
        os.environ.setdefault(name, value)
    kernel_module.install()
    logger.info("sgl_spec CPU platform active: no accelerator and no sgl_kernel CPU build on this machine")
