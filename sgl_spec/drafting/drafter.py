"""What a drafter is. The planner asks every drafter at the start of a round and tells it what came of it.

A drafter may be wrong as often as it likes: the verifier samples the target's own token at every node, so a
bad guess costs time and never changes the text.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from sgl_spec.drafting.constraint import Constraint
from sgl_spec.drafting.hint import Hint
from sgl_spec.drafting.tree import Chain, DraftTree

NO_HINT = Hint()


class DraftRequest(NamedTuple):
    """What is known of a request before its first round.

    Attributes:
        rid: the server's name for the request.
        prompt: token ids of the whole prompt.
        program: the program that asks, from its hint.
        slot: which `gen` of that program, from its hint.
        endings: tokens that end the request (end of text, stop tokens). They are never drafted: accepted inside a
            run, one would be followed by tokens that the target alone would not have produced.
        owner: the request's isolation key (`extra_key`, `cache_salt`). What one owner's requests produced is never
            drafted for another's.
        hint: everything the client said.
        constraint: the grammar the output is held to, or None.
        constraint_key: names that grammar (a schema, a regex), the same for every request held to it.
        temperature: it is sampled at; 0 for greedy decoding.
    """

    rid: str
    prompt: Sequence[int]
    program: str | None = None
    slot: str | None = None
    endings: frozenset[int] = frozenset()
    owner: str = ""
    hint: Hint = NO_HINT
    constraint: Constraint | None = None
    constraint_key: str | None = None
    temperature: float = 0.0


class Drafter(Protocol):
    """A source of guesses. `origin` is its name in trees, counts and metrics.

    A class that names Drafter as its base needs to write only `propose`, and what of the rest it wants to know.
    """

    origin: str

    def start(self, request: DraftRequest) -> None:
        """A request begins, or begins again (after it was retracted): nothing of its output was observed yet."""

    @abstractmethod
    def propose(self, rid: str, max_tokens: int) -> Sequence[Chain]:
        """Chains from the last committed token on, together about `max_tokens` nodes: a list, which may be empty, or a
        ChainBlock."""

    def observe(self, rid: str, tokens: Sequence[int]) -> None:
        """`tokens` were committed, in order, by the prefill or by a round."""

    def finish(self, rid: str, output: Sequence[int]) -> None:
        """The request ended by itself (it was not aborted) with `output`, which may be shorter than what was observed:
        a stop cuts tokens off. `stop` follows."""

    def notes(self, rid: str) -> Mapping[str, Any]:
        """What the request's account should say beside the counts, as JSON values; asked at its end, before `stop`."""
        return {}

    def stop(self, rid: str) -> None:
        """The request is over; forget it. Also called for requests that never started here."""


class Refiner(Protocol):
    """What looks at the whole tree of the drafters' chains before it is pruned: a grammar, which forbids and forces.

    Told of requests as a drafter is; in a round first asked `begin_round`, then `cut` for every chain, then `extend`.
    """

    origin: str

    def start(self, request: DraftRequest) -> None: ...

    def observe(self, rid: str, tokens: Sequence[int]) -> None: ...

    def finish(self, rid: str, output: Sequence[int]) -> None: ...

    def stop(self, rid: str) -> None: ...

    def begin_round(self, rid: str) -> bool:
        """False where it has nothing to say about this request in this round; then it is not asked further."""

    def cut(self, rid: str, tokens: Sequence[int]) -> int:
        """How many of `tokens`, from the front and after the last committed token, are possible."""

    def extend(self, rid: str, tree: DraftTree, max_tokens: int) -> None:
        """Graft onto `tree`, of cut chains, what it knows; about `max_tokens` nodes below any one node."""
