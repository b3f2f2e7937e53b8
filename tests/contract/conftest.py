"""These tests import SGLang. On a machine without an accelerator its CPU branches want the CPU platform's kernels, and
they look for them when they are imported: so the platform is installed before any test module is collected."""

from __future__ import annotations

from sgl_spec.platform_cpu.activate import activate

activate()
