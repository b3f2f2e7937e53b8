"""Drafts from the grammar a request's output is held to (schema, regex, EBNF, structural tag). Works on the tree of the
other drafters, in every round: cuts off what the grammar forbids, and adds what it forces or nearly forces (origins:
see `spelling`).

Forced runs of a grammar as drafts: jump-forward decoding (Zheng et al., SGLang, arXiv 2312.07104, section 4) appended
them without asking the model; drafted, they are what the model would have written, token by token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from sgl_spec.drafting.constraint import Constraint, ConstraintCursor
from sgl_spec.drafting.drafter import DraftRequest
from sgl_spec.drafting.grammar.space_style import SpaceStyle
from sgl_spec.drafting.grammar.spelling import AHEAD, ORIGIN, TAIL, At, Speller
from sgl_spec.drafting.grammar.text_search import TextSearch
from sgl_spec.drafting.grammar.text_trie import KnownTexts
from sgl_spec.drafting.grammar.text_writer import Best, Pen, TextWriter, path_to
from sgl_spec.drafting.grammar.token_habits import RequestHabits
from sgl_spec.drafting.grammar.vocabulary import Vocabulary
from sgl_spec.drafting.text_codec import TextCodec, text_of
from sgl_spec.drafting.tree import ROOT, DraftTree

# Where other drafters agree on something, little is left for the grammar's alternatives; where hardly anything is, it
# is not asked.
_LEAST_LEFT, _DOUBT = 0.15, 0.1
# The likeliest nodes of the others' tree below which the grammar is asked, too, and how likely it must be that they are
# reached and left to the grammar.
MOST_PLACES, LEAST_A = 2, 0.3
# So many past outputs say how a slot is spaced.
MOST_READ = 4

PastOutputs = Callable[[DraftRequest], Sequence[Sequence[int]]]
SlotOf = Callable[[DraftRequest], object]


class _State:
    """One request: its grammar, the tokens before the next, and what is known of how its output is written.

    cursor: of this round, `walked` tokens beyond what is committed; None between rounds.
    """

    def __init__(self, request: DraftRequest, constraint: Constraint, habits: RequestHabits) -> None:
        self.constraint = constraint
        self.endings = request.endings
        self.tail = tuple(request.prompt[-TAIL:])
        self.style = SpaceStyle()
        self.habits = habits
        self.texts = KnownTexts()
        self.style_version = 0
        self.cursor: ConstraintCursor | None = None
        self.walked: list[int] = []

    def forget_texts_of_another_style(self) -> None:
        if self.style.version != self.style_version:
            self.style_version = self.style.version
            self.texts.clear()


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
        for output in reversed(self._past_outputs(request)[:MOST_READ]):
            state.style.read(text_of(self._codec, output))
            state.style.begin()

    def observe(self, rid: str, tokens: Sequence[int]) -> None:
        """Learn from what was committed, after a round or outside of one."""
        state = self._states.get(rid)
        if state is None:
            return
        try:
            self._learn(state, tokens)
        except BaseException:
            state.texts.clear()  # they were not told what was committed
            raise
        finally:
            state.cursor = None

    def _learn(self, state: _State, tokens: Sequence[int]) -> None:
        cursor = self._home(state)
        search = None if cursor is None or cursor.settles_tokens else TextSearch(cursor, state.style, self._min_a)
        text = b""
        for token in tokens:
            certain = search.certain(state.texts.spot(text), AHEAD) if search is not None else b""
            if certain:
                self._speller.note(state.habits, state.tail, certain, token)
            state.habits.read.add(token)
            state.tail = (*state.tail, token)[-TAIL:]
            text += self._codec.token_bytes(token)
        state.style.read(text)
        if all(map(self._speller.is_text, tokens)):
            state.texts.commit(text)
        else:  # to a grammar, a special token may be anything
            state.texts.clear()
        state.forget_texts_of_another_style()

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
        state.cursor, state.walked = state.constraint.cursor(), []
        if state.cursor is not None and not self._agrees(state, state.cursor):
            state.texts.clear()
        return state.cursor is not None

    def _agrees(self, state: _State, cursor: ConstraintCursor) -> bool:
        """Whether the grammar stands where the texts say: it might have gone on without us."""
        known = state.texts.certain(b"")
        if known is None:
            return True
        forced = cursor.forced()
        return known.startswith(forced[: len(known)]) and bool(forced) == bool(known)

    def cut(self, rid: str, tokens: Sequence[int]) -> int:
        """How many of `tokens`, from the front, the grammar allows."""
        state = self._states[rid]
        with _in_use(state) as cursor:
            walked = state.walked
            shared = _shared(walked, tokens)
            cursor.rollback(len(walked) - shared)
            del walked[shared:]
            for token in tokens[shared:]:
                if not cursor.accept(token):
                    break
                walked.append(token)
        return len(walked)

    def extend(self, rid: str, tree: DraftTree, max_tokens: int) -> None:
        """Graft onto `tree`, which holds nothing the grammar forbids, what the grammar adds below its nodes."""
        state = self._states[rid]
        with _in_use(state) as cursor:
            self._home(state)
            search = TextSearch(cursor, state.style, self._min_a)
            best = Best(tree.a[1:], max_tokens, self._min_a)
            writer = TextWriter(self._speller, search, state.habits, state.endings, tree, best)
            writer.write(pen for place in _places(tree) if (pen := self._pen(state, tree, place)))

    def _pen(self, state: _State, tree: DraftTree, place: _Place) -> Pen | None:
        path = path_to(tree, place.node)
        if not all(map(self._speller.is_text, path)):
            return None
        spot = state.texts.spot(text_of(self._codec, path))
        return Pen(At(spot, place.a, (*state.tail, *path)[-TAIL:]), place.node, place.left)

    def _home(self, state: _State) -> ConstraintCursor | None:
        """The cursor of the round, at the end of what is committed."""
        if state.cursor is not None:
            state.cursor.rollback(len(state.walked))
            state.walked = []
        return state.cursor


@contextmanager
def _in_use(state: _State) -> Iterator[ConstraintCursor]:
    """The cursor of the round. After an exception nobody knows where it is: it is used no more, nor are the texts."""
    cursor = state.cursor
    assert cursor is not None, "begin_round said there is one"
    try:
        yield cursor
    except BaseException:
        state.cursor = None
        state.texts.clear()
        raise


def _shared(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two sequences have in common at their front."""
    length = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        length += 1
    return length


class _Place(NamedTuple):
    """A node to ask the grammar at: P(it is reached), and what its children leave over."""

    node: int
    a: float
    left: float


def _places(tree: DraftTree) -> list[_Place]:
    """The root and the likeliest other places where the tree so far leaves something over."""
    q, a = tree.q, tree.a
    left = [1.0] * len(q)
    for node in range(1, len(q)):
        left[tree.parents[node]] -= q[node]
    places = [_Place(node, a[node], max(left[node], _LEAST_LEFT)) for node in range(len(q)) if left[node] >= _DOUBT]
    others = [place for place in places if place.node != ROOT and place.a * place.left >= LEAST_A]
    best = sorted(others, key=lambda place: -place.a * place.left)[:MOST_PLACES]
    return [place for place in places if place.node == ROOT or place in best]
