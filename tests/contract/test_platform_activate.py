"""When the CPU platform steps in, and when it stays out of the way: always, on a machine with an accelerator."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
import torch
from test_platform_module import python

from sgl_spec.platform_cpu import activate, backend, kernel_module


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """A process in which nothing is installed yet, on a machine without accelerator and kernels. What install() did."""
    calls: list[bool] = []
    monkeypatch.setattr(kernel_module, "is_installed", lambda: bool(calls))
    monkeypatch.setattr(kernel_module, "install", lambda: calls.append(True))
    monkeypatch.setattr(activate, "accelerator", lambda: None)
    monkeypatch.setattr(activate, "has_cpu_kernels", lambda: False)
    for name in (activate.CPU_ENGINE, "OMP_WAIT_POLICY"):
        monkeypatch.setenv(name, "")  # so that what activate() sets is put back
        monkeypatch.delenv(name)
    return calls


def test_it_steps_in_where_it_is_wanted(installed: list[bool], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="sgl_spec")
    activate.activate()
    assert installed == [True]
    assert os.environ[activate.CPU_ENGINE] == "1"
    assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"
    assert [r.message for r in caplog.records if r.levelno == logging.INFO and "CPU platform active" in r.message]


def test_activating_twice_installs_once(installed: list[bool]) -> None:
    activate.activate()
    activate.activate()
    assert installed == [True]


def test_the_users_own_settings_stay(installed: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    activate.activate()
    assert os.environ["OMP_WAIT_POLICY"] == "ACTIVE"


def stays_out(installed: list[bool], caplog: pytest.LogCaptureFixture) -> bool:
    caplog.set_level(logging.INFO)
    engine = os.environ.get(activate.CPU_ENGINE)
    activate.activate()
    said = [r for r in caplog.records if "CPU platform active" in r.message]
    return installed == [] and said == [] and os.environ.get(activate.CPU_ENGINE) == engine


@pytest.mark.parametrize("found", ["cuda", "hip", "xpu", "npu", "mps"])
@pytest.mark.parametrize("asked", ["1", None])
def test_it_stays_out_where_there_is_an_accelerator(
    installed: list[bool],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    found: str,
    asked: str | None,
) -> None:
    monkeypatch.setattr(activate, "accelerator", lambda: found)
    if asked is not None:
        monkeypatch.setenv(activate.CPU_ENGINE, asked)
    assert found in str(activate.wanted())
    assert stays_out(installed, caplog)


def test_it_stays_out_where_sgl_kernel_has_cpu_kernels(
    installed: list[bool], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(activate, "has_cpu_kernels", lambda: True)
    assert "sgl_kernel" in str(activate.wanted())
    assert stays_out(installed, caplog)


def test_it_stays_out_when_told_to(
    installed: list[bool], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(activate.CPU_ENGINE, "0")
    assert activate.CPU_ENGINE in str(activate.wanted())
    assert stays_out(installed, caplog)


def test_an_accelerator_is_asked_for_before_sgl_kernel_is_imported(
    installed: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Importing the CUDA kernels is slow and has effects of its own."""
    monkeypatch.setattr(activate, "accelerator", lambda: "cuda")
    monkeypatch.setattr(activate, "has_cpu_kernels", lambda: pytest.fail("imported sgl_kernel"))
    activate.activate()


@pytest.mark.parametrize("name", ["cuda", "xpu"])
def test_torch_is_believed_about_accelerators(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: name == "cuda")
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(torch.xpu, "is_available", lambda: name == "xpu")
    assert activate.accelerator() == name


def test_a_rocm_torch_is_called_hip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.version, "hip", "6.3")
    assert activate.accelerator() == "hip"


def test_the_process_is_untouched_where_there_is_an_accelerator() -> None:
    """The whole thing, in a process of its own: nothing imported, set or registered."""
    python("""
        import os
        os.environ.pop("SGLANG_USE_CPU_ENGINE", None)
        import torch
        torch.cuda.is_available = lambda: True
        from sgl_spec.platform_cpu import activate, backend
        before = dict(os.environ)
        assert activate.activate() is None
        assert not activate.is_active()
        assert "sgl_kernel" not in sys.modules
        assert dict(os.environ) == before
        assert not hasattr(torch.ops.sgl_kernel, "decode_attention_cpu")
        backend.load()
        assert "sglang" not in sys.modules
    """)


BROKEN = 'raise ImportError("libcuda.so.1: cannot open shared object file")'
HALFWAY = 'import sgl_kernel.part\nraise OSError("undefined symbol")'
# The CUDA build on a machine with a driver and no GPU.
CUDA = 'import torch, sgl_kernel.part\nlibrary = torch.library.Library("sgl_kernel", "DEF")'
WITHOUT = {"ImportError": BROKEN, "OSError halfway": HALFWAY, "only CUDA functions": CUDA}


@pytest.mark.parametrize("content", WITHOUT.values(), ids=WITHOUT)
def test_a_sgl_kernel_without_cpu_functions_is_stood_in_for(tmp_path: Path, content: str) -> None:
    """Raising or not: nothing of it stays, and ours takes its place."""
    package = tmp_path / "sgl_kernel"
    package.mkdir()
    (package / "__init__.py").write_text(content)
    (package / "part.py").write_text("")
    python(
        """
        import os
        os.environ.pop("SGLANG_USE_CPU_ENGINE", None)
        from sgl_spec.platform_cpu import activate
        activate.accelerator = lambda: None
        assert not activate.has_cpu_kernels()
        assert not [name for name in sys.modules if name.startswith("sgl_kernel")]
        activate.activate()
        assert activate.is_active()
        from sgl_kernel import verify_tree_greedy_cpu
        """,
        tmp_path,
    )


def test_a_sgl_kernel_with_cpu_functions_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "sgl_kernel.py").write_text("assign_req_to_token_pool_cpu = print")
    python(
        """
        import os
        os.environ.pop("SGLANG_USE_CPU_ENGINE", None)
        from sgl_spec.platform_cpu import activate
        activate.accelerator = lambda: None
        activate.activate()
        assert not activate.is_active()
        import sgl_kernel
        assert sgl_kernel.assign_req_to_token_pool_cpu is print
        """,
        tmp_path,
    )


def test_backend_registers_only_where_the_platform_is_active(monkeypatch: pytest.MonkeyPatch) -> None:
    """Active: SGLang's registry has our backend under the names it picks without AMX. Not active: untouched."""
    monkeypatch.setattr(activate, "is_active", lambda: False)
    monkeypatch.setattr(backend, "LINEAR_APPLY", "nowhere.to.be.found")
    backend.load()
    monkeypatch.undo()

    code = """
        import os
        from sgl_spec.platform_cpu import activate, backend
        activate.accelerator = lambda: None
        activate.activate()
        from sglang.srt.plugins import load_plugins
        load_plugins()
        from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS
        from sglang.srt.layers.quantization.unquant import UnquantizedLinearMethod
        assert all(ATTENTION_BACKENDS[name] is backend._create_backend for name in backend.BACKEND_NAMES)
        class Runner:
            use_mla_backend = True
        try:
            ATTENTION_BACKENDS["torch_native"](Runner())
        except Exception as error:
            print(type(error).__name__, error)
    """
    assert "PlatformError the CPU platform does not support multi-head latent attention" in python(code)
