"""Where in a template an output may stand, after each of its tokens. Used by the template cursor as tokens are
committed.

Where it stands is not always certain: a hole may just have ended, or hold a token that looks like it. The belief is
kept by the forward algorithm of hidden Markov models (Rabiner, "A tutorial on hidden Markov models", 1989).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sgl_spec.drafting.template.slot_template import NO_VALUE, START, VALUE_PRIOR, Place, SlotTemplate

# P(a given token inside a hole), for a token about which nothing is known.
ANY_TOKEN = 0.02
# Places less likely than this are forgotten; of the others the likeliest few are kept.
MIN_BELIEF = 0.02
MAX_PLACES = 4
# Weights are cut to so many steps: beliefs that hardly differ are drafted from alike, and that is remembered.
STEPS = 32


class Weighted(NamedTuple):
    """A place and P(the output stands there)."""

    place: Place
    weight: float


Belief = tuple[Weighted, ...]  # the likeliest first; the weights sum to at most 1
AT_START: Belief = (Weighted(START, 1.0),)


def step(template: SlotTemplate, belief: Belief, token: int) -> Belief:
    """The belief after one more token of the output; empty when no place allows it."""
    weights: dict[Place, float] = {}
    for place, weight in belief:
        if place.part < 0:
            _step_in_hole(template, place, weight, token, weights)
        elif (run := template.runs[place.part]).tokens[place.at] == token:
            _add(weights, template.after(place.part, place.at + 1), weight * run.q)
    return _normalised(weights)


def _step_in_hole(template: SlotTemplate, place: Place, weight: float, token: int, weights: dict[Place, float]) -> None:
    """Either the hole ended and a run began with the token, or it is part of the hole."""
    part, at, value = place
    hole = template.holes[~part]
    hazard = hole.hazard(at, value)
    noise = ANY_TOKEN
    for one in hole.by_token.get(token, ()):
        _add(weights, template.after(one.run, 1), weight * hazard * one.share)
        noise = one.noise
    if value >= 0:
        times, _, following = hole.values[value]
        value = following.get(token, NO_VALUE)
        if value >= 0:
            noise = max(noise, hole.values[value].times / (times + VALUE_PRIOR))
    _add(weights, Place(part, at + 1, value), weight * (1.0 - hazard) * noise)


def _add(weights: dict[Place, float], place: Place, weight: float) -> None:
    weights[place] = weights.get(place, 0.0) + weight


def _normalised(weights: Mapping[Place, float]) -> Belief:
    total = sum(weights.values())
    if total <= 0.0:
        return ()
    if len(weights) == 1:
        return (Weighted(next(iter(weights)), 1.0),)
    least = MIN_BELIEF * total
    likely = [(place, weight) for place, weight in weights.items() if weight >= least]
    if len(likely) == 1:
        return (Weighted(likely[0][0], 1.0),)
    likely.sort(key=lambda one: -one[1])
    shares = [Weighted(place, int(weight / total * STEPS) / STEPS) for place, weight in likely[:MAX_PLACES]]
    return tuple(one for one in shares if one.weight > 0.0)
