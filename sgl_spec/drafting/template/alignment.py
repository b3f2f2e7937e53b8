"""What several outputs of one slot have in common, in order. Runs when a template is learned, before a request's first
round.

Two outputs are aligned by anchors, in the manner of patience diff (B. Cohen; anchors are what occurs once on both
sides), then the rest between two anchors by what occurs there for the k-th time on both sides. That second rule is
for lists: their records repeat the same keys, so nothing in them is unique, and record k belongs to record k.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

ABSENT = -1
GRAM = 3  # tokens of an anchor
# Single tokens are paired only in gaps so short that a pair by chance is unlikely.
SINGLES_WITHIN = 48
# A run is constant when so many of the outputs have it.
SUPPORT = 0.8
# A part is optional when so many of the outputs have it, and two at least. It is looked for between constant runs that
# are no further apart than this: in longer parts, such as lists, too much comes again.
OPTIONAL = 0.3
OPTIONAL_WITHIN = 128
# Rounds of looking: for parts within parts.
OPTIONAL_ROUNDS = 2


class Anchor(NamedTuple):
    """Place `a` of one sequence belongs to place `b` of the other."""

    a: int
    b: int


class Gap(NamedTuple):
    """Places a_from to a_to - 1 of one sequence, which lie opposite b_from to b_to - 1 of the other; `stage` is the
    rule to pair them by."""

    a_from: int
    a_to: int
    b_from: int
    b_to: int
    stage: int


class Constant(NamedTuple):
    """A run of tokens that nearly all outputs have.

    Attributes:
        tokens: its tokens.
        places: for each output where the run starts in it; ABSENT where it is not there in one piece.
    """

    tokens: tuple[int, ...]
    places: tuple[int, ...]

    @property
    def times(self) -> int:
        """Outputs that have it."""
        return len(self.places) - self.places.count(ABSENT)


def constants(outputs: Sequence[Sequence[int]]) -> list[Constant]:
    """The runs that at least SUPPORT of `outputs` have (a single token: that all of them have), in order.

    Takes about 1 microsecond a token. Two outputs or more.
    """
    pivot = _pivot(outputs)
    matches = [range(len(pivot)) if other is pivot else align(pivot, other) for other in outputs]
    places = np.array(matches, dtype=np.int64).T  # by place of the pivot and output
    need = SUPPORT * len(outputs)
    here = places != ABSENT
    times = here.sum(axis=1)
    joined = (here[:-1] & (places[1:] == places[:-1] + 1)).sum(axis=1)
    # A run goes on where both neighbours are common, and neighbours in nearly all outputs.
    goes_on = (times[:-1] >= need) & (times[1:] >= need) & (joined >= need)
    edges = [0, *(np.flatnonzero(~goes_on) + 1).tolist(), len(pivot)]
    runs: list[Constant] = []
    for start, end in pairwise(edges):
        if times[start] >= (need if end - start > 1 else len(outputs)):
            tokens = tuple(pivot[start:end])
            runs.append(Constant(tokens, _whole(tokens, outputs, places[start].tolist())))
    return [run for run in runs if run.times]


def with_optional(runs: Sequence[Constant], outputs: Sequence[Sequence[int]]) -> list[Constant]:
    """`runs` and, between them in order, those of at least GRAM tokens that only some of the outputs have. Without any
    run, such as when a slot answers in several forms, those of the commonest form."""
    bounds = [Constant((), (0,) * len(outputs)), *runs, Constant((), tuple(map(len, outputs)))]
    within = OPTIONAL_WITHIN if runs else max(map(len, outputs))
    found: list[Constant] = []
    for left, right in pairwise(bounds):
        found.extend(_optional(left, right, _Within(outputs, within), OPTIONAL_ROUNDS))
        found.append(right)
    return found[:-1]


class _Within(NamedTuple):
    """Outputs, and how long the parts of them are at most that are looked at."""

    outputs: Sequence[Sequence[int]]
    tokens: int


def _optional(left: Constant, right: Constant, within: _Within, rounds: int) -> Iterator[Constant]:
    """The runs that some outputs have between two others, and between those."""
    found = _shared(left, right, within) if rounds else []
    for before, after in pairwise([left, *found, right] if found else []):
        yield from _optional(before, after, within, rounds - 1)
        if after is not right:
            yield after


def _shared(left: Constant, right: Constant, within: _Within) -> list[Constant]:
    """The runs between two others of those outputs that share the commonest gram there, aligned with each other."""
    outputs, most_tokens = within
    parts: dict[int, Sequence[int]] = {}
    for number, (start, end) in enumerate(zip(left.places, right.places, strict=True)):
        if start != ABSENT and GRAM <= end - start - len(left.tokens) <= most_tokens:
            parts[number] = outputs[number][start + len(left.tokens) : end]
    grams = {number: set(_grams(part, 0, len(part))) for number, part in parts.items()}
    times = Counter(gram for of_one in grams.values() for gram in of_one)
    gram, most = max(times.items(), key=lambda item: item[1], default=((), 0))
    if most < max(2.0, OPTIONAL * len(outputs)):
        return []
    having = [number for number in parts if gram in grams[number]]
    runs = constants([parts[number] for number in having])
    return [_moved(run, having, left, len(outputs)) for run in runs if len(run.tokens) >= GRAM]


def _moved(run: Constant, having: Sequence[int], left: Constant, outputs: int) -> Constant:
    """A run of parts that begin after `left`, as a run of the outputs `having` these parts."""
    places = [ABSENT] * outputs
    for number, place in zip(having, run.places, strict=True):
        if place != ABSENT:
            places[number] = left.places[number] + len(left.tokens) + place
    return Constant(run.tokens, tuple(places))


def _whole(tokens: tuple[int, ...], outputs: Sequence[Sequence[int]], starts: Sequence[int]) -> tuple[int, ...]:
    found = []
    for output, start in zip(outputs, starts, strict=True):
        here = start != ABSENT and tuple(output[start : start + len(tokens)]) == tokens
        found.append(start if here else ABSENT)
    return tuple(found)


def _pivot(outputs: Sequence[Sequence[int]]) -> Sequence[int]:
    """The output the others are compared with: the one that has most of what is common."""
    grams = [set(zip(*(output[n:] for n in range(GRAM)), strict=False)) for output in outputs]
    times = Counter(gram for of_one in grams for gram in of_one)
    common = {gram for gram, n in times.items() if n >= SUPPORT * len(outputs)}
    return outputs[max(range(len(outputs)), key=lambda one: (len(grams[one] & common), -len(outputs[one])))]


def align(a: Sequence[int], b: Sequence[int]) -> list[int]:
    """For each place of `a` the place of `b` that belongs to it, or ABSENT. The places of `b` ascend; the tokens are
    equal."""
    found = [ABSENT] * len(a)
    pending = [Gap(0, len(a), 0, len(b), 0)]
    while pending:
        gap = _without_ends(a, b, pending.pop(), found)
        size = min(gap.a_to - gap.a_from, gap.b_to - gap.b_from)
        if size > 0 and gap.stage < len(_STAGES):
            pending.extend(_STAGES[gap.stage](a, b, gap, found))
    return found


def _without_ends(a: Sequence[int], b: Sequence[int], gap: Gap, found: list[int]) -> Gap:
    """Pair what is equal at both ends of a gap; what is left."""
    a_from, a_to, b_from, b_to, stage = gap
    while a_from < a_to and b_from < b_to and a[a_from] == b[b_from]:
        found[a_from] = b_from
        a_from += 1
        b_from += 1
    while a_from < a_to and b_from < b_to and a[a_to - 1] == b[b_to - 1]:
        a_to -= 1
        b_to -= 1
        found[a_to] = b_to
    return Gap(a_from, a_to, b_from, b_to, stage)


def _by_unique_grams(a: Sequence[int], b: Sequence[int], gap: Gap, found: list[int]) -> list[Gap]:
    in_a, in_b = _unique(a, gap.a_from, gap.a_to), _unique(b, gap.b_from, gap.b_to)
    pairs = [Anchor(in_a[gram], in_b[gram]) for gram in in_a.keys() & in_b.keys()]
    return _between(_ascending(pairs), gap, found)


def _by_occurrence(a: Sequence[int], b: Sequence[int], gap: Gap, found: list[int]) -> list[Gap]:
    pairs = _same_occurrence(_grams(a, gap.a_from, gap.a_to), _grams(b, gap.b_from, gap.b_to), gap)
    return _between(_ascending(pairs), gap, found)


def _by_single_tokens(a: Sequence[int], b: Sequence[int], gap: Gap, found: list[int]) -> list[Gap]:
    if max(gap.a_to - gap.a_from, gap.b_to - gap.b_from) > SINGLES_WITHIN:
        return []
    for anchor in _ascending(_same_occurrence(a[gap.a_from : gap.a_to], b[gap.b_from : gap.b_to], gap)):
        found[anchor.a] = anchor.b
    return []


_STAGES = (_by_unique_grams, _by_occurrence, _by_single_tokens)


def _grams(tokens: Sequence[int], start: int, end: int) -> list[tuple[int, ...]]:
    part = tokens[start:end]
    return list(zip(*(part[n:] for n in range(GRAM)), strict=False))


def _unique(tokens: Sequence[int], start: int, end: int) -> dict[tuple[int, ...], int]:
    """The n-grams that occur once, with their place."""
    grams = _grams(tokens, start, end)
    once = dict(zip(grams, range(start, end), strict=False))
    if len(once) < len(grams):
        times = Counter(grams)
        once = {gram: place for gram, place in once.items() if times[gram] == 1}
    return once


def _same_occurrence(a: Sequence[object], b: Sequence[object], gap: Gap) -> list[Anchor]:
    """Pairs the k-th occurrence of anything in `a` with its k-th in `b`."""
    in_b: dict[object, list[int]] = {}
    for place in range(len(b) - 1, -1, -1):
        in_b.setdefault(b[place], []).append(gap.b_from + place)
    pairs = []
    for place, one in enumerate(a, gap.a_from):
        places = in_b.get(one)
        if places:
            pairs.append(Anchor(place, places.pop()))
    return pairs


def _ascending(pairs: list[Anchor]) -> list[Anchor]:
    """The largest set of pairs that ascend on both sides (longest increasing subsequence)."""
    pairs.sort()
    smallest: list[int] = []  # the smallest end of an ascent, by its length
    ends: list[int] = []  # the pair that is this end
    before: list[int] = []
    for number, (_, b) in enumerate(pairs):
        length = bisect_left(smallest, b)
        before.append(ends[length - 1] if length else ABSENT)
        if length == len(smallest):
            smallest.append(b)
            ends.append(number)
        else:
            smallest[length], ends[length] = b, number
    chain = []
    at = ends[-1] if ends else ABSENT
    while at != ABSENT:
        chain.append(pairs[at])
        at = before[at]
    chain.reverse()
    return chain


def _between(anchors: list[Anchor], gap: Gap, found: list[int]) -> list[Gap]:
    """Note the anchors, whose first tokens are equal, and give the gaps between them, for the next stage: equal
    tokens that follow an anchor are paired when the gap's ends are taken off."""
    edges = [Anchor(gap.a_from - 1, gap.b_from - 1), *anchors, Anchor(gap.a_to, gap.b_to)]
    for anchor in anchors:
        found[anchor.a] = anchor.b
    gaps = []
    for left, right in pairwise(edges):
        if right.a > left.a + 1 and right.b > left.b + 1:
            gaps.append(Gap(left.a + 1, right.a, left.b + 1, right.b, gap.stage + 1))
    return gaps
