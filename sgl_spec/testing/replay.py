"""Replays recorded outputs through a planner: every round of draft, verify and accept, with the record in the model's
place. It measures drafting, calibration and widths offline, as a greedy or seeded model would have met them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from sgl_spec.drafting.acceptance import Acceptance
from sgl_spec.drafting.cost_model import Load
from sgl_spec.drafting.drafter import DraftRequest
from sgl_spec.drafting.hint import Hint
from sgl_spec.drafting.planner import DraftPlan, DraftPlanner
from sgl_spec.drafting.tree import ROOT, DraftTree


class Recorded(NamedTuple):
    """One request as it was once answered.

    Attributes:
        prompt, output: token ids.
        program, slot: who asked.
        temperature: it was sampled at.
        owner: its isolation key.
    """

    prompt: Sequence[int]
    output: Sequence[int]
    program: str = "replay"
    slot: str = "slot"
    temperature: float = 0.0
    owner: str = ""


class Replayed(NamedTuple):
    """What it came to.

    Attributes:
        tokens: committed in rounds (the first of every output comes from the prefill).
        rounds: of single requests; tokens / rounds is tokens a step.
        drafted: nodes verified.
        seconds: of all rounds, by `cost`; 0 without one.
    """

    tokens: int
    rounds: int
    drafted: int
    seconds: float

    @property
    def per_round(self) -> float:
        return self.tokens / max(self.rounds, 1)


class Clock:
    """Stands still until it is told; give the same one to the planner and its replay."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def free(load: Load, width: int) -> float:
    """The cost of rounds for replays that do not ask about time."""
    return 0.0


def replay(
    planner: DraftPlanner,
    outputs: Sequence[Recorded],
    batch: int = 1,
    cost: Callable[[Load, int], float] = free,
    clock: Clock | None = None,
) -> Replayed:
    """Decode `outputs` in their order, `batch` of them side by side.

    Args:
        planner: started and stopped with every output.
        cost: seconds that a round of a load and width takes.
        clock: is moved on by every round. A planner with a width rule must have it, or it learns what replaying takes.
    """
    waiting = [(f"replayed-{number}", one) for number, one in enumerate(outputs)]
    running: list[_Running] = []
    total = Replayed(0, 0, 0, 0.0)
    while waiting or running:
        while waiting and len(running) < batch:
            running.append(_Running(planner, *waiting.pop(0)))
        running = [one for one in running if not one.ended()]
        if running:
            done = _round(planner, running, cost)
            total = Replayed(*(a + b for a, b in zip(total, done, strict=True)))
            if clock is not None:
                clock.now += done.seconds
    return total


def _round(planner: DraftPlanner, running: Sequence[_Running], cost: Callable[[Load, int], float]) -> Replayed:
    load = Load(len(running), sum(len(one.recorded.prompt) + one.done for one in running))
    planner.open_round(load)
    plan = planner.narrow([one.rid for one in running], [one.plan() for one in running])
    tokens = sum(one.commit(this.tree) for one, this in zip(running, plan.plans, strict=True))
    drafted = sum(this.tree.num_drafts for this in plan.plans)
    return Replayed(tokens, len(running), drafted, cost(load, plan.width))


class _Running:
    def __init__(self, planner: DraftPlanner, rid: str, recorded: Recorded) -> None:
        self.planner, self.rid, self.recorded, self.done = planner, rid, recorded, 1
        program, slot = recorded.program, recorded.slot
        planner.start(
            DraftRequest(
                rid, recorded.prompt, program, slot, owner=recorded.owner, hint=Hint(program=program, slot=slot),
                temperature=recorded.temperature,
            )
        )  # fmt: skip
        planner.observe(rid, recorded.output[:1])

    def ended(self) -> bool:
        if self.done < len(self.recorded.output):
            return False
        self.planner.finish(self.rid, self.recorded.output)
        self.planner.stop(self.rid)
        return True

    def plan(self) -> DraftPlan:
        output = self.recorded.output
        return self.planner.plan(self.rid, output[self.done - 1], len(output) - self.done)

    def commit(self, tree: DraftTree) -> int:
        """Tokens committed."""
        acceptance = accepted(tree, self.recorded.output[self.done :])
        self.planner.commit(self.rid, tree, acceptance, acceptance.tokens)
        self.done += len(acceptance.tokens)
        return len(acceptance.tokens)


def accepted(tree: DraftTree, coming: Sequence[int]) -> Acceptance:
    """What a model that writes `coming`, at least one token, accepts of `tree`."""
    nodes, tokens = [ROOT], [coming[0]]
    while len(tokens) < len(coming):
        following = [child for child in tree.children(nodes[-1]) if tree.tokens[child] == tokens[-1]]
        if not following:
            break
        nodes.append(following[0])
        tokens.append(coming[len(tokens)])
    return Acceptance(tuple(nodes), tuple(tokens))
