"""How many steps of a draft head a round takes, and for which requests: where the expected extra tokens pay for their
time. The width rule's sum, with the head's time and tokens in it.

Where it stands in a round: after the other drafters, before the head. For k steps, and the n requests that gain most,

    tokens = tokens of the others at width W + gains of those n
    time   = T_verify(requests, W, context) + T_extend(n) + (k - 1) * T_step(n)

with W as much wider than without the head as rounds with k steps were lately. The best k and n are taken if no round
without the head has more tokens a second.

A small share of the time goes to asking although it does not seem to pay, or what the head is worth could never be
found out again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sgl_spec.drafting.cost_model import CostModel, Load
from sgl_spec.drafting.width_rule import WidthRule

# Prior of how many nodes wider a round is for each step, and how many rounds the mean of it is over.
NODES_A_STEP, ROUNDS_OF_WIDTH = 2.0, 20.0
# At most so many probes are saved up for.
_MOST_PROBES = 2.0


class HeadCosts(NamedTuple):
    """By requests in the place of rows: one extend, and one more step."""

    extend: CostModel
    step: CostModel

    def seconds(self, requests: NDArray[np.int64], steps: int) -> NDArray[np.float64]:
        """float64[n] for int64[n] requests, ascending."""
        alone = Load(1, 0)
        return self.extend.expect(alone, requests) + (steps - 1) * self.step.expect(alone, requests)

    def observe(self, requests: int, steps: int, extend: float, grow: float) -> None:
        """A round asked the head: seconds of its extend, and of all its further steps."""
        self.extend.observe(Load(requests, 0), 1, extend)
        if steps > 1:
            self.step.observe(Load(requests, 0), 1, grow / (steps - 1))


class Hope(NamedTuple):
    """A request that may ask.

    Attributes:
        chances: float64[any]: a of what the others drafted, descending.
        gains: float64[most]: tokens that 1, 2, ... `most` steps would bring it.
        waited: rounds since it asked.
    """

    chances: NDArray[np.float64]
    gains: NDArray[np.float64]
    waited: int


class _Choice(NamedTuple):
    rate: float
    steps: int
    asking: NDArray[np.int64]


class HeadRule:
    """Chooses steps, by costs that it is not told to change.

    Args:
        rule: of widths, for what a round costs without the head.
        costs: of the head.
        most_width: of a tree.
    """

    def __init__(self, rule: WidthRule, costs: HeadCosts, most_width: int) -> None:
        self.costs = costs
        self._rule = rule
        self._most_width = most_width
        self._widened: dict[int, float] = {}
        self._plain_width = self._steps = 0  # of the round
        self._saved = 0.0  # seconds that may be spent on asking

    def choose(self, hopes: Sequence[Hope], load: Load, most: int) -> list[int]:
        """Steps of each request, from 0 to `most`; all that ask take the same number."""
        outlook = self._rule.outlook([one.chances for one in hopes], load, self._most_width)
        rates = outlook.tokens / outlook.seconds
        plain = int(np.argmax(rates))
        self._plain_width = int(outlook.widths[plain])
        best = _Choice(float(rates[plain]), 0, np.empty(0, np.int64))
        requests = np.arange(1, len(hopes) + 1)
        for steps in range(1, most + 1):
            gains = np.array([one.gains[steps - 1] for one in hopes])
            order = np.argsort(-gains, kind="stable")
            at = min(self._plain_width + round(self._wider(steps)), self._most_width) - 1
            seconds = outlook.seconds[at] + self.costs.seconds(requests, steps)
            with_head = (outlook.tokens[at] + np.cumsum(gains[order])) / seconds
            count = int(np.argmax(with_head))
            if with_head[count] > best.rate:
                best = _Choice(float(with_head[count]), steps, order[: count + 1])
        self._saved += self._rule.explore * float(outlook.seconds[plain])
        best = best if best.steps else self._probe(hopes, best, most)
        self._steps = best.steps
        return [best.steps if place in best.asking else 0 for place in range(len(hopes))]

    def widened(self, width: int) -> None:
        """The round became so wide."""
        if self._steps:
            known = self._wider(self._steps)
            self._widened[self._steps] = known + (max(width - self._plain_width, 0) - known) / ROUNDS_OF_WIDTH
            self._steps = 0

    def _wider(self, steps: int) -> float:
        return self._widened.get(steps, NODES_A_STEP * steps)

    def _probe(self, hopes: Sequence[Hope], best: _Choice, most: int) -> _Choice:
        """The request that waited longest asks for all steps, if enough time was saved for it. The round then is as
        wide as what the head brought deserves, so no more than the head's own time is at stake."""
        price = float(self.costs.seconds(np.array([1]), most)[0])
        self._saved = min(self._saved, _MOST_PROBES * price)
        if self._saved < price:
            return best
        self._saved -= price
        waited = [one.waited for one in hopes]
        return best._replace(steps=most, asking=np.array([waited.index(max(waited))]))
