"""Numbers out of samples: medians with spread, tokens per step, acceptance by origin.

Tokens per step. A request's first token comes out of prefill; every further token out of a decode step. A step is one
target forward after prefill: for plain decoding, one per further token; for a speculating server, one per round as
the server counts them, rounds without drafts included (of two counts, sgl_spec's own and SGLang's, the larger).
So for any set of calls

    tokens per step = sum(completion tokens - 1) / sum(steps)

which is exactly 1 without speculation. Tokens a stop cut off do not count; the step that made them does.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sgl_spec.frontend.call_log import CallRecord

# One token the mask leaves, and text it leaves in several tokenisations; a node has at most one of the two.
FORCED_ORIGINS = ("grammar.forced", "grammar.text")


class Spread(NamedTuple):
    """A median with the quartiles around it; of one value, all three are that value."""

    median: float
    low: float
    high: float


class OriginTotal(NamedTuple):
    """Draft nodes of one origin.

    Attributes:
        origin: its name, as the server reports it.
        drafted: nodes that were verified.
        accepted: nodes that were kept.
        reached: nodes whose parent was kept, so that the target had its word on them; None when a server did not say.
    """

    origin: str
    drafted: int
    accepted: int
    reached: int | None = None

    @property
    def accepted_of_reached(self) -> float | None:
        """Share of the reached nodes that were kept: what calibration calls q. None when unknown or none was reached.

        Nodes under a refused parent say nothing about their own origin, so accepted / drafted is no such share.
        """
        return self.accepted / self.reached if self.reached else None


def spread(values: Sequence[float]) -> Spread:
    """Median and quartiles. Raises ValueError when there is no value."""
    if not values:
        raise ValueError("No values to take a median of.")
    if len(values) == 1:
        return Spread(values[0], values[0], values[0])
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(middle, low, high)


def decode_steps(call: CallRecord) -> int:
    """Target forwards after prefill that this call took part in (see the module's head)."""
    counts = [call.spec_verify_ct, (call.spec or {}).get("rounds")]
    known = [int(count) for count in counts if count is not None]
    return max(known) if known else max(0, call.completion_tokens - 1)


def tokens_per_step(calls: Iterable[CallRecord]) -> float | None:
    """Decoded tokens per target forward; None when nothing was decoded."""
    generated = [call for call in calls if call.completion_tokens > 1]
    steps = sum(decode_steps(call) for call in generated)
    return sum(call.completion_tokens - 1 for call in generated) / steps if steps else None


def origin_totals(calls: Iterable[CallRecord]) -> tuple[OriginTotal, ...]:
    """Drafted and accepted nodes by origin, most accepted first. A node with two origins counts for each."""
    drafted: Counter[str] = Counter()
    accepted: Counter[str] = Counter()
    reached: Counter[str] = Counter()
    untold: set[str] = set()
    for spec in (call.spec or {} for call in calls):
        drafted.update(spec.get("drafted", {}))
        accepted.update(spec.get("accepted", {}))
        reached.update(spec.get("reached", {}))
        if "reached" not in spec:
            untold.update(spec.get("drafted", {}))
    origins = sorted((drafted.keys() | accepted.keys()) - {"all"}, key=lambda origin: (-accepted[origin], origin))
    return tuple(
        OriginTotal(origin, drafted[origin], accepted[origin], None if origin in untold else reached[origin])
        for origin in origins
    )


def forced_share(calls: Iterable[CallRecord]) -> float | None:
    """Share of all generated tokens that were accepted from drafts of text the grammar forced (`FORCED_ORIGINS`).

    The first token of each call, which prefill makes, counts among all. None when no call reports its drafts.
    """
    told = [call for call in calls if call.spec is not None and call.completion_tokens]
    accepted = sum((call.spec or {}).get("accepted", {}).get(origin, 0) for call in told for origin in FORCED_ORIGINS)
    tokens = sum(call.completion_tokens for call in told)
    return accepted / tokens if tokens else None


def abstained(calls: Iterable[CallRecord]) -> dict[str, int]:
    """Rounds in which nothing was drafted, by reason."""
    reasons: Counter[str] = Counter()
    for call in calls:
        reasons.update((call.spec or {}).get("abstained", {}))
    return dict(reasons)
