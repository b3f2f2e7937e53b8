"""The lookup drafter's search over the automaton against a slow twin that knows the text and the rule."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgl_spec.drafting.budget import DraftBudget, combine
from sgl_spec.drafting.drafter import DraftRequest
from sgl_spec.drafting.lookup_drafter import LONG_MATCH, NEWEST_BONUS, PRIORS, LookupDrafter, Trust

# No product of priors comes near this floor, so that rounding cannot decide what is above it.
MIN_A = 0.0311731

texts = st.one_of(
    st.lists(st.integers(0, 2), min_size=1, max_size=24),
    st.lists(st.integers(0, 6), min_size=1, max_size=30),
    st.lists(st.integers(0, 2), min_size=1, max_size=5).map(lambda period: (period * 12)[:24]),
)


class Context(NamedTuple):
    """A suffix that occurs in the text, and for each token that followed it the places where it did."""

    length: int
    followed: dict[int, list[int]]


def contexts(text: list[int], path: tuple[int, ...]) -> list[Context]:
    """The longest suffix of text + path for every set of places in the text, the longest first."""
    whole = [*text, *path]
    found: dict[tuple[int, ...], Context] = {}
    for length in range(len(whole), 0, -1):
        suffix = whole[len(whole) - length :]
        places = tuple(e for e in range(length, len(text) + 1) if text[e - length : e] == suffix)
        if not places or places in found:
            continue
        followed: dict[int, list[int]] = {}
        for place in places:
            if place < len(text):
                followed.setdefault(text[place], []).append(place)
        found[places] = Context(length, followed)
    return list(found.values())


def trust_in(length: int) -> Trust:
    return next((row for row in PRIORS if length <= row.longest), LONG_MATCH)


def shares(context: Context, seen: set[int]) -> dict[int, float]:
    """P of each token that followed the context, given that it is none of `seen`."""
    trust = trust_in(context.length)
    if len(context.followed) == 1:
        ((token, places),) = context.followed.items()
        return {} if token in seen else {token: trust.once if len(places) == 1 else trust.agreed}
    fresh = {token: places for token, places in context.followed.items() if token not in seen}
    newest = max((places[-1] for places in fresh.values()), default=-1)
    weights = {t: len(places) + NEWEST_BONUS * (places[-1] == newest) for t, places in fresh.items()}
    return {token: trust.split * weight / sum(weights.values()) for token, weight in weights.items()}


def offers(text: list[int], path: tuple[int, ...], min_q: float) -> dict[int, float]:
    left, seen, offered = 1.0, set[int](), dict[int, float]()
    for context in contexts(text, path):
        if left < min_q:
            break
        given_away = {token: left * share for token, share in shares(context, seen).items()}
        offered |= {token: q for token, q in given_away.items() if q >= min_q}
        left -= sum(given_away.values())
        seen |= context.followed.keys()
    return offered


def twin(text: list[int], path: tuple[int, ...] = (), a: float = 1.0) -> dict[tuple[int, ...], float]:
    """a(v) of every node worth drafting, by its path."""
    nodes: dict[tuple[int, ...], float] = {}
    for token, q in offers(text, path, MIN_A / a).items():
        nodes[*path, token] = a * q
        nodes |= twin(text, (*path, token), a * q)
    return nodes


def searched(text: list[int]) -> dict[tuple[int, ...], float]:
    drafter = LookupDrafter(min_a=MIN_A)
    drafter.start(DraftRequest("r", text))
    tree = combine(drafter.propose("r", 10_000), text[-1], DraftBudget(10_000, 0.0))
    paths: list[tuple[int, ...]] = [()]
    for node in range(1, len(tree)):
        paths.append((*paths[tree.parents[node]], tree.tokens[node]))
    return {paths[node]: tree.a[node] for node in range(1, len(tree))}


@settings(deadline=None, max_examples=300)
@given(texts)
def test_the_search_finds_what_the_rule_says(text):
    assert searched(text) == pytest.approx(twin(text), rel=1e-9)


def test_it_also_does_with_long_contexts_and_many_followers():
    fan = [token for n in range(40) for token in (7, n % 13 + 8)]
    for text in ([*range(30), *range(29)], [*fan, 7], [*range(12), *fan, 3, 4, 7, *range(11), 7]):
        assert searched(text) == pytest.approx(twin(text), rel=1e-9)
