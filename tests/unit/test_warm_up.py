"""After warm_up a round compiles nothing: the first request of a server does not wait for a compiler."""

from __future__ import annotations

import subprocess
import sys

CODE = """
from numba.core.dispatcher import Dispatcher
from sgl_spec.drafting import tree_kernel, weigh_kernel
from sgl_spec.drafting.lookup import suffix_kernel
from sgl_spec.drafting.acceptance import Acceptance
from sgl_spec.drafting.budget import DraftBudget
from sgl_spec.drafting.calibration.tables import Calibration
from sgl_spec.drafting.drafter import DraftRequest
from sgl_spec.drafting.flat_tree import flatten
from sgl_spec.drafting.lookup.lookup_drafter import LookupDrafter
from sgl_spec.drafting.planner import DraftPlanner
from sgl_spec.drafting.lookup.suffix_cursor import SuffixCursor
from sgl_spec.drafting.lookup.suffix_index import SuffixIndex
from sgl_spec.drafting.tree import Chain
from sgl_spec.drafting.warm_up import warm_up

def compiled():
    kernels = (suffix_kernel, tree_kernel, weigh_kernel)
    loops = [loop for kernel in kernels for loop in vars(kernel).values() if isinstance(loop, Dispatcher)]
    return {loop.py_func.__name__: len(loop.signatures) for loop in loops if loop.signatures}

warm_up()
before = compiled()
plain = DraftPlanner([LookupDrafter(64)], DraftBudget(), vocab_size=500)
calibrated = DraftPlanner([LookupDrafter(64)], DraftBudget(), vocab_size=500, calibration=Calibration())
for planner in (plain, calibrated):
    planner.start(DraftRequest("r", [n * n % 7 for n in range(200)], endings=frozenset({5})))
    for token in range(40):
        plan = planner.plan("r", token % 3, 100)
        if token % 2:
            plan = planner.join("r", plan, [Chain((token,), (0.5,), "later")], 100)
        tree = plan.tree
        flatten(tree, 16)
        planner.commit("r", tree, Acceptance((0,), (token % 3,)), (token % 3,))
        tree.graft(Chain((9,), (0.5,), "late"))
        flatten(tree.pruned(15, 0.1), 16)
index = SuffixIndex(100, markers=True)
cursor = SuffixCursor(index)
for n in range(200):
    index.extend([-1, n % 7, 3])
    cursor.extend((n % 7,))
    assert cursor.length >= 0
assert {"search", "append", "walk", "graft", "weigh", "calibrate", "learn", "only", "lay_out"} <= before.keys(), before
assert compiled() == before, (before, compiled())
"""


def test_everything_compiled_is_compiled_at_the_start() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
