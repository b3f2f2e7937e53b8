"""What the outputs of one slot have in common, as an automaton that drafting follows: runs of constant tokens, and
between them holes that the model fills. Made before a request's first round, by `template_learning.learn`.

The form is that of a profile hidden Markov model (Krogh et al., "Hidden Markov models in computational biology",
J. Mol. Biol. 1994): a run emits its tokens, a hole emits anything for a while, and how it ends is counted over past
outputs. Optional parts, alternatives and lists are several ways out of one hole; a list's lead back to its first run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

# How surely a run goes on: so much for the first output that has it, then for each that confirms it. With 2 outputs
# 0.88, with 8 of them 0.98.
RIGHT_BEFORE = 1.5
RIGHT_EACH = 6.0
WRONG_BEFORE = 1.0
# A hazard is a Beta mean: the share of holes that ended at this length, and this many more that ended as often as any
# token ends a hole. 8 of 8 is then 0.83 or so, not 1.
HAZARD_PRIOR = 2.0
# Beyond every length seen a hole ends at most this often, and ever less: the template may just not fit.
OVERDUE_HAZARD = 0.2
OVERDUE_TOKENS = 4.0
# Of what began like a value seen before, so many more occurrences are counted that went on in another way.
VALUE_PRIOR = 3.0
NO_VALUE = -1
ROOT_VALUE = 0
START_HOLE = 0


class Run(NamedTuple):
    """Constant tokens.

    Attributes:
        tokens: one or more.
        q: P(its next token | the ones before).
        hole: the hole after it.
    """

    tokens: tuple[int, ...]
    q: float
    hole: int


class Exit(NamedTuple):
    """A way a hole ends.

    Attributes:
        run: it begins here.
        share: P(this run | the hole ends).
        noise: P(a token inside the hole is the run's first token).
    """

    run: int
    share: float
    noise: float


class Value(NamedTuple):
    """A node of the tree of what the hole held: the first few tokens of a value.

    Attributes:
        times: outputs that had this beginning there.
        ends: those of them whose hole ended here.
        next: the nodes one token longer, by token.
    """

    times: int
    ends: int
    next: Mapping[int, int]


class Hole(NamedTuple):
    """Where the model writes what the template does not know.

    Attributes:
        hazards: P(the hole ends here | it lasted d tokens), by d.
        exits: by falling share; none after the last run.
        by_token: the exits by first token.
        values: tree of the values seen; node ROOT_VALUE is the empty beginning. Empty: none are known.
    """

    hazards: tuple[float, ...]
    exits: tuple[Exit, ...]
    by_token: Mapping[int, tuple[Exit, ...]]
    values: tuple[Value, ...]

    def hazard(self, length: int, value: int) -> float:
        """P(the hole ends here | it lasted `length` tokens, which are those of node `value`, NO_VALUE if none)."""
        if length < len(self.hazards):
            hazard = self.hazards[length]
        else:
            hazard = OVERDUE_HAZARD / (1.0 + (length - len(self.hazards)) / OVERDUE_TOKENS)
        if value >= 0 and self.values:
            times, ends, _ = self.values[value]
            return (ends + VALUE_PRIOR * hazard) / (times + VALUE_PRIOR)
        return hazard


class Place(NamedTuple):
    """A state of the automaton.

    Attributes:
        part: a run, or `~hole`.
        at: in a run how many of its tokens were seen, fewer than all; in a hole how many tokens it has lasted.
        value: in a hole the node of the value so far, or NO_VALUE.
    """

    part: int
    at: int
    value: int = NO_VALUE


START = Place(~START_HOLE, 0, ROOT_VALUE)


@dataclass(frozen=True)
class SlotTemplate:
    """The automaton. It starts in hole START_HOLE, which is mostly empty.

    Attributes:
        runs: an alternation of runs and holes in the order of the output, then runs that begin in the middle of one
            of those or with what leads to it.
        holes: runs[i] is followed by holes[runs[i].hole].
        resumes: where three tokens in a row stand in the runs, as the places after them: to find the way back.
    """

    runs: tuple[Run, ...]
    holes: tuple[Hole, ...]
    resumes: Mapping[tuple[int, ...], tuple[Place, ...]]

    def after(self, run: int, at: int) -> Place:
        """The place when `at` tokens of a run were seen: still in it, or in the hole after it."""
        if at < len(self.runs[run].tokens):
            return Place(run, at)
        return Place(~self.runs[run].hole, 0, ROOT_VALUE)
