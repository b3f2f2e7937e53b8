"""How wide a round is: the one place that weighs tokens against time. The planner asks when the candidates of all
requests are weighed.

With widths W (nodes of each request's tree, the root included) and a[r, 1] >= a[r, 2] >= ... of request r's candidates,

    tokens(W) = requests + sum over r of a[r, 1] + ... + a[r, W - 1]
    time(W) = T_draft + T_verify(requests, W, context)

and the width with the most tokens a second is chosen. The verifier's forward has W rows for every request, so one width
is one cut through the candidates of all of them, and each request fills it with its best. As a batch grows, rows stop
being nearly free, the best W falls to 1, and that is a plain decode step; when load falls it rises again. This is the
rule of Sequoia's hardware-aware optimiser (arXiv 2402.12374, section 4), taken anew in every round and for a batch.

Two small shares of the time are spent on knowing: on widths whose cost was not seen for long, and, where asking the
drafters itself costs time, on asking although nothing paid lately.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sgl_spec.drafting.cost_model import CostModel, Load

# Of all time, so much may go to trying a width next to the best one, and so much to asking drafters while nothing pays.
# A prior, as SpecConfig.explore: it bounds what adapting can cost.
EXPLORE = 0.01
# A width is tried again when its cost was not seen for so many rounds.
STALE_ROUNDS = 512
# At most so many rounds' time is spent on trying at once; what costs more than that is not tried.
MOST_SAVED_ROUNDS = 4
MOST_RESTED_ROUNDS = 64


class Outlook(NamedTuple):
    """What a round comes to, by its width.

    Attributes:
        widths: int64[n], ascending.
        tokens: float64[n]: expected of all requests together.
        seconds: float64[n]: of the verify forward.
    """

    widths: NDArray[np.int64]
    tokens: NDArray[np.float64]
    seconds: NDArray[np.float64]


class WidthRule:
    """Chooses widths, by costs that it is not told to change.

    Args:
        costs: of rounds.
        explore: share of the time that may go to trying widths, and again to asking while nothing pays.
    """

    def __init__(self, costs: CostModel, explore: float = EXPLORE) -> None:
        self.costs = costs
        self.explore = explore
        self._saved = 0.0  # seconds that may be spent on trying
        self._resting = 0  # rounds still to go without asking
        self._rested_at = 0  # requests then

    def outlook(self, chances: Sequence[NDArray[np.float64]], load: Load, most: int) -> Outlook:
        """Of widths 1 to `most`.

        Args:
            chances: of each request that has candidates float64[any], their a, descending.
        """
        widths = np.arange(1, most + 1)
        return Outlook(widths, load.requests + _expected(chances, most), self.costs.expect(load, widths))

    def choose(
        self, chances: Sequence[NDArray[np.float64]], load: Load, drafting: float, asking: float | None = None
    ) -> int:
        """The width of a round.

        Args:
            chances: as in `outlook`.
            load: of the round.
            drafting: seconds that the round has taken so far.
            asking: of these, what asking the drafters took; None for all.
        """
        widths, tokens, seconds = self.outlook(chances, load, max([len(one) for one in chances], default=0) + 1)
        times = drafting + seconds
        rates = tokens / times
        best = int(np.argmax(rates))  # of equal ones the narrowest
        chosen = self._tried(widths, rates, times, best, load)
        self._rest_after(int(widths[best]), load, drafting if asking is None else asking)
        return int(widths[chosen])

    def rests(self, load: Load) -> bool:
        """Whether this round should not even ask the drafters: nothing paid lately, and asking costs time. A batch that
        has become smaller is asked for at once."""
        if self._resting == 0 or load.requests < self._rested_at:
            self._resting = 0
            return False
        self._resting -= 1
        return True

    def _rest_after(self, width: int, load: Load, drafting: float) -> None:
        """After a round that was not worth drafting, rest as long as keeps asking below its share of the time."""
        if width > 1:
            return
        rounds = drafting / (self.explore * self.costs.seconds(load, 1))
        self._resting = min(int(rounds), MOST_RESTED_ROUNDS)
        self._rested_at = load.requests

    def _tried(
        self, widths: NDArray[np.int64], rates: NDArray[np.float64], times: NDArray[np.float64], best: int, load: Load
    ) -> int:
        """The place of the width to take: mostly the best, now and then one twice or half as wide."""
        plain = float(times[best])
        self._saved = min(self._saved + self.explore * plain, MOST_SAVED_ROUNDS * plain)
        for wanted in (2 * int(widths[best]), int(widths[best]) // 2):
            place = int(np.searchsorted(widths, wanted))
            if not wanted >= 1 or place >= len(widths) or widths[place] != wanted:
                continue
            lost = float(times[place]) * (1.0 - float(rates[place] / rates[best]))
            if lost <= self._saved and self.costs.rounds_since(wanted * load.requests) > STALE_ROUNDS:
                self._saved -= lost
                return place
        return best


def _expected(chances: Sequence[NDArray[np.float64]], most: int) -> NDArray[np.float64]:
    """float64[most]: accepted drafts expected of all requests together with 0, 1, ... drafts for each."""
    worth = np.zeros(most)
    for one in chances:
        worth[1 : len(one) + 1] += one[: most - 1]
    expected: NDArray[np.float64] = np.cumsum(worth)
    return expected
