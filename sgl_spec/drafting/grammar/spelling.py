"""Which tokens may come next along the texts a grammar allows. Asked for every place that tokens are drafted from.

Origins, by what is known of a node's token when its parent was accepted:

    grammar.forced    it is the only one possible
    grammar.text      the text is certain, and so, nearly, are the tokens the model writes it in
    grammar.spelling  the text is certain, the tokens are not: one of several ways to begin it
    grammar.edge      likewise, but something free follows, with which the token could run together
    grammar.branch    one of a few ways on: a value of an enum, the next key, the end of a value, white space
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from sgl_spec.drafting.grammar.text_search import TextSearch
from sgl_spec.drafting.grammar.text_trie import Q_GOES_ON, Spot, TextPath, TextPlace, advance
from sgl_spec.drafting.grammar.token_habits import RequestHabits, Stretch, TokenHabits, Way, shares
from sgl_spec.drafting.grammar.vocabulary import Spelled, Vocabulary
from sgl_spec.drafting.text_codec import TextCodec, bytes_continuation

ORIGIN = "grammar"
FORCED, TEXT, SPELLING, EDGE, BRANCH = (f"{ORIGIN}.{kind}" for kind in ("forced", "text", "spelling", "edge", "branch"))
# From here on a way to write a certain text counts as text.
Q_SURE = 0.95
# P(a token stays as it is though what follows could run together with it).
Q_EDGE = 0.85
# Bytes looked ahead for the next token, and tokens before it that may change how it is written.
AHEAD, TAIL = 10, 1
# Bytes written at once, as far as they are known; a token may depend on as many bytes after it as `_UNSETTLED`.
_WRITTEN, _UNSETTLED = 16, 4
_CACHED = 16_384


class Plan(NamedTuple):
    """The tokens in which the tokenizer writes the text from a place on, for `text`, which is as much as that."""

    tokens: tuple[Spelled, ...]
    text: bytes

    def fits(self, text: bytes) -> bool:
        """Whether it is a plan for `text`, of which more or less may be known than when it was made."""
        known = len(self.text)
        if len(text) >= known:
            return bool(self.tokens) and text.startswith(self.text)
        return len(text) >= self.tokens[0].length and self.text.startswith(text)

    def rest(self) -> Plan:
        """After the first token."""
        return Plan(self.tokens[1:], self.text[self.tokens[0].length :]) if len(self.tokens) > 1 else NO_PLAN


NO_PLAN = Plan((), b"")


class Step(NamedTuple):
    """A token that may come next.

    Attributes:
        token: its id.
        q: P(the target emits it | it came here).
        origin: see above.
        place: in the text, after it.
        chosen: whether the output could have gone another way within it.
        plan: how the tokenizer would go on.
    """

    token: int
    q: float
    origin: str
    place: TextPlace
    chosen: bool
    plan: Plan = NO_PLAN


class At(NamedTuple):
    """A place to write from.

    Attributes:
        spot: the place.
        reached: P(the output comes to it).
        tail: the TAIL tokens before it.
        plan: of the tokenizer, from there on.
    """

    spot: Spot
    reached: float
    tail: tuple[int, ...]
    plan: Plan = NO_PLAN


class _Beginning(NamedTuple):
    """How a certain text can begin.

    Attributes:
        only: the one token there is; None where there are several.
        lengths: bytes by token.
        others: see `shares`.
        beyond: a token begins with all of the text and has more.
    """

    only: Spelled | None
    lengths: dict[int, int]
    others: tuple[Way, ...]
    beyond: bool


class Speller:
    """Knows the tokenizer and the model's habits with it."""

    def __init__(self, codec: TextCodec, vocabulary: Vocabulary) -> None:
        self._codec = codec
        self.vocabulary = vocabulary
        self.habits = TokenHabits()
        self._plan = lru_cache(_CACHED)(self._make_plan)
        self._beginning = lru_cache(_CACHED)(self._find_beginning)

    def steps(self, at: At, search: TextSearch, habits: RequestHabits, least: float) -> list[Step]:
        """The tokens that may come next at a place, each once.

        Args:
            at: the place.
            search: asks the grammar.
            habits: of the request.
            least: texts less likely than this, coming to the place included, are not looked at.
        """
        place = at.spot.place
        node, offset = place
        known = node.text[offset : offset + _WRITTEN]
        if len(known) >= AHEAD:
            paths = [TextPath(known, 1.0 if place.certain else Q_GOES_ON, (node,))]
        else:
            paths = search.paths(at.spot, AHEAD, at.reached, least)
            known = node.text[offset : offset + AHEAD]
        certain = known if place.certain else b""
        found: dict[int, Step] = {}
        certain_done = False
        for path in paths:
            plan = at.plan if at.plan.fits(path.text) else self._plan(at.tail, path.text[:_WRITTEN])
            if not plan.tokens:
                continue
            if plan.tokens[0].length > len(certain):
                step = self._branching(place, path, plan, habits)
                other = found.get(step.token)
                found[step.token] = step if other is None else other._replace(q=min(1.0, other.q + step.q))
            elif not certain_done:  # what is certain is so on every path
                certain_done = True
                for step in self._certain(place, certain, at.tail, plan, habits):
                    found[step.token] = step
        return list(found.values())

    def _branching(self, place: TextPlace, path: TextPath, plan: Plan, habits: RequestHabits) -> Step:
        own = plan.tokens[0]
        q = self.habits.own_way(habits, own.token) * path.q
        return Step(own.token, q, BRANCH, advance(place, path, own.length), True, plan.rest())

    def _certain(
        self, place: TextPlace, certain: bytes, tail: tuple[int, ...], plan: Plan, habits: RequestHabits
    ) -> list[Step]:
        """The ways to begin a certain text, which is all in the node of `place`."""
        own = plan.tokens[0].token
        begin = self._beginning(certain, own)
        node, offset = place
        if begin.only is not None:
            rest = plan.rest() if begin.only.token == own else NO_PLAN
            return [Step(begin.only.token, 1.0, FORCED, TextPlace(node, offset + begin.only.length), False, rest)]
        edge = len(certain) if begin.beyond and node.free and len(node.text) - offset == len(certain) else 0
        steps = []
        for token, q in self.habits.ways(habits, Stretch.at(tail, certain), own, begin.others):
            length = begin.lengths.get(token, 0)
            if not length:
                continue  # a habit of the same beginning with another end
            origin = TEXT if q >= Q_SURE else SPELLING
            if length == edge:
                q, origin = q * Q_EDGE, EDGE
            rest = plan.rest() if token == own else NO_PLAN
            steps.append(Step(token, q, origin, TextPlace(node, offset + length), False, rest))
        return steps

    def note(self, habits: RequestHabits, tail: tuple[int, ...], certain: bytes, chosen: int) -> None:
        """After `tail` the text went on with `certain`, and the model chose `chosen` to begin it."""
        certain = certain[:_WRITTEN]
        plan = self._plan(tail, certain)
        if plan.tokens and 0 < len(self.vocabulary.text(chosen)) <= len(certain):
            own = plan.tokens[0].token
            if self._beginning(certain, own).only is None:
                self.habits.note(habits, Stretch.at(tail, certain), own, chosen)

    def _make_plan(self, tail: tuple[int, ...], text: bytes) -> Plan:
        """How the tokenizer writes `text` after `tail`, without what depends on what follows, the first token always;
        where it would change the text, the longest token that the text begins with. Empty where there is none."""
        tokens: list[Spelled] = []
        end = 0
        for token in bytes_continuation(self._codec, tail, text):
            written = self._codec.token_bytes(token)
            known = end + len(written)
            if not written or text[end:known] != written or (tokens and known > len(text) - _UNSETTLED):
                break
            tokens.append(Spelled(token, len(written)))
            end = known
        if not tokens:
            tokens = [one for one in self.vocabulary.beginnings(text) if self.is_text(one.token)][-1:]
            end = tokens[0].length if tokens else 0
        return Plan(tuple(tokens), text[:end])

    def _find_beginning(self, text: bytes, own: int) -> _Beginning:
        spelled = self.vocabulary.beginnings(text)
        drafted = [one for one in spelled if self.is_text(one.token)]
        only = drafted[0] if drafted and self.vocabulary.only_one_of(spelled, text) else None
        lengths = {one.token: one.length for one in drafted}
        return _Beginning(only, lengths, shares(own, drafted), self.vocabulary.goes_beyond(text))

    def is_text(self, token: int) -> bool:
        """Whether `token` is an ordinary one, which is written as its text."""
        return bool(self._codec.token_bytes(token))
