"""Which prefixes the runs of a batch share, as far as the program's graph and their arguments tell, and in which order
to run them.

Used before the first round of a batch. What a graph does not know ends a text; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from sgl_spec.program.nodes import Call, Inserted, RoleBegin, RoleEnd, Text
from sgl_spec.program.text_walk import RoleTexts

if TYPE_CHECKING:
    from sgl_spec.program.graph import ProgramGraph

# Characters that sharing must save before a prefix is worth a request of its own. Measured: `docs/frontend.md`.
WORTH_APART = 2_000  # sharers that are requests of their own, which find one another's prefix when they come in turn
WORTH_TOGETHER = 500  # sharers inside one request, which are computed at once and find nothing


class PrefixGroup(NamedTuple):
    """Runs to be started one after another.

    Attributes:
        prefix: the text to compute before them; empty where that saves too little.
        runs: their places in the batch.
    """

    prefix: str
    runs: tuple[int, ...]


def leading_text(graph: ProgramGraph, roles: RoleTexts | None, arguments: Mapping[str, Any]) -> str:
    """What a run with these arguments holds before its first hole or fork, as far as the graph tells.

    Args:
        roles: what the chat template writes around each role, a default system message aside.
    """
    text, number, seen = "", graph.entry, set[int]()
    while number not in seen:
        seen.add(number)
        node = graph.nodes[number]
        if isinstance(node, RoleBegin | RoleEnd):
            if roles is None or node.role not in roles:
                return text
            text += roles[node.role].prefix if isinstance(node, RoleBegin) else roles[node.role].suffix
        elif isinstance(node, Text):
            for part in node.parts:
                if isinstance(part, Inserted) and (part.origin != "argument" or part.name not in arguments):
                    return text
                text += str(arguments[part.name]) if isinstance(part, Inserted) else part
        elif not isinstance(node, Call):
            return text
        following = graph.after(number)
        if len(following) != 1:
            return text
        number = following[0].head
    return text


def plan_prefixes(texts: Sequence[str]) -> tuple[PrefixGroup, ...]:
    """The runs with these leading texts, in groups that share more than all of them do; every run is in one group."""
    order = sorted(range(len(texts)), key=lambda run: (texts[run], run))
    if not order:
        return ()
    shared = _shared(texts[order[0]], texts[order[-1]])  # of sorted texts, the ends share the least
    groups: list[list[int]] = [[order[0]]]
    for one, other in pairwise(order):
        close = len(_shared(texts[one], texts[other])) - len(shared) >= WORTH_TOGETHER
        groups[-1].append(other) if close else groups.append([other])
    planned, alone = [], []
    for runs in groups:
        own = _shared(texts[runs[0]], texts[runs[-1]])
        if len(runs) > 1 and warms(own[len(shared) :], len(runs), WORTH_APART):
            planned.append(PrefixGroup(own, tuple(runs)))
        else:
            alone += runs
    if alone:
        prefix = shared if warms(shared, len(texts), WORTH_APART) else ""
        planned.insert(0, PrefixGroup(prefix, tuple(alone)))
    return tuple(planned)


def warms(prefix: str, sharers: int, worth: int) -> bool:
    """Whether computing `prefix` once, in a request of its own, is worth that request to its sharers."""
    return len(prefix) * (sharers - 1) >= worth


def _shared(one: str, other: str) -> str:
    """What two texts begin with alike; by halving, so that long prompts are compared at the speed of slices."""
    same, differs = 0, min(len(one), len(other)) + 1
    while differs - same > 1:
        middle = (same + differs) // 2
        if one[same:middle] == other[same:middle]:
            same = middle
        else:
            differs = middle
    return one[:same]
