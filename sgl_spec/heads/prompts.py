"""Prompt i of a seed: which kind of work it is, what it says, how it is answered.

Stands before any round. The kinds are those of the programs this project is for; the texts are our own or the
model's. Nothing is read from a file, so the same seed gives the same prompts on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sgl_spec.heads import prompts_code, prompts_data, prompts_talk
from sgl_spec.heads.body import Body
from sgl_spec.heads.draw import Draw

# Raise it whenever the same (seed, number) would give another prompt: older data then does not go on with new prompts.
GENERATOR = 1

# A small model's text falls apart at higher temperatures, and a head has nothing to learn from what is left.
GREEDY_SHARE = 0.65
TEMPERATURES = (0.3, 0.6, 0.9)


class Kind(NamedTuple):
    """A kind of work: who draws it, and how often, as a weight among the kinds."""

    build: Callable[[Draw], Body]
    weight: float


KINDS: dict[str, Kind] = {
    "self": Kind(prompts_talk.self_chat, 0.32),
    "chat": Kind(prompts_talk.chat, 0.16),
    "edit": Kind(prompts_code.edit, 0.13),
    "math": Kind(prompts_data.problem, 0.12),
    "rag": Kind(prompts_talk.passage, 0.07),
    "code": Kind(prompts_code.code, 0.05),
    "json": Kind(prompts_data.call, 0.04),
    "extract": Kind(prompts_data.record, 0.03),
    "react": Kind(prompts_data.agent, 0.04),
    "sql": Kind(prompts_code.sql, 0.02),
    "judge": Kind(prompts_talk.judge, 0.02),
}
WEIGHTS = {name: kind.weight for name, kind in KINDS.items()}


class Prompt(NamedTuple):
    """One prompt and how it is to be answered.

    Attributes:
        number: with the seed it determines everything else.
        kind: a key of `KINDS`.
        held_out: kept out of training.
        body: what is asked.
        temperature: of the answers; 0 is greedy.
        seed: for the server, where it samples (a turn the model writes is always sampled).
    """

    number: int
    kind: str
    held_out: bool
    body: Body
    temperature: float
    seed: int


def make_prompt(seed: int, number: int, held_share: float) -> Prompt:
    """Prompt `number` of `seed`. `held_share` of the prompts are held out."""
    draw = Draw(seed, number, held_share)
    kind = draw.weighted(WEIGHTS)
    temperature = 0.0 if draw.chance(GREEDY_SHARE) else draw.form(TEMPERATURES)
    server_seed = draw.seed()
    return Prompt(number, kind, draw.held_out, KINDS[kind].build(draw), temperature, server_seed)
