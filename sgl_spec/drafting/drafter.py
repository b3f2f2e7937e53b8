"""What a drafter is. The planner asks every drafter at the start of a round and tells it what came of it.

A drafter may be wrong as often as it likes: the verifier samples the target's own token at every node, so a
bad guess costs time and never changes the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from sgl_spec.drafting.tree import Chain


class DraftRequest(NamedTuple):
    """What is known of a request before its first round.

    Attributes:
        rid: the server's name for the request.
        prompt: token ids of the whole prompt (and of output already there when a request is resumed).
        program: the program that asks, from its hint.
        slot: which `gen` of that program, from its hint.
        endings: tokens that end the request (end of text, stop tokens). They are never drafted: accepted inside a
            run, one would be followed by tokens that the target alone would not have produced.
    """

    rid: str
    prompt: Sequence[int]
    program: str | None = None
    slot: str | None = None
    endings: frozenset[int] = frozenset()


class Drafter(Protocol):
    """A source of guesses. `origin` is its name in trees, counts and metrics."""

    origin: str

    def start(self, request: DraftRequest) -> None:
        """A request begins, or begins again with a longer prompt."""

    def propose(self, rid: str, max_tokens: int) -> list[Chain]:
        """Chains from the last committed token on, together about `max_tokens` nodes; may be empty."""

    def observe(self, rid: str, tokens: Sequence[int]) -> None:
        """`tokens` were committed, in order, by the prefill or by a round."""

    def stop(self, rid: str) -> None:
        """The request is over; forget it. Also called for requests that never started here."""
