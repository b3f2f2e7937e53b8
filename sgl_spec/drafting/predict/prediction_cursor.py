"""Follows one output along a prediction and drafts the rest of it. The predict drafter keeps one for each request, the
template drafter one for an example or a past output that stands alone.

Outputs differ from their prediction by edits: a few tokens replaced, inserted or deleted. After a departure the
cursor looks for the way back close to where it left, and drafts the likely ways meanwhile. An edit that was made once
is drafted where its first token comes again, as renamings are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from sgl_spec.drafting.fair_chains import fair
from sgl_spec.drafting.predict.prediction import ABSENT, GRAM, InOrder, Prediction
from sgl_spec.drafting.tree import Chain

# P(the next token is the predicted one | so many were followed in a row). On edited code, prose and JSON it is 0.96 to
# 0.99 however long that was; less is assumed soon after a departure, as the way back may have been a wrong one.
FOLLOWED = (0.75, 0.80, 0.85, 0.90, 0.93, 0.95, 0.96, 0.96, 0.97, 0.97, 0.97, 0.98)
# An output is taken to begin as if so many tokens of its prediction were followed already.
BEGINNING = 4
# How far a prediction is trusted, by the doubt: a departure adds 1, every token without the way back adds LOST, and
# every token followed leaves FORGIVEN of it. A wrong prediction proposes next to nothing after some 10 tokens. One that
# is followed again was right after all, mostly.
TRUST = (1.0, 0.97, 0.90, 0.70, 0.40, 0.08)
TRUST_FOLLOWED = (1.0, 0.98, 0.95, 0.90, 0.85, 0.80)
LOST = 0.35
FORGIVEN = 0.85
# After a departure, by tokens since: P(the prediction goes on one token further, which was replaced), and P(it goes on
# where it was left, before which something was inserted). Shares observed on the same edits.
REPLACED = (0.40, 0.38, 0.28, 0.08, 0.05)
INSERTED = (0.08, 0.08, 0.10, 0.05, 0.03)
# P(a place found again is the right one), by tokens that match there, near where the prediction was left and far off.
FOUND_NEAR = (0.0, 0.75, 0.88)
FOUND_FAR = (0.0, 0.35, 0.60)
NEAR = 4
# So many tokens are enough to follow the prediction again, wherever it is; near by two are.
SURE = GRAM
SURE_NEAR = 2
# Single tokens are looked for from so far before the place where the prediction was left to so far after it.
WINDOW_BEFORE = 8
WINDOW_AFTER = 32
MAX_CANDIDATES = 4
# P(an edit is made again where its first token comes again), by how often in a row it was.
AGAIN = (0.0, 0.5, 0.8, 0.9)
MAX_EDITS = 64
MAX_EDIT_TOKENS = 12
LEAST_Q = 0.001


class Candidate(NamedTuple):
    """A place where the output may be following again: the prediction's next token is `at`, and `length` tokens before
    it match."""

    at: int
    length: int


class Edit(NamedTuple):
    """What the output had in place of `skipped` predicted tokens, `times` times in a row."""

    tokens: tuple[int, ...]
    skipped: int
    times: int


class Way(NamedTuple):
    """A way to go on: `tokens`, then the prediction from `at`. `q` is that of the first token, `followed` tokens speak
    for the way."""

    q: float
    at: int
    followed: int
    tokens: tuple[int, ...] = ()


class PredictionCursor:
    """A position of an output in a prediction, at both beginnings at first.

    Args:
        prediction: may be shared.
        origin: of the chains.
        min_a: nodes less likely to be accepted are not drafted.
        trust: every q is this many times what it is for a prediction that a client vouches for.
    """

    def __init__(self, prediction: Prediction, origin: str, min_a: float, trust: float = 1.0) -> None:
        self._prediction = prediction
        self._origin = origin
        self._min_a = min_a
        self._trust = trust
        self._at = 0  # the next predicted token; after a departure the one that did not come
        self._followed = BEGINNING  # tokens followed in a row
        self._doubt = 0.0
        self._departed: list[int] | None = None  # the output's tokens since the departure
        self._candidates: list[Candidate] = []  # the likeliest first
        self._edits: dict[int, Edit] = {}  # by the first token they replaced
        self._before: tuple[int, ...] = ()  # the last tokens, one less than a gram
        self._seen = 0
        self._matched = InOrder()

    def matched(self, output_tokens: int) -> int:
        """How many predicted tokens are among the first `output_tokens` tokens of the output, in order."""
        return self._matched.within(output_tokens)

    def extend(self, tokens: Iterable[int]) -> None:
        """Advance over `tokens` in order."""
        for token in tokens:
            self.advance(token)

    def advance(self, token: int) -> None:
        """The next token of the output."""
        at, predicted = self._at, self._prediction.tokens
        self._seen += 1
        if self._departed is not None:
            self._departed.append(token)
            self._doubt = min(self._doubt + LOST, len(TRUST) - 1.0)
            self._look_for(token)
        elif at < len(predicted) and predicted[at] == token:
            self._at = at + 1
            self._followed += 1
            self._doubt *= FORGIVEN
            self._matched.add(at, self._seen)
            if token in self._edits:  # this time it was not edited
                del self._edits[token]
        else:
            self._departed = [token]
            self._doubt = min(self._doubt + 1.0, len(TRUST) - 1.0)
            self._look_for(token)
        self._before = (*self._before[2 - GRAM :], token)

    def _look_for(self, token: int) -> None:
        """After a departure: where may the output be following again?"""
        assert self._departed is not None
        predicted, left = self._prediction.tokens, self._at
        grown = [
            Candidate(at + 1, length + 1)
            for at, length in self._candidates
            if at < len(predicted) and predicted[at] == token
        ]
        if len(self._departed) >= GRAM and not (grown and grown[0].length >= GRAM):
            end = self._prediction.after((*self._before, token), left)
            if end != ABSENT:
                grown.insert(0, Candidate(end, GRAM))
        if grown and grown[0].length >= (SURE_NEAR if abs(grown[0].at - grown[0].length - left) <= NEAR else SURE):
            self._follow(grown[0])
            return
        self._candidates = grown
        if len(grown) < MAX_CANDIDATES:
            self._candidates = (grown + self._nearest(token))[:MAX_CANDIDATES]

    def _nearest(self, token: int) -> list[Candidate]:
        """The places after `token`, the nearest to where the prediction was left first."""
        left = self._at
        since = len(self._departed or ())
        places = self._prediction.places_of(token, left - WINDOW_BEFORE, left + WINDOW_AFTER + since)
        known = {one.at for one in self._candidates}
        found = [Candidate(place + 1, 1) for place in places if place + 1 not in known]
        found.sort(key=lambda one: abs(one.at - 2 - left))  # one token was replaced: the commonest edit
        return found

    def _follow(self, found: Candidate) -> None:
        """The output is following again; what it had meanwhile was an edit."""
        assert self._departed is not None
        at, length = found
        for back in range(length, 0, -1):
            self._matched.add(at - back, self._seen - back + 1)
        tokens, skipped = tuple(self._departed[: len(self._departed) - length]), at - length - self._at
        if 0 < len(tokens) <= MAX_EDIT_TOKENS and 0 <= skipped <= MAX_EDIT_TOKENS and self._at < len(self._prediction):
            self._remember(self._prediction.tokens[self._at], tokens, skipped)
        self._at, self._followed = at, length
        self._departed, self._candidates = None, []

    def _remember(self, first: int, tokens: tuple[int, ...], skipped: int) -> None:
        known = self._edits.pop(first, None)  # the newest is the last
        again = known is not None and known.tokens == tokens and known.skipped == skipped
        self._edits[first] = Edit(tokens, skipped, known.times + 1 if known is not None and again else 1)
        if len(self._edits) > MAX_EDITS:
            del self._edits[next(iter(self._edits))]

    def propose(self, max_tokens: int) -> list[Chain]:
        """Chains from the last token on, together about `max_tokens` nodes."""
        if max_tokens < 1:
            return []
        if self._departed is None:
            return self._ahead(max_tokens)
        scale = self._scale()
        ways = [way for way in self._ways_back(self._departed) if way.q * scale >= self._min_a]
        total = sum(way.q for way in ways)
        chains = [self._along(way, max(1, round(max_tokens * way.q / total))) for way in ways]
        return fair([chain for chain in chains if chain.tokens])

    def _ahead(self, most: int) -> list[Chain]:
        """The prediction goes on, perhaps with an edit that was made before."""
        part = self._prediction.tokens[self._at : self._at + most]
        q = _followed_q(min(self._followed, len(FOLLOWED) - 1), len(part), self._scale(), self._min_a)
        if not q:
            return []
        chain = Chain(tuple(part[: len(q)]), q, self._origin)
        if self._edits:
            for number, token in enumerate(chain.tokens):
                if token in self._edits:
                    return self._with_edit(chain, number, self._edits[token], most)
        return [chain]

    def _with_edit(self, chain: Chain, number: int, edit: Edit, most: int) -> list[Chain]:
        """`chain`, and as its sibling from token `number` on what the edit would make of it."""
        again = AGAIN[min(edit.times, len(AGAIN) - 1)] * self._scale()
        tokens, q, origin = chain
        rest = self._prediction.tokens[self._at + number + edit.skipped :][:most]
        edited = (tokens[:number] + edit.tokens + tuple(rest))[:most]
        q_edited = (*q[:number], again, *_followed_q(SURE, most, self._scale(), 0.0))[: len(edited)]
        unedited = Chain(tokens, (*q[:number], max(q[number] * (1.0 - again), LEAST_Q), *q[number + 1 :]), origin)
        return [unedited, Chain(edited, q_edited, origin)]

    def _scale(self) -> float:
        table = TRUST_FOLLOWED if self._departed is None else TRUST
        return table[int(self._doubt + 0.5)] * self._trust

    def _ways_back(self, departed: list[int]) -> Iterator[Way]:
        """Where the prediction may go on: each takes its share of what the likelier ones leave."""
        predicted, at = self._prediction.tokens, self._at
        since = min(len(departed), len(REPLACED)) - 1
        left = 1.0
        edit = self._edits.get(predicted[at]) if at < len(predicted) else None
        if edit is not None and edit.tokens[: len(departed)] == tuple(departed):
            yield Way(AGAIN[-1], at + edit.skipped, SURE, edit.tokens[len(departed) :])
            left -= AGAIN[-1]
        taken = set()
        for one in self._candidates:
            found = FOUND_NEAR if abs(one.at - one.length - at) <= NEAR else FOUND_FAR
            q = left * found[min(one.length, len(found) - 1)]
            yield Way(q, one.at, one.length)
            taken.add(one.at)
            left -= q
        for table, place in ((REPLACED, at + 1), (INSERTED, at)):
            if place not in taken:
                yield Way(left * table[since], place, 0)
                left -= left * table[since]

    def _along(self, way: Way, most: int) -> Chain:
        tokens = (*way.tokens, *self._prediction.tokens[way.at : way.at + most])[:most]
        scale = self._scale()
        following = _followed_q(min(way.followed, len(FOLLOWED) - 1), most, scale, 0.0)
        return Chain(tokens, (max(way.q * scale, LEAST_Q), *following)[: len(tokens)], self._origin)


@lru_cache(maxsize=4_096)
def _followed_q(followed: int, most: int, scale: float, min_a: float) -> tuple[float, ...]:
    """q of up to `most` predicted tokens, as long as they are accepted with probability `min_a`."""
    a, q = 1.0, []
    for number in range(followed, followed + most):
        one = max(FOLLOWED[min(number, len(FOLLOWED) - 1)] * scale, LEAST_Q)
        a *= one
        if a < min_a:
            break
        q.append(one)
    return tuple(q)
