"""How many nodes a round may verify at most, and chains joined to one tree within that."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sgl_spec.drafting.tree import Chain, DraftTree
from sgl_spec.drafting.tree_merge import NO_LIMITS, Limits, merged
from sgl_spec.errors import ConfigError


@dataclass(frozen=True)
class DraftBudget:
    """What a round may spend.

    Attributes:
        max_drafts: most drafts in a tree, 0 or more. The verifier's width is one more, for the root.
        min_gain: what verifying one more node costs, as a share of a plain decode step: a node that is
            accepted with a smaller probability does not pay. The default is a prior: SmolLM2-135M on 2 CPU
            cores takes 50 ms for 1 token and 76 ms for 16, so 0.035 of a step a node. Where rounds choose their
            width (width_rule), what is cheaper than this is not even weighed.

    Raises:
        ConfigError: max_drafts below 0, or min_gain outside [0, 1].
    """

    max_drafts: int = 15
    min_gain: float = 0.04

    def __post_init__(self) -> None:
        if self.max_drafts < 0:
            raise ConfigError(f"max_drafts is {self.max_drafts}; it must be 0 or more")
        if not 0.0 <= self.min_gain <= 1.0:
            raise ConfigError(f"min_gain is {self.min_gain}; it is a share of a step, from 0 to 1")


def combine(chains: Iterable[Chain], root_token: int, budget: DraftBudget, limits: Limits = NO_LIMITS) -> DraftTree:
    """One tree of all `chains` below `root_token`, within `limits`, pruned to the nodes that pay within `budget`.

    Raises:
        DraftError: a chain is malformed or beyond the limits.
    """
    return merged([list(chains)], root_token, budget.max_drafts, budget.min_gain, limits)
