"""Loops are compiled, and kept where numba finds a folder to keep them in; where it finds none they still run."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sgl_spec import compiled
from sgl_spec.compiled import kept_njit


def _twice(number):
    return 2 * number


def test_compiled_code_is_kept_on_disk():
    twice = kept_njit()(_twice)
    assert twice(4) == 8
    assert twice.stats.cache_path


NO_FOLDER = """
from numba.core import caching
for cache in (caching.CacheImpl, *caching.CacheImpl.__subclasses__()):
    cache._locator_classes = []
from sgl_spec.drafting.budget import DraftBudget
from sgl_spec.drafting.drafter import DraftRequest
from sgl_spec.drafting.lookup.lookup_drafter import LookupDrafter
from sgl_spec.drafting.planner import DraftPlanner
import sgl_spec.platform_cpu.attention_kernel, sgl_spec.platform_cpu.tree_ops
planner = DraftPlanner([LookupDrafter()], DraftBudget())
planner.start(DraftRequest("r", [1, 2, 3, 1, 2]))
print(planner.plan("r", 2, 10).tree.tokens)
"""


def test_without_a_folder_drafting_works_all_the_same():
    done = subprocess.run([sys.executable, "-c", NO_FOLDER], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().startswith("[2, 3")


def test_what_else_numba_refuses_is_not_hidden(monkeypatch):
    def refusing(**options):
        raise RuntimeError("something else")

    monkeypatch.setattr(compiled, "njit", refusing)
    with pytest.raises(RuntimeError, match="something else"):
        kept_njit()(_twice)
