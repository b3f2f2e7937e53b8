"""The stand-in for `sgl_kernel`: what it offers, that SGLang finds it, and when it refuses to stand in.

What is said about a whole process (modules, torch's registry of ops) is tried in a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from sgl_spec.platform_cpu import attention, kernel_module, pointwise_ops, reference

ATTENTION_OPS = ("decode_attention_cpu", "extend_attention_cpu")


def python(code: str, *path: Path) -> str:
    """Run `code` in a fresh interpreter that finds modules in `path` first; its output."""
    setup = f"import sys; sys.path[:0] = {[str(p) for p in path]!r}\n"
    done = subprocess.run(
        [sys.executable, "-c", setup + textwrap.dedent(code)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_install_offers_every_function_and_is_idempotent() -> None:
    out = python("""
        import torch
        from sgl_spec.platform_cpu import kernel_module as km
        assert not km.is_installed()
        km.install()
        assert km.is_installed()
        first = sys.modules["sgl_kernel"]
        km.install()
        import sgl_kernel, sgl_kernel.speculative
        for module, functions in ((sgl_kernel, km.FUNCTIONS), (sgl_kernel.speculative, km.SPECULATIVE_FUNCTIONS)):
            for function in functions:
                assert getattr(module, function.__name__) is function
                assert getattr(first if module is sgl_kernel else module, function.__name__) is function
        from sgl_kernel.speculative import reconstruct_indices_from_tree_mask
        for name in km.OPS:
            assert callable(getattr(torch.ops.sgl_kernel, name))
        print(sgl_kernel.__version__)
    """)
    assert "sgl_spec" in out


def test_what_it_lacks_fails_by_name() -> None:
    python("""
        from sgl_spec.platform_cpu import kernel_module
        kernel_module.install()
        try:
            from sgl_kernel import silu_and_mul
        except ImportError as error:
            assert "silu_and_mul" in str(error)
        else:
            raise AssertionError("made up a function")
    """)


def test_another_sgl_kernel_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "sgl_kernel.py").write_text("")
    out = python(
        """
        import sgl_kernel
        from sgl_spec.errors import PlatformError
        from sgl_spec.platform_cpu import kernel_module
        try:
            kernel_module.install()
        except PlatformError as error:
            print(error)
        assert sys.modules["sgl_kernel"] is sgl_kernel
        assert not kernel_module.is_installed()
        """,
        tmp_path,
    )
    assert str(tmp_path / "sgl_kernel.py") in out


def test_ops_are_torch_ops() -> None:
    """Called through torch as SGLang does, they give what the functions give."""
    if not kernel_module.is_installed():
        kernel_module.install()
    seed, positions, columns = torch.tensor([5, 6]), torch.tensor([1, 2]), torch.arange(9)
    hashed = torch.ops.sgl_kernel.murmur_hash32_cpu.default(seed, positions, columns)
    assert torch.equal(hashed, reference.murmur_hash32_cpu(seed, positions, columns))

    query, key, turns = torch.randn(3, 32), torch.randn(3, 16), torch.rand(50, 16)
    arguments = (torch.tensor([4, 0, 49]), query, key, 16, turns, True)
    turned = torch.ops.sgl_kernel.rotary_embedding_cpu(*arguments)
    assert all(torch.equal(a, b) for a, b in zip(turned, pointwise_ops.rotary_embedding_cpu(*arguments), strict=True))

    assert torch.ops.sgl_kernel.init_cpu_threads_env([0, 1]) is None
    assert torch.ops.sgl_kernel.initialize(1, 0) is None


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_attention_ops_write_into_the_tensor_given(dtype: torch.dtype) -> None:
    if not kernel_module.is_installed():
        kernel_module.install()
    keys, values, table = (
        torch.randn(20, 2, 16).to(dtype),
        torch.randn(20, 2, 16).to(dtype),
        torch.arange(20).int().view(2, 10),
    )
    query, requests, lengths = torch.randn(2, 4, 16).to(dtype), torch.tensor([1, 0]), torch.tensor([7, 10])
    outs = []
    for op in (torch.ops.sgl_kernel.decode_attention_cpu, attention.decode_attention_cpu):
        out = torch.zeros(2, 4, 16, dtype=dtype)
        op(query, keys, values, 1.0, 1.0, out, None, None, None, torch.empty(0), table, requests, lengths, 0.25, 0.0,
           False, 0, None, None)  # fmt: skip
        outs.append(out)
    one = torch.ones(2, dtype=torch.int32)
    for op in (torch.ops.sgl_kernel.extend_attention_cpu, attention.extend_attention_cpu):
        out = torch.zeros(2, 4, 16, dtype=dtype)
        op(query, None, None, out, keys, values, 1.0, 1.0, table, requests, lengths, one, torch.tensor([0, 1]), 1, 0.25,
           0.0, False, 0, None, None, None, True)  # fmt: skip
        outs.append(out)
    assert all(torch.equal(out, outs[0]) for out in outs)
    assert bool(outs[0].any())


def test_every_sglang_module_that_wants_cpu_kernels_imports() -> None:
    """In a process of its own, and as SGLang itself comes to it: the platform is found through the entry point."""
    out = python("""
        from sgl_spec.platform_cpu import activate
        if activate.accelerator() is not None:
            activate.accelerator = lambda: None
        activate.activate()
        assert activate.is_active()
        import importlib
        from sglang.srt.utils import is_cpu
        assert is_cpu()
        for name in (
            "sglang.kernels.ops.speculative.cache_locs", "sglang.kernels.ops.speculative.eagle",
            "sglang.kernels.ops.speculative.spec_tree", "sglang.kernels.ops.speculative.reconstruct_tree",
            "sglang.kernels.ops.kvcache.cache_move", "sglang.kernels.ops.sampling.murmur_hash",
            "sglang.srt.mem_cache.allocation", "sglang.srt.layers.attention.intel_amx_backend",
            "sglang.srt.speculative.ngram_worker", "sglang.srt.speculative.eagle_worker_v2",
            "sglang.srt.model_executor.model_runner", "sglang.srt.models.llama",
        ):
            importlib.import_module(name)
        print("all imported")
    """)
    assert "all imported" in out
