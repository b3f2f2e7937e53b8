"""Replays recorded outputs through a planner: every round of draft, verify and accept, with the record in the model's
place. It measures drafting and calibration offline, as a greedy or seeded model would have met them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sgl_spec.drafting.acceptance import Acceptance
from sgl_spec.drafting.drafter import DraftRequest
from sgl_spec.drafting.hint import Hint
from sgl_spec.drafting.planner import DraftPlanner
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
    """

    tokens: int
    rounds: int
    drafted: int

    @property
    def per_round(self) -> float:
        return self.tokens / max(self.rounds, 1)


def replay(planner: DraftPlanner, outputs: Sequence[Recorded], batch: int = 1) -> Replayed:
    """Decode `outputs` in their order, `batch` of them side by side.

    Args:
        planner: started and stopped with every output.
    """
    waiting = [(f"replayed-{number}", one) for number, one in enumerate(outputs)]
    running: list[_Running] = []
    total = Replayed(0, 0, 0)
    while waiting or running:
        while waiting and len(running) < batch:
            running.append(_Running(planner, *waiting.pop(0)))
        running = [one for one in running if not one.ended()]
        for one in running:
            total = Replayed(*(a + b for a, b in zip(total, one.round(), strict=True)))
    return total


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

    def round(self) -> Replayed:
        coming = self.recorded.output[self.done :]
        tree = self.planner.plan(self.rid, self.recorded.output[self.done - 1], len(coming)).tree
        acceptance = accepted(tree, coming)
        self.planner.commit(self.rid, tree, acceptance, acceptance.tokens)
        self.done += len(acceptance.tokens)
        return Replayed(len(acceptance.tokens), 1, tree.num_drafts)


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
