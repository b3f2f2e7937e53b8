"""Calibration on real text: the repository's own pages, word by word, as if a model had written them. What drafters
claim is off by several points there; after some thousand trials it is not, and no width accepts fewer tokens for it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sgl_spec.drafting.budget import DraftBudget
from sgl_spec.drafting.calibration.buckets import Numbers
from sgl_spec.drafting.calibration.tables import Calibration
from sgl_spec.drafting.cost_model import CostModel, CostTable
from sgl_spec.drafting.lookup.lookup_drafter import LookupDrafter
from sgl_spec.drafting.memory.memory_drafter import MemoryDrafter
from sgl_spec.drafting.memory.output_memory import OutputMemory
from sgl_spec.drafting.planner import DraftPlanner
from sgl_spec.drafting.tree import DraftTree
from sgl_spec.drafting.width_rule import WidthRule
from sgl_spec.testing.replay import Clock, Recorded, accepted, replay

ROOT = Path(__file__).parents[2]
OUTPUT = 100
# The drafters' own word, and witnesses that are as independent as noisy-or has them.
UNTAUGHT = Numbers(damping=1.0, coarse_trust=1e12, fine_trust=1e12, slot_trust=1e12)


def pages() -> list[Recorded]:
    """Every page and module, cut into a prompt and what follows it."""
    ids: dict[str, int] = {}
    recorded = []
    for path in sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "sgl_spec" / "drafting").rglob("*.py")]):
        words = [ids.setdefault(word, len(ids)) for word in re.findall(r"\w+|\s+|[^\w\s]", path.read_text())]
        for start in range(0, len(words) - 3 * OUTPUT, 3 * OUTPUT):
            middle = start + 2 * OUTPUT
            recorded.append(Recorded(words[start:middle], words[middle : middle + OUTPUT], slot=path.suffix))
    return recorded[:: max(len(recorded) // 90, 1)]


def planner(calibration: Calibration | None, drafts: int, clock: Clock | None = None) -> DraftPlanner:
    memory = OutputMemory(1 << 18, 1 << 14)
    drafters = [LookupDrafter(min_a=0.02), MemoryDrafter(memory, min_a=0.02)]
    return DraftPlanner(drafters, DraftBudget(drafts, 0.0), calibration=calibration, clock=clock or Clock())


@pytest.fixture(scope="module")
def texts() -> list[Recorded]:
    return pages()


def error(calibration: Calibration, origin: str) -> float:
    (found,) = (one for one in calibration.errors() if (one.origin, one.depth) == (origin, "all"))
    assert found.nodes > 2_000, "enough to judge by"
    return found.error


def test_after_two_thousand_nodes_q_is_right_to_three_points(texts):
    taught, untaught = Calibration(), Calibration(UNTAUGHT)
    replay(planner(taught, 15), texts)
    replay(planner(untaught, 15), texts)
    for origin in ("lookup", "memory"):
        assert error(taught, origin) <= 0.03
        assert error(taught, origin) < error(untaught, origin)


@pytest.mark.parametrize("drafts", [3, 15])
def test_trees_of_the_same_width_accept_no_fewer_tokens(texts, drafts):
    taught, untaught = (replay(planner(one, drafts), texts) for one in (Calibration(), None))
    assert taught.tokens == untaught.tokens
    assert taught.per_round >= 0.99 * untaught.per_round


def test_a_record_is_accepted_as_far_as_it_was_drafted():
    tree = DraftTree(0)
    assert accepted(tree, [5, 6]).tokens == (5,)
    assert replay(planner(None, 3), [Recorded([1, 2, 1, 2, 1], [2, 1, 2, 1, 2])]).tokens == 4
    assert replay(planner(None, 3), [Recorded([1], [2])]).rounds == 0


def test_a_replay_side_by_side_commits_the_same():
    outputs = [Recorded([1, 2, 3], [4, 5]), Recorded([1], [6, 7, 8])]
    assert replay(planner(None, 0), outputs, 2) == replay(planner(None, 0), outputs) == (3, 3, 0, 0.0)


def test_the_chosen_width_is_as_fast_as_the_best_fixed_one(texts):
    table = CostTable((1, 8, 16, 32, 64, 128), (0.050, 0.057, 0.076, 0.082, 0.139, 0.270))
    costs = CostModel(table)

    def speed(batch: int, drafts: int, rule: WidthRule | None) -> float:
        clock = Clock()
        made = planner(Calibration(), drafts, clock)
        made.adapt(rule)
        done = replay(made, texts, batch, costs.seconds, clock)
        return done.tokens / done.seconds

    for batch in (1, 8):
        fixed = [speed(batch, width - 1, None) for width in (1, 4, 8, 16, 32)]
        assert speed(batch, 31, WidthRule(CostModel(table))) >= 0.98 * max(fixed)
