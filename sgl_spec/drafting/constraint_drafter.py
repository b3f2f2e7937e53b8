"""Drafts from the grammar a request's output is held to (schema, regex, EBNF, structural tag). Works on the tree of the
other drafters, in every round: cuts off what the grammar forbids, and adds what it forces or nearly forces (origins:
see `spelling`).

Forced runs of a grammar as drafts: jump-forward decoding (Zheng et al., SGLang, arXiv 2312.07104, section 4) appended
them without asking the model; drafted, they are what the model would have written, token by token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from sgl_spec.drafting.constraint import Constraint, ConstraintCursor
from sgl_spec.drafting.drafter import DraftRequest
from sgl_spec.drafting.space_style import SpaceStyle
from sgl_spec.drafting.spelling import ORIGIN, Limit, Pen, Speller
from sgl_spec.drafting.text_codec import TAIL_TOKENS, TextCodec, text_of
from sgl_spec.drafting.text_search import TextSearch, certain_text
from sgl_spec.drafting.text_trie import TextPlace, make_trie
from sgl_spec.drafting.token_habits import RequestHabits
from sgl_spec.drafting.tree import ROOT, DraftTree
from sgl_spec.drafting.vocabulary import Vocabulary

# Where other drafters agree on something, little is left for the grammar's alternatives.
_LEAST_LEFT = 0.15
# The likeliest nodes of the others' tree below which the grammar is asked, too, and how likely they must be.
MOST_PLACES, LEAST_A = 3, 0.2
_BYTES_A_TOKEN = 4
_CERTAIN_BYTES = 24

PastOutputs = Callable[[DraftRequest], Sequence[Sequence[int]]]
SlotOf = Callable[[DraftRequest], object]


class _State:
    """One request: its grammar, the tokens before the next, and what is known of how its output is written.

    follower: a cursor of its own that goes over what is committed, to learn from it; None when it lost its way.
    """

    def __init__(self, request: DraftRequest, constraint: Constraint, habits: RequestHabits) -> None:
        self.constraint = constraint
        self.endings = request.endings
        self.tail = tuple(request.prompt[-TAIL_TOKENS:])
        self.style = SpaceStyle()
        self.habits = habits
        self.cursor: ConstraintCursor | None = None
        self.follower = constraint.cursor()
        self.ahead = request.ahead


class ConstraintDrafter:
    """A refiner (see `planner`): `begin_round`, `cut` and `extend` are called in that order in every round.

    Args:
        codec: the target's tokenizer.
        vocabulary: of the same.
        past_outputs: newest outputs of the request's slot, for the white space they use.
        slot_of: names the request's slot, for the tokens it was written in before; None where that may not be used.
        min_a: nodes less likely to be accepted are not looked for.
    """

    origin = ORIGIN

    def __init__(
        self, codec: TextCodec, vocabulary: Vocabulary, past_outputs: PastOutputs, slot_of: SlotOf, min_a: float
    ) -> None:
        self._codec = codec
        self._speller = Speller(codec, vocabulary)
        self._past_outputs = past_outputs
        self._slot_of = slot_of
        self._min_a = max(min_a, 0.001)
        self._states: dict[str, _State] = {}

    def start(self, request: DraftRequest) -> None:
        """Learn from the slot's past."""
        self._states.pop(request.rid, None)
        if request.constraint is None:
            return
        slot = self._slot_of(request)
        habits = RequestHabits(request.prompt, None if slot is None else self._speller.habits.slot(slot))
        state = self._states[request.rid] = _State(request, request.constraint, habits)
        for output in reversed(self._past_outputs(request)):
            state.style.read(text_of(self._codec, output))
            state.style.begin()

    def observe(self, rid: str, tokens: Sequence[int]) -> None:
        """Learn from what was committed."""
        state = self._states.get(rid)
        if state is None:
            return
        state.style.read(text_of(self._codec, tokens))
        for token in tokens:
            self._follow(state, token)
            state.tail = (*state.tail, token)[-TAIL_TOKENS:]

    def _follow(self, state: _State, token: int) -> None:
        if state.ahead > 0:
            state.ahead -= 1
        elif state.follower is not None:
            certain = certain_text(state.follower, _CERTAIN_BYTES)
            if certain and state.tail:
                self._speller.note(state.habits, state.tail, certain, token)
            if not state.follower.accept(token):
                state.follower = None
        state.habits.read.add(token)

    def finish(self, rid: str, output: Sequence[int]) -> None:
        """Nothing to do: all was learned while it was committed."""

    def stop(self, rid: str) -> None:
        """Forget the request."""
        self._states.pop(rid, None)

    def begin_round(self, rid: str) -> bool:
        """Look where the grammar is now; False where there is none for this request and round."""
        state = self._states.get(rid)
        if state is None:
            return False
        state.cursor = state.constraint.cursor()
        return state.cursor is not None

    def cut(self, rid: str, tokens: Sequence[int]) -> int:
        """How many of `tokens`, from the front, the grammar allows."""
        cursor = self._cursor(rid)
        allowed = 0
        for token in tokens:
            if not cursor.accept(token):
                break
            allowed += 1
        cursor.rollback(allowed)
        return allowed

    def extend(self, rid: str, tree: DraftTree, max_tokens: int) -> None:
        """Graft onto `tree`, which holds nothing the grammar forbids, what the grammar adds below its nodes."""
        cursor, state = self._cursor(rid), self._states[rid]
        for place in _places(tree):
            path = _path(tree, place.node)
            steps = sum(map(cursor.accept, path))
            most_bytes = max_tokens * _BYTES_A_TOKEN
            search = TextSearch(cursor, state.style, text_of(self._codec, path), most_bytes, self._min_a)
            top = make_trie(search.run(place.a, most_bytes))
            cursor.rollback(steps)
            tail = (*state.tail, *path)[-TAIL_TOKENS:]
            pen = Pen(-place.a, 0, place.node, tail, TextPlace(top, 0), place.left)
            self._speller.write(tree, pen, state.habits, state.endings, Limit(2 * max_tokens, self._min_a))

    def _cursor(self, rid: str) -> ConstraintCursor:
        cursor = self._states[rid].cursor
        assert cursor is not None, "begin_round said there is one"
        return cursor


class _Place(NamedTuple):
    """A node to ask the grammar at: P(it is reached), and what its children leave over."""

    node: int
    a: float
    left: float


def _places(tree: DraftTree) -> list[_Place]:
    """The root and the likeliest other places where the tree so far has no good guess, parents before children."""
    q, a = tree.q, tree.a
    left = [1.0] * len(q)
    for node in range(1, len(q)):
        left[tree.parents[node]] -= q[node]
    places = [_Place(node, a[node], max(left[node], _LEAST_LEFT)) for node in range(len(q))]
    best = sorted(places[1:], key=lambda place: -place.a * left[place.node])[:MOST_PLACES]
    return [places[ROOT], *(place for place in best if place.a * left[place.node] >= LEAST_A)]


def _path(tree: DraftTree, node: int) -> list[int]:
    """Tokens from below the root down to `node`."""
    path: list[int] = []
    while node != ROOT:
        path.append(tree.tokens[node])
        node = tree.parents[node]
    return path[::-1]

