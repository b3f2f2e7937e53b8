"""Compiles what a round runs, before the first round: a server calls it while it starts. The first start on a machine
takes some seconds for it, later ones load the code from numba's cache on disk in a fraction of one.
"""

from __future__ import annotations

from functools import cache

from sgl_spec.drafting.budget import DraftBudget, combine
from sgl_spec.drafting.calibration.tables import Calibration
from sgl_spec.drafting.flat_tree import flatten
from sgl_spec.drafting.lookup.suffix_cursor import SuffixCursor
from sgl_spec.drafting.lookup.suffix_index import SuffixIndex
from sgl_spec.drafting.lookup.suffix_search import search_chains
from sgl_spec.drafting.memory.slot_key import SlotKey
from sgl_spec.drafting.tree_merge import gather

_TEXT = (1, 2, 3, 1, 2)


@cache
def warm_up() -> None:
    """Run every compiled loop of drafting once; further calls do nothing."""
    index = SuffixIndex()
    index.extend(_TEXT)
    cursor = SuffixCursor(index)
    cursor.extend(_TEXT)
    chains = search_chains(index.automaton, cursor.state, cursor.length, len(_TEXT), 0.0, "warm_up")
    flatten(combine(chains, _TEXT[-1], DraftBudget()), DraftBudget().max_drafts + 1)
    calibration = Calibration()
    situation = calibration.situation(SlotKey("", "", ""), 0.0)
    weighed = calibration.weigh(gather([chains], _TEXT[-1], len(_TEXT)), situation, len(_TEXT), 0.0)
    calibration.learn(weighed, situation, len(weighed.best), _TEXT)
