"""The cursor through an index of other texts, against brute force, while the index stands still, grows and forgets."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgl_spec.drafting.lookup.suffix_cursor import REMEMBERED_TOKENS, SuffixCursor
from sgl_spec.drafting.lookup.suffix_index import SuffixIndex
from sgl_spec.drafting.tree import DraftError

tokens = st.lists(st.integers(-2, 2), max_size=40)


def holds(text: list[int], part: list[int]) -> bool:
    return any(text[i : i + len(part)] == part for i in range(len(text) - len(part) + 1))


def longest_suffix(text: list[int], fed: list[int]) -> int:
    return next(n for n in range(len(fed), -1, -1) if n == 0 or holds(text, fed[len(fed) - n :]))


def state_of(index: SuffixIndex, context: list[int]) -> int:
    """The state reached from the empty context: a cursor that is fed nothing else."""
    cursor = SuffixCursor(index)
    cursor.extend(context)
    assert cursor.length == len(context)
    return cursor.state


@settings(deadline=None, max_examples=300)
@given(tokens, tokens)
def test_the_longest_suffix_that_occurs_is_found_after_every_token(text, fed):
    index = SuffixIndex(markers=True)
    index.extend(text)
    cursor = SuffixCursor(index)
    for n, token in enumerate(fed, 1):
        cursor.advance(token)
        assert cursor.length == longest_suffix(text, fed[:n])
        assert cursor.state == state_of(index, fed[n - cursor.length : n])
        assert (cursor.state == 0) == (cursor.length == 0)
    assert len(index) == len(text), "the cursor changes nothing"


@settings(deadline=None, max_examples=300)
@given(st.lists(st.tuples(tokens, tokens), max_size=5))
def test_while_the_index_grows_the_match_stays_one_and_does_not_shrink(turns):
    index = SuffixIndex(markers=True)
    cursor = SuffixCursor(index)
    text, all_fed = list[int](), list[int]()
    for added, fed in turns:
        before = cursor.length
        index.extend(added)
        text += added
        assert cursor.length == before
        assert cursor.state == state_of(index, all_fed[len(all_fed) - before :])
        for token in fed:
            frozen = longest_suffix(text, [*all_fed[len(all_fed) - cursor.length :], token])
            all_fed.append(token)
            cursor.advance(token)
            assert cursor.length == frozen
            assert cursor.state == state_of(index, all_fed[len(all_fed) - frozen :])


@settings(deadline=None)
@given(st.lists(st.integers(0, 2), max_size=30), st.lists(st.integers(0, 2), max_size=30))
def test_after_the_index_forgot_the_match_is_in_what_it_holds(fed, added):
    index = SuffixIndex(12)
    index.extend(fed)
    cursor = SuffixCursor(index)
    cursor.extend(fed)
    generation = index.generation
    index.extend(added)
    held = (fed + added)[len(fed) + len(added) - len(index) :]
    length = cursor.length
    assert length == 0 or holds(held, fed[len(fed) - length :])
    assert cursor.state == state_of(index, fed[len(fed) - length :])
    if index.generation != generation:
        assert length == longest_suffix(held, fed)


def test_a_long_match_is_found_again_up_to_what_is_remembered():
    text = list(range(100))
    index = SuffixIndex(200)
    index.extend(text)
    cursor = SuffixCursor(index)
    cursor.extend(text)
    assert cursor.length == 100
    index.extend([*range(100, 201)])
    index.extend(text)
    assert cursor.length == REMEMBERED_TOKENS


@pytest.mark.parametrize("fed", [["a"], [None], [0.5]])
def test_what_is_no_token_is_refused(fed):
    cursor = SuffixCursor(SuffixIndex())
    with pytest.raises(DraftError, match="token"):
        cursor.extend(fed)
    assert (cursor.state, cursor.length) == (0, 0)
