"""The table of SGLang names: all there in the pinned version, and a change is noticed and named."""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import sgl_spec
from sgl_spec.server import sglang_contract
from sgl_spec.server.sglang_names import CALL, READ, Name


def test_the_installed_sglang_has_every_name() -> None:
    assert [row for row in sglang_contract.check_contract() if not row.ok] == []


def _imported() -> dict[str, str]:
    """Every name our code imports from SGLang and from the grammar libraries it brings, with the file that does."""
    found: dict[str, str] = {}
    for file in sorted((Path(sgl_spec.__file__).parent).rglob("*.py")):
        tree = ast.parse(file.read_text())
        modules: dict[str, str] = {}  # our name for an imported module -> the module
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in OTHERS:
                for alias in node.names:
                    module = f"{node.module}.{alias.name}"
                    if importlib.util.find_spec(node.module).submodule_search_locations and _is_module(module):
                        modules[alias.asname or alias.name] = module
                    else:
                        found[f"{node.module}:{alias.name}"] = file.name
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
                found[f"{modules[node.value.id]}:{node.attr}"] = file.name
    return found


OTHERS = ("sglang", "xgrammar", "llguidance")


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def test_every_imported_name_is_in_the_table() -> None:
    table = {name.path for name in sglang_contract.CONTRACT}
    imported = _imported()
    assert len(imported) > 60
    missing = {
        name: file for name, file in imported.items() if not any(f"{row}.".startswith(f"{name}.") for row in table)
    }
    assert missing == {}


@pytest.mark.parametrize(
    ("name", "detail"),
    [
        (Name("sglang.srt.nowhere:Thing", CALL), "not found"),
        (Name("sglang.srt.layers.sampler:no_such_function", CALL), "not found"),
        (Name("sglang.srt.layers.sampler:register_sampler_backend", CALL, ("colour",)), "has no parameter colour"),
        (Name("sglang.srt.managers.schedule_batch:Req", READ, ("shoe_size",)), "has no attribute shoe_size"),
    ],
)
def test_a_change_is_noticed(monkeypatch: pytest.MonkeyPatch, name: Name, detail: str) -> None:
    monkeypatch.setattr(sglang_contract, "CONTRACT", (name,))
    (broken,) = [row for row in sglang_contract.check_contract() if not row.ok]
    assert detail in broken.detail
    assert name.path in sglang_contract.refusal([broken])


def test_another_version_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sglang_contract.metadata, "version", lambda _: "0.5.24")
    first = sglang_contract.check_contract()[0]
    assert not first.ok
    assert "found 0.5.24, wanted 0.5.23" in first.detail


def test_on_another_sglang_the_sampler_of_off_refuses_with_the_reason() -> None:
    """In a process of its own: what a plugin registers stays."""
    script = """
from importlib import metadata
real = metadata.version
metadata.version = lambda name: "0.5.24" if name == "sglang" else real(name)
from sgl_spec.server import plugin
plugin.load()
from sglang.srt.layers import sampler
from sglang.srt.server_args import SAMPLING_BACKEND_CHOICES
assert "sgl_spec" in SAMPLING_BACKEND_CHOICES
try:
    sampler._CUSTOM_SAMPLER_FACTORIES["sgl_spec"]()
except Exception as error:
    print(type(error).__name__, error)
"""
    env = {**os.environ, "SGLANG_USE_CPU_ENGINE": "1"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=env, timeout=300)
    assert "ContractError SGL_SPEC cannot run on this SGLang: sglang found 0.5.24" in done.stdout, done.stderr[-2000:]
