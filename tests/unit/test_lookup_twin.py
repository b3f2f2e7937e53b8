"""The search over an automaton against a slow twin that knows the text and the rule: from the text's own end, as the
lookup drafter does, and after another text, as the memory drafter does."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgl_spec.drafting.budget import DraftBudget, combine
from sgl_spec.drafting.drafter import DraftRequest
from sgl_spec.drafting.lookup.lookup_drafter import LookupDrafter
from sgl_spec.drafting.lookup.suffix_cursor import SuffixCursor
from sgl_spec.drafting.lookup.suffix_index import SuffixIndex
from sgl_spec.drafting.lookup.suffix_kernel import NEWEST_BONUS
from sgl_spec.drafting.lookup.suffix_search import LONG_MATCH, PRIORS, Trust, search_chains
from sgl_spec.drafting.tree import Chain, DraftError

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


def contexts(text: list[int], whole: list[int]) -> list[Context]:
    """The longest suffix of `whole` for every set of places in the text, the longest first."""
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


def offers(text: list[int], whole: list[int], min_q: float) -> dict[int, float]:
    left, seen, offered = 1.0, set[int](), dict[int, float]()
    for context in contexts(text, whole):
        if left < min_q:
            break
        given_away = {token: left * share for token, share in shares(context, seen).items()}
        offered |= {token: q for token, q in given_away.items() if q >= min_q and token >= 0}
        left -= sum(given_away.values())
        seen |= context.followed.keys()
    return offered


def twin(text: list[int], own: list[int], path: tuple[int, ...] = (), a: float = 1.0) -> dict[tuple[int, ...], float]:
    """a(v) of every node worth drafting from `text` after `own`, by its path."""
    nodes: dict[tuple[int, ...], float] = {}
    for token, q in offers(text, [*own, *path], MIN_A / a).items():
        nodes[*path, token] = a * q
        nodes |= twin(text, own, (*path, token), a * q)
    return nodes


def by_path(chains: list[Chain]) -> dict[tuple[int, ...], float]:
    tree = combine(chains, 0, DraftBudget(10_000, 0.0))
    paths: list[tuple[int, ...]] = [()]
    for node in range(1, len(tree)):
        paths.append((*paths[tree.parents[node]], tree.tokens[node]))
    return {paths[node]: tree.a[node] for node in range(1, len(tree))}


def searched(text: list[int]) -> dict[tuple[int, ...], float]:
    drafter = LookupDrafter(min_a=MIN_A)
    drafter.start(DraftRequest("r", text))
    return by_path(drafter.propose("r", 10_000))


@settings(deadline=None, max_examples=300)
@given(texts)
def test_the_search_finds_what_the_rule_says(text):
    assert searched(text) == pytest.approx(twin(text, text), rel=1e-9)


def test_it_also_does_with_long_contexts_and_many_followers():
    fan = [token for n in range(40) for token in (7, n % 13 + 8)]
    for text in ([*range(30), *range(29)], [*fan, 7], [*range(12), *fan, 3, 4, 7, *range(11), 7]):
        assert searched(text) == pytest.approx(twin(text, text), rel=1e-9)


@settings(deadline=None, max_examples=300)
@given(st.lists(st.integers(-2, 3), max_size=40), st.lists(st.integers(-1, 3), max_size=20))
def test_so_it_does_after_another_text_and_never_proposes_a_marker(text, own):
    index = SuffixIndex(markers=True)
    index.extend(text)
    cursor = SuffixCursor(index)
    cursor.extend(own)
    chains = search_chains(index.automaton, cursor.state, cursor.length, 10_000, MIN_A, "memory")
    assert all(chain.origin == "memory" and min(chain.tokens) >= 0 for chain in chains)
    assert by_path(chains) == pytest.approx(twin(text, own), rel=1e-9)


@settings(deadline=None, max_examples=200)
@given(texts, st.integers(0, 12), st.sampled_from([0.0, MIN_A, 0.3]))
def test_fewer_nodes_are_the_likeliest_of_all(text, max_nodes, min_a):
    index = SuffixIndex()
    index.extend(text)
    state = index.longest_match
    length = index.length_of(state)
    few = by_path(search_chains(index.automaton, state, length, max_nodes, min_a, "x"))
    every = by_path(search_chains(index.automaton, state, length, 10_000, min_a, "x"))
    assert sorted(few.values()) == sorted(every.values())[len(every) - len(few) :]
    assert len(few) == min(max_nodes, len(every))
    assert few.items() <= every.items()


@pytest.mark.parametrize("state", [-1, 1 << 20])
def test_a_state_that_is_none_is_refused(state):
    with pytest.raises(DraftError, match=f"state is {state}"):
        search_chains(SuffixIndex().automaton, state, 1, 15, 0.04, "x")
