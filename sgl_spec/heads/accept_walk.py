"""Tokens per round, from how much would be accepted at each place of a text that is already known.

Offline: stands for the rounds a server would run. A greedy text is the target's own, so a draft is accepted exactly as
far as it agrees with the text (the rule of `drafting.acceptance`, whose tree here is the text itself).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Rounds(NamedTuple):
    """Rounds and the tokens they committed, the target's own token of each round included."""

    rounds: int
    tokens: int

    @property
    def tokens_per_round(self) -> float:
        """1.0 when nothing was accepted; 0.0 when there was no round."""
        return self.tokens / self.rounds if self.rounds else 0.0


def walk(accepted: Sequence[int]) -> Rounds:
    """The rounds over one answer.

    accepted[i]: drafts that would be accepted in a round whose root is the answer's token i; one entry for each token
    but the last. The root's token comes from the prefill, and every round commits its drafts and one token more.
    """
    at = rounds = 0
    while at < len(accepted):
        at += accepted[at] + 1
        rounds += 1
    return Rounds(rounds, len(accepted))


def total(parts: Iterable[Rounds]) -> Rounds:
    """The sum over answers."""
    rounds = tokens = 0
    for part in parts:
        rounds, tokens = rounds + part.rounds, tokens + part.tokens
    return Rounds(rounds, tokens)
