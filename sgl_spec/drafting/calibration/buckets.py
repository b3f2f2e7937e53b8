"""How trials are told apart: by what the drafters said, how deep the node is, at which temperature, by whom. Read in
every round, by the compiled loops; all numbers of the calibration that somebody chose are here.

They were chosen on 51,000 tokens that the bundled model wrote to nine kinds of prompts (testing/replay.py
replays such outputs): log-loss per candidate 0.282 with the drafters' own q, 0.271
by origins and bucket, 0.2685 by depth and temperature too, 0.267 with the slot. Match length and occurrences, kept
apart beside q, were worth less than 0.001 more: the q of the search is a function of both, and its buckets tell them
apart.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

# Buckets of the prior q begin here: as wide as tells the drafters' usual values apart, narrower where a node is nearly
# sure, as 0.96 and 0.98 are worth far different depths.
EDGES = np.array([0.03, 0.06, 0.1, 0.16, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.92, 0.96, 0.98])
BUCKETS = len(EDGES) + 1
# Depths 1, 2, 3 to 4, 5 to 8, and deeper.
DEPTH_EDGES = np.array([1, 2, 4, 8])
DEPTH_NAMES = ("1", "2", "3-4", "5-8", "9+")
DEPTHS = len(DEPTH_NAMES)
TEMPERATURE_NAMES = ("greedy", "up to 0.5", "up to 1", "above 1")
TEMPERATURES = len(TEMPERATURE_NAMES)
SITUATIONS = DEPTHS * TEMPERATURES
# Sets of origins that have cells of their own, and origins; whatever comes later is not calibrated.
MOST_SETS, MOST_ORIGINS = 64, 30
OTHERS = MOST_ORIGINS  # the bit that all later origins share
JOINED = OTHERS + 1  # the bit of nodes that were weighed together with chains that came later in the round
# The bins of predicted q that a calibration error is taken over.
BINS = 10


class Numbers(NamedTuple):
    """What may be tuned.

    Attributes:
        least_prior, most_prior: a guess is neither impossible nor sure.
        damping: how far several origins that agree are independent witnesses, from 0 (the surest one counts) to 1
            (noisy-or). A prior: what their set is worth is measured.
        coarse_trust, fine_trust, slot_trust: so many trials the level before counts as, at each level.
        coarse_memory, fine_memory, slot_memory: so many of the last trials of a cell count.
    """

    least_prior: float = 0.001
    most_prior: float = 0.995
    damping: float = 0.5
    coarse_trust: float = 8.0
    fine_trust: float = 16.0
    slot_trust: float = 32.0
    coarse_memory: float = 1000.0
    fine_memory: float = 1000.0
    slot_memory: float = 100.0


DEFAULT = Numbers()


def temperature_bucket(temperature: float) -> int:
    """0 for greedy decoding, then up to 0.5, up to 1, above. What is no temperature counts as the last."""
    if temperature == 0.0:
        return 0
    if not math.isfinite(temperature) or temperature > 1.0:
        return 3
    return 1 if temperature <= 0.5 else 2
