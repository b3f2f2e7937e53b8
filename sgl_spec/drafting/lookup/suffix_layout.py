"""How a suffix automaton lies in arrays: shared by the index, which owns them, and the compiled loops."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

ROOT = 0
NOTHING = -1
# Columns of `states`.
LENGTH, LINK, END, TIMES, TOKEN, TARGET, MORE, WAYS = range(8)
# Columns of `edges`.
FROM, ON, TO, NEXT = range(4)
# Entries of the counts of rows in use.
TOKENS, STATES, EDGES, WHOLE = range(4)


class Automaton(NamedTuple):
    """A suffix automaton as arrays. State 0 is the empty context.

    Most states have one way on, which lies in the state's own row. Only where the text branches do the other ways
    lie in `edges`, as a linked list a state and in a hash table of all.

    Attributes:
        states: int32[capacity, 8]; row of a state: length of its longest substring, link to the state of that one's
            longest suffix that occurs in more places (-1 for state 0), newest known place of its last token (an
            index into the tokens held), known occurrences, first token that followed, state after that token (-1:
            nothing followed yet), its newest row in `edges` (-1: none), how many different tokens followed.
        edges: int32[capacity, 4]; from state, token, to state, next row of the same state (-1: none).
        table: int32[a power of two]; hash table of rows of `edges` by state and token, -1 where it is empty.
    """

    states: NDArray[np.int32]
    edges: NDArray[np.int32]
    table: NDArray[np.int32]
