"""A grammar as drafting sees it: a cursor over the texts it allows. Asked by the constraint drafter in every round.

The server puts one in front of whichever grammar backend it runs (xgrammar, llguidance), see
`server/grammar_cursor.py`; `testing/fake_grammar.py` has one without any.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Ways(NamedTuple):
    """How the output may go on at one place.

    Attributes:
        bytes: every byte that may come next and that the vocabulary has as a token, ascending.
        end: whether the output may end here, or go on with a token that is no text.
    """

    bytes: bytes
    end: bool


class ConstraintCursor(Protocol):
    """A place in a grammar, free to be moved. Every successful `accept*` is one step that `rollback` can take back.

    Attributes:
        settles_tokens: whether the grammar says in which tokens a text that must come is written. Where it does not,
            the mask leaves the model every token that the text begins with.
    """

    settles_tokens: bool

    def accept(self, token: int) -> bool:
        """Go over a token; False, and nothing moved, where the mask forbids it."""

    def accept_bytes(self, text: bytes) -> bool:
        """Go over a text as one step, whatever tokens it would be written in; False, and nothing moved, where the
        grammar forbids it."""

    def rollback(self, steps: int) -> None:
        """Take the last `steps` successful accepts back; 0 is allowed."""

    def forced(self) -> bytes:
        """The text that must come next: as far as no other byte is possible, nor an end. It may stop inside a
        character, and it may be only the beginning of what must come."""

    def forced_tokens(self, after: Sequence[int]) -> Sequence[int]:
        """Tokens that come after `after`, which the mask allows, each the only one it allows there. Empty unless
        `settles_tokens`, and where the tokens at the end of what is forced depend on what follows. Moves nothing."""

    def ways(self) -> Ways:
        """How the output may go on."""


class Constraint(Protocol):
    """The grammar one request's output is held to."""

    def cursor(self) -> ConstraintCursor | None:
        """A cursor of one's own at the end of what is committed; None while the grammar does not apply (a model that is
        still reasoning) or is over."""
