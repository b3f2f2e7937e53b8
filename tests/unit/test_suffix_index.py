"""The suffix index against a brute-force twin, and its bounds."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgl_spec.drafting.lookup.suffix_index import (
    BYTES_PER_TOKEN,
    MAX_BYTES_PER_TOKEN,
    REFRESHED_SUFFIXES,
    SuffixIndex,
)
from sgl_spec.drafting.tree import DraftError
from sgl_spec.errors import ConfigError

texts = st.one_of(
    st.lists(st.integers(0, 1), max_size=22),
    st.lists(st.integers(0, 3), max_size=40),
    st.lists(st.integers(0, 2), min_size=1, max_size=6).map(lambda period: (period * 12)[:25]),
)


class Twin(NamedTuple):
    """What brute force finds for one set of earlier places: its longest suffix and what followed."""

    length: int
    followed: dict[int, tuple[int, int]]  # token -> (times, newest place)


def brute_force(text: list[int]) -> list[Twin]:
    twins: dict[tuple[int, ...], Twin] = {}
    for length in range(1, len(text)):
        suffix = text[len(text) - length :]
        places = tuple(e for e in range(length, len(text)) if text[e - length : e] == suffix)
        if not places:
            break
        followed: dict[int, tuple[int, int]] = {}
        for place in places:
            times, _ = followed.get(text[place], (0, 0))
            followed[text[place]] = (times + 1, place)
        twins[places] = Twin(length, followed)
    return sorted(twins.values(), reverse=True, key=lambda twin: twin.length)


def found(index: SuffixIndex) -> list[Twin]:
    return [Twin(m.length, {c.token: (c.times, c.end) for c in m.continuations}) for m in index.matches()]


@settings(max_examples=400, deadline=None)
@given(texts)
def test_all_matches_after_every_token_are_those_of_brute_force(text):
    index = SuffixIndex()
    for n, token in enumerate(text, 1):
        index.append(token)
        twins = brute_force(text[:n])
        assert len(twins) <= REFRESHED_SUFFIXES, "or counts would be lower bounds"
        assert found(index) == twins


@settings(deadline=None)
@given(texts)
def test_extend_is_append(text):
    one, other = SuffixIndex(), SuffixIndex()
    one.extend(text)
    for token in text:
        other.append(token)
    assert found(one) == found(other)
    assert len(one) == len(text)


@settings(deadline=None)
@given(st.lists(st.integers(0, 2), min_size=1, max_size=60), st.integers(2, 9))
def test_a_full_index_answers_for_the_tokens_it_holds(text, max_tokens):
    index = SuffixIndex(max_tokens)
    for n, token in enumerate(text, 1):
        index.append(token)
        assert 1 <= len(index) <= max_tokens
        assert len(index) >= min(n, max_tokens // 2 + 1)
        start = n - len(index)
        held = brute_force(text[start:n])
        moved = [Twin(t.length, {k: (c, e + start) for k, (c, e) in t.followed.items()}) for t in held]
        assert found(index) == moved


@settings(deadline=None)
@given(st.lists(st.integers(0, 2), max_size=20), st.lists(st.integers(0, 2), max_size=40))
def test_a_long_prompt_keeps_its_newest_tokens(first, second):
    index = SuffixIndex(8)
    index.extend(first)
    index.extend(second)
    assert len(index) <= 8
    text = first + second
    held = brute_force(text[len(text) - len(index) :])
    assert [match.length for match in index.matches()] == [twin.length for twin in held]


def noise(n: int, vocabulary: int) -> list[int]:
    state, tokens = 1, []
    for _ in range(n):
        state = state * 6364136223846793005 % 2**64 + 1442695040888963407
        tokens.append((state >> 33) % vocabulary)
    return tokens


ADVERSARIES = {
    "one token": [7] * 20_000,
    "two tokens": noise(20_000, 2),
    "four tokens": noise(20_000, 4),
    "distinct tokens": list(range(20_000)),
    "all states": [1] + [2] * 19_999,
    "few words": noise(20_000, 150),
}


@pytest.mark.parametrize("name", ADVERSARIES)
def test_memory_is_linear_on_adversarial_input(name):
    index = SuffixIndex()
    index.extend(ADVERSARIES[name])
    assert index.num_states <= 2 * len(index) + 1
    assert index.num_bytes < MAX_BYTES_PER_TOKEN * len(index)


def test_memory_of_text_is_as_documented():
    # Zipf-like words in phrases that come again: the branching of text without needing any.
    words = [min(10_000 // (1 + n), 9_999) for n in noise(4_000, 10_000)]
    text = [token for n in noise(800, 60) for token in words[n * 40 : n * 40 + 25]]
    index = SuffixIndex()
    index.extend(text)
    assert index.num_bytes < BYTES_PER_TOKEN * len(index)


def test_memory_is_bounded_however_long_the_text():
    index = SuffixIndex(1_000)
    for start in range(0, 50_000, 1_000):
        index.extend(noise(start + 1_000, 50)[start:])
    assert len(index) <= 1_000
    assert index.num_bytes < MAX_BYTES_PER_TOKEN * 1_000


def test_append_to_one_repeated_token_is_not_linear():
    index = SuffixIndex()
    index.extend([7] * 5_000)
    assert index.num_states == 5_001
    assert next(index.matches()).length == 4_999


@pytest.mark.parametrize("tokens", [[1, -1], [1, "a"], [1, 0.5], [None]])
def test_what_is_no_token_is_refused_and_nothing_is_appended(tokens):
    index = SuffixIndex()
    with pytest.raises(DraftError, match="token"):
        index.extend(tokens)
    assert len(index) == 0


@pytest.mark.parametrize("max_tokens", [1, 0, -5])
def test_a_size_that_holds_nothing_is_refused(max_tokens):
    with pytest.raises(ConfigError, match=f"max_tokens is {max_tokens}"):
        SuffixIndex(max_tokens)
