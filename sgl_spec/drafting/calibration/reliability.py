"""How far the probabilities of verified drafts are from what came of them; read for metrics, never by a round.

An origin's old predictions fade, so that what is said is of its last ten to twenty thousand nodes.

The expected calibration error (Naeini et al., AAAI 2015): predictions are put in ten bins by q, and the difference
between their mean and their share of hits is averaged over the bins, by their size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sgl_spec.drafting.calibration.buckets import DEPTH_NAMES, OTHERS

ALL_DEPTHS = "all"
# When an origin has so many nodes, all its counts are halved.
MOST_NODES = 20_000.0


class OriginError(NamedTuple):
    """The calibration error of one origin's drafts.

    Attributes:
        origin: its name; "others" for all that came after the first thirty.
        depth: "1", "2", "3-4", "5-8", "9+", or "all".
        nodes: verified nodes whose parent was accepted, of the last ones.
        predicted: mean of their q.
        accepted: share of them that was accepted.
        error: expected calibration error, from 0 to 1.
    """

    origin: str
    depth: str
    nodes: int
    predicted: float
    accepted: float
    error: float


def fade(reliability: NDArray[np.float64]) -> None:
    """Halve the counts of origins that have many nodes, in place."""
    full = reliability[..., 0].sum(axis=(1, 2)) > MOST_NODES
    reliability[full] *= 0.5


def errors_of(reliability: NDArray[np.float64], origins: Mapping[str, int]) -> tuple[OriginError, ...]:
    """One entry for each origin that had nodes, over all depths, then one for each of its depths.

    Args:
        reliability: float64[origins, depths, bins, 3]: nodes, sum of their q, hits.
        origins: names and rows; the row OTHERS is known without.
    """
    found: list[OriginError] = []
    for name, row in (*origins.items(), ("others", OTHERS)):
        for depth, bins in (
            (ALL_DEPTHS, reliability[row].sum(axis=0)),
            *zip(DEPTH_NAMES, reliability[row], strict=True),
        ):
            nodes, predicted, hits = bins.sum(axis=0)
            if nodes:
                error = np.abs(bins[:, 1] - bins[:, 2]).sum() / nodes
                found.append(OriginError(name, depth, int(nodes), predicted / nodes, hits / nodes, float(error)))
    return tuple(found)


def told(errors: Iterable[OriginError]) -> dict[str, Any]:
    """As JSON, by origin: nodes, error, and the error at each depth."""
    said: dict[str, Any] = {}
    for origin, depth, nodes, _, _, error in errors:
        if depth == ALL_DEPTHS:
            said[origin] = {"nodes": nodes, "error": round(error, 4), "depths": {}}
        else:
            said[origin]["depths"][depth] = round(error, 4)
    return said
