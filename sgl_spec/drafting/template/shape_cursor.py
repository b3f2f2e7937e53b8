"""Follows one output along a declared shape, byte by byte, and drafts its texts. The template drafter keeps one for
each request that declares a shape.

By bytes, as a text's first character may be in one token with the end of a hole. As in template_belief, where the
output stands is a belief: places with their probabilities.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sgl_spec.drafting.template.declared_shape import DeclaredShape
from sgl_spec.drafting.template.slot_template import START
from sgl_spec.drafting.template.template_search import TRUST, Ahead, merged
from sgl_spec.drafting.tree import Chain

# P(a hole ends after a token), by tokens so far in steps of HAZARD_STEP: nothing is known of it but that it has not
# ended yet. A client declares holes of a few words; one that lasts is long.
HAZARDS = (0.12, 0.10, 0.07, 0.05, 0.03, 0.02)
HAZARD_STEP = 12
# After every departure from a text it takes so many times that: what is declared may not be written at all.
LOST = 0.5
# The same for a byte.
BYTE_HAZARD = 0.03
# P(a byte inside a hole is this one): a space, a letter or digit, another, which is mostly punctuation.
SPACE_NOISE = 0.15
WORD_NOISE = 0.04
OTHER_NOISE = 0.015
# P(a text goes on as declared) for each of its bytes, and for each of its tokens.
BYTE_RIGHT = 0.995
TOKEN_RIGHT = 0.95
MIN_BELIEF = 0.02
# Tokens that tell how the next text is tokenised.
CONTEXT = 2
# Results kept for a shape.
MAX_DRAFTED = 512
FREE = -1


class Spot(NamedTuple):
    """A place in a shape.

    Attributes:
        part: a part with texts; or, if `text` is FREE, free text before that part (one past the last: to the end).
        text: which of the part's texts, or FREE.
        at: bytes of the text seen.
    """

    part: int
    text: int
    at: int


class ShapeCursor:
    """A position of an output in a shape, at both beginnings at first.

    Args:
        shape: may be shared by cursors of the same origin and min_a.
        origin: of the chains.
        min_a: nodes less likely to be accepted are not drafted.
        before: the prompt's last tokens; they tell how the first text is tokenised.
    """

    def __init__(self, shape: DeclaredShape, origin: str, min_a: float, before: Iterable[int] = ()) -> None:
        self._shape = shape
        self._origin = origin
        self._min_a = min_a
        self._before = tuple(before)[-CONTEXT:]
        self._contradictions = 0
        self._free_tokens = 0  # of the hole it probably is in
        self._belief: dict[Spot, float] = {}
        self._enter(self._belief, 0, 1.0)

    def extend(self, tokens: Iterable[int]) -> None:
        """Advance over `tokens` in order."""
        for token in tokens:
            self.advance(token)

    def advance(self, token: int) -> None:
        """The next token of the output."""
        self._before = (*self._before, token)[-CONTEXT:]
        text = self._shape.codec.token_bytes(token)
        if not self._stays_free(text):
            for byte in text:
                belief: dict[Spot, float] = {}
                for spot, weight in self._belief.items():
                    self._step(belief, spot, weight, byte)
                self._belief = _normalised(belief) if belief else self._lost()
        self._free_tokens = self._free_tokens + 1 if any(spot.text == FREE for spot in self._belief) else 0

    def _stays_free(self, text: bytes) -> bool:
        """Whether the output is certainly in a hole, and nothing in `text` begins what comes after it."""
        if len(self._belief) > 1:
            return False
        part, number, _ = next(iter(self._belief))
        return number == FREE and self._shape.beginnings[part].isdisjoint(text)

    def _step(self, belief: dict[Spot, float], spot: Spot, weight: float, byte: int) -> None:
        """What one more byte makes of a spot."""
        part, number, at = spot
        if number != FREE:
            if self._shape.parts[part][number][at] == byte:
                self._go_on(belief, Spot(part, number, at + 1), weight * BYTE_RIGHT)
            return
        texts = self._shape.parts[part] if part < len(self._shape.parts) else ()
        for number, text in enumerate(texts):
            if text[0] == byte:
                self._go_on(belief, Spot(part, number, 1), weight * BYTE_HAZARD / len(texts))
        _add(belief, spot, weight * (1.0 - BYTE_HAZARD) * _noise(byte))

    def _go_on(self, belief: dict[Spot, float], spot: Spot, weight: float) -> None:
        """The output is so far in a text, perhaps at its end."""
        if spot.at < len(self._shape.parts[spot.part][spot.text]):
            _add(belief, spot, weight)
        else:
            self._enter(belief, spot.part + 1, weight)

    def _enter(self, belief: dict[Spot, float], part: int, weight: float) -> None:
        """The output is at the beginning of `part`."""
        texts = self._shape.parts[part] if part < len(self._shape.parts) else ()
        if not texts:  # a hole: free text before the part after it
            _add(belief, Spot(min(part + 1, len(self._shape.parts)), FREE, 0), weight)
        for number in range(len(texts)):
            _add(belief, Spot(part, number, 0), weight / len(texts))

    def _lost(self) -> dict[Spot, float]:
        """No spot allows what came: the text that was expected may come later, or the one after it."""
        self._contradictions = min(self._contradictions + 1, len(TRUST) - 1)
        part = max(self._belief, key=lambda spot: self._belief[spot]).part
        later = next((n for n in range(part + 1, len(self._shape.parts)) if self._shape.parts[n]), part)
        return {Spot(part, FREE, 0): 0.5} | {Spot(later, FREE, 0): 0.5}

    def propose(self, max_tokens: int) -> list[Chain]:
        """Chains from the last token on, together at most `max_tokens` nodes."""
        if TRUST[self._contradictions] <= self._min_a:
            return []
        spot, shape = next(iter(self._belief)), self._shape
        context = shape.kind(self._before) if len(self._belief) == 1 and spot.text == FREE else self._before
        step = min(self._free_tokens // HAZARD_STEP, len(HAZARDS) - 1)
        key = (tuple(self._belief.items()), context, step, self._contradictions, max_tokens)
        found = shape.drafted.get(key)
        if found is None:
            if len(shape.drafted) >= MAX_DRAFTED:
                shape.drafted.clear()
            hazard = HAZARDS[step] * LOST**self._contradictions
            found = shape.drafted[key] = self._search(hazard, TRUST[self._contradictions], max_tokens)
        return found[:]

    def _search(self, hazard: float, trust: float, most: int) -> list[Chain]:
        aheads = [ahead for spot, weight in self._belief.items() for ahead in self._ahead(spot, weight, hazard)]
        chains: dict[tuple[int, ...], Chain] = {}
        for ahead in sorted(merged(aheads), key=lambda one: -one.q[0]):
            chain = self._reached(ahead, trust, most)
            if chain is None:
                break
            if chain.tokens not in chains:  # alternatives may differ only after where they were cut
                chains[chain.tokens] = chain
                most -= len(chain.tokens)
        return list(chains.values())

    def _ahead(self, spot: Spot, weight: float, hazard: float) -> Iterator[Ahead]:
        """The texts that may come at a spot."""
        part, number, at = spot
        shape = self._shape
        if number == FREE:
            texts = shape.texts_from(part)
            weight *= hazard
        else:
            rest = shape.parts[part][number][at:]
            texts = [rest + following for following in shape.texts_from(part + 1)]
        weight /= len(texts)
        if weight < self._min_a:
            return
        for text in texts:
            written = shape.tokens(self._before, text, open_end=shape.hole_after(part), alike=number == FREE)
            if written:
                q = [TOKEN_RIGHT * one.q for one in written]
                yield Ahead(tuple(one.token for one in written), (q[0] * weight, *q[1:]), START)

    def _reached(self, ahead: Ahead, trust: float, most: int) -> Chain | None:
        """The tokens that are likely enough."""
        a, q = 1.0, []
        for one in ahead.q[:most]:
            a *= one * trust
            if a < self._min_a:
                break
            q.append(one * trust)
        return Chain(ahead.tokens[: len(q)], tuple(q), self._origin) if q else None


def _add(belief: dict[Spot, float], spot: Spot, weight: float) -> None:
    belief[spot] = belief.get(spot, 0.0) + weight


def _noise(byte: int) -> float:
    if byte == 0x20:
        return SPACE_NOISE
    return WORD_NOISE if byte >= 0x80 or chr(byte).isalnum() else OTHER_NOISE


def _normalised(belief: dict[Spot, float]) -> dict[Spot, float]:
    if len(belief) == 1:
        return dict.fromkeys(belief, 1.0)
    least = MIN_BELIEF * sum(belief.values())
    likely = {spot: weight for spot, weight in belief.items() if weight >= least}
    total = sum(likely.values())
    return {spot: weight / total for spot, weight in likely.items()}
