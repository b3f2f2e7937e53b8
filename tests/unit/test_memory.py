"""The memory of past outputs: what it keeps, in what order, how much at most, and for whom."""

from __future__ import annotations

from threading import Thread

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sgl_spec.drafting.lookup.suffix_cursor import SuffixCursor
from sgl_spec.drafting.lookup.suffix_search import search_chains
from sgl_spec.drafting.memory.output_memory import (
    END,
    LEAST_COPIES,
    LEAST_SLOT_TOKENS,
    MARKERS,
    START,
    OutputMemory,
    RememberedOutput,
    RememberedSlot,
)
from sgl_spec.drafting.memory.slot_key import SlotKey, program_key
from sgl_spec.drafting.tree import DraftError
from sgl_spec.errors import ConfigError

KEY = SlotKey("owner", "judge", "verdict")
PROGRAM = SlotKey("owner", "judge", "")
keys = st.builds(SlotKey, st.sampled_from(["a", "b"]), st.sampled_from(["", "p", "q"]), st.sampled_from(["s", "t"]))
outputs = st.one_of(st.lists(st.integers(0, 3), max_size=12), st.lists(st.integers(0, 50_000), max_size=80))


def memory(max_tokens: int = 100_000, max_slot_tokens: int = 10_000) -> OutputMemory:
    return OutputMemory(max_tokens, max_slot_tokens)


def size(held: OutputMemory, key: SlotKey) -> int:
    index = held.index(key)
    return 0 if index is None else len(index)


def first_tokens(held: OutputMemory, key: SlotKey) -> set[int]:
    index = held.index(key)
    assert index is not None
    cursor = SuffixCursor(index)
    cursor.extend(START)
    found = search_chains(index.automaton, cursor.state, cursor.length, 100, 0.0, "memory")
    return {chain.tokens[0] for chain in found}


def test_the_newest_output_comes_first_and_a_repeat_is_new():
    held = memory()
    for output in ([1, 2], [3], [], [4, 5], [1, 2]):
        held.remember(KEY, output)
    assert held.outputs(KEY) == ((1, 2), (4, 5), (3,))
    assert held.outputs(KEY, 2) == ((1, 2), (4, 5))
    assert held.outputs(KEY, 0) == ()
    assert held.outputs(SlotKey("owner", "judge", "other")) == ()


def test_outputs_begin_with_start_and_end_before_the_next():
    held = memory()
    held.remember(KEY, [7, 8])
    held.remember(KEY, [9])
    index = held.index(KEY)
    assert index is not None
    assert first_tokens(held, KEY) == {7, 9}
    cursor = SuffixCursor(index)
    cursor.extend([*START, 7, 8, END, *START, 9, END])
    assert cursor.length == len(index), "this is all that it holds, in this order"
    cursor = SuffixCursor(index)
    cursor.extend([8])
    assert search_chains(index.automaton, cursor.state, cursor.length, 100, 0.0, "memory") == [], "nothing followed 8"


def test_a_program_has_the_outputs_of_all_its_slots_and_no_others():
    held = memory()
    held.remember(KEY, [1])
    held.remember(SlotKey("owner", "judge", "reason"), [2])
    held.remember(SlotKey("owner", "other", "verdict"), [3])
    held.remember(SlotKey("owner", "", "fingerprint"), [4])
    assert held.outputs(PROGRAM) == ((2,), (1,))
    assert first_tokens(held, PROGRAM) == {1, 2}
    assert held.index(SlotKey("owner", "", "")) is None, "slots without a program share nothing"
    assert len(held) == 6


def test_the_same_output_over_and_over_takes_no_more_room():
    held = memory()
    held.remember(KEY, range(1_000, 1_100))
    for _ in range(300):
        held.remember(KEY, range(200))
    settled = size(held, KEY), held.tokens_held
    for _ in range(2_000):
        held.remember(KEY, range(200))
    assert (size(held, KEY), held.tokens_held) == settled
    assert settled[0] < 10_000 / 4
    assert held.outputs(KEY) == (tuple(range(200)), tuple(range(1_000, 1_100))), "nor does it drive out others"


def test_how_often_short_answers_were_given_is_known():
    held = memory()
    for number in range(40):
        held.remember(KEY, [1] if number % 4 else [2])
    (slot,) = [slot for slot in held.snapshot() if slot.key == KEY]
    assert {output.tokens: output.copies for output in slot.outputs} == {(1,): 30, (2,): 10}


def test_a_long_output_is_cut():
    held = memory(max_tokens=4_000, max_slot_tokens=800)
    held.remember(KEY, range(1_000))
    (output,) = held.outputs(KEY)
    assert output == tuple(range(len(output)))
    assert len(output) + MARKERS == 100, "a quarter of one index, which has half of what the slot may hold"


def test_a_full_slot_forgets_its_oldest_outputs():
    held = memory(max_slot_tokens=1_000)
    for number in range(200):
        held.remember(KEY, range(number * 100, number * 100 + 20))
        assert held.outputs(KEY, 1) == (tuple(range(number * 100, number * 100 + 20)),)
        assert number * 100 in first_tokens(held, KEY)
        assert len(held.outputs(KEY, 100)) >= min(number + 1, 1_000 // 4 // (20 + MARKERS)), "never nearly all at once"
    assert 0 not in first_tokens(held, KEY)


def test_the_least_recently_used_slots_are_forgotten():
    held = memory(max_tokens=4 * LEAST_SLOT_TOKENS, max_slot_tokens=LEAST_SLOT_TOKENS)
    one, two, three, four, five = (SlotKey("owner", "", str(number)) for number in range(5))
    for key in (one, two, three, four):
        held.remember(key, [1])
    held.index(one)
    held.outputs(two)
    held.remember(five, [1])
    assert [slot.key for slot in held.snapshot()] == [four, one, two, five]


@pytest.mark.parametrize("output", [[1, -1], [1, 1 << 31], [1, 2.5], [1, "2"]])
def test_what_is_no_token_is_refused_and_nothing_remembered(output):
    held = memory()
    held.remember(KEY, [1])
    with pytest.raises(DraftError, match="output"):
        held.remember(KEY, output)
    assert held.outputs(KEY) == ((1,),)
    assert held.changes == 1


@pytest.mark.parametrize(("most", "slot"), [(1_000, 501), (1_000, LEAST_SLOT_TOKENS - 1), (0, 0)])
def test_bounds_that_cannot_be_kept_are_refused(most, slot):
    with pytest.raises(ConfigError, match=f"max_slot_tokens is {slot}; it must be from 64 to half of max_tokens"):
        OutputMemory(most, slot)


@settings(deadline=None)
@example(
    [
        (SlotKey("b", "", "t"), [0, 0, 0], 4),
        (SlotKey("b", "", "t"), [1], 2),
        (SlotKey("b", "", "t"), [2], 1),
        (SlotKey("b", "", "t"), [0, 0, 0], 1),
    ],
    64,
    2,
)  # the index that follows is as full as the one that serves
@given(st.lists(st.tuples(keys, outputs, st.integers(1, 30)), max_size=40), st.integers(64, 300), st.integers(2, 5))
def test_never_more_than_the_bounds(steps, slot_tokens, slots):
    held = memory(slots * slot_tokens, slot_tokens)
    seen: set[SlotKey] = set()
    for key, output, times in steps:
        for _ in range(times):
            held.remember(key, output)
        seen |= {key, program_key(key) or key}
        sizes = [size(held, each) for each in seen]
        assert held.tokens_held <= held.max_tokens
        assert sum(max(LEAST_SLOT_TOKENS, one) for one in sizes if one) <= held.tokens_held
        assert all(one <= slot_tokens / 2 for one in sizes), "the index to follow may have the other half"
        if output:
            assert held.outputs(key, 1)[0] == tuple(output[: slot_tokens // 2 // 4 - MARKERS])
            assert output[0] in first_tokens(held, key)


@settings(deadline=None)
@given(st.lists(st.tuples(keys, outputs), max_size=40))
def test_nothing_of_one_owner_is_kept_under_a_key_of_another(steps):
    """Owner a writes tokens below 100,000, owner b those above; every key that exists is looked at."""
    held = memory(1_000, 300)
    for key, output in steps:
        held.remember(key, [token + 100_000 * (key.owner == "b") for token in output])
    for slot in held.snapshot():
        assert {token >= 100_000 for output in slot.outputs for token in output.tokens} == {slot.key.owner == "b"}
        assert {token >= 100_000 for token in first_tokens(held, slot.key)} == {slot.key.owner == "b"}


@settings(deadline=None)
@given(st.lists(st.tuples(keys, outputs), max_size=60))
def test_a_snapshot_restored_is_the_same_memory(steps):
    held, again = memory(2_000, 400), memory(2_000, 400)
    for key, output in steps:
        held.remember(key, output)
    again.restore(held.snapshot())
    assert again.snapshot() == held.snapshot()
    for slot in held.snapshot():
        assert size(again, slot.key) == size(held, slot.key)


def test_a_snapshot_with_absurd_counts_costs_no_more_than_the_bounds():
    held = memory(2_000, 400)
    held.restore([RememberedSlot(KEY, tuple(RememberedOutput((number,) * 40, 1 << 31) for number in range(50)))])
    (kept,) = held.snapshot()
    assert {output.copies for output in kept.outputs} == {LEAST_COPIES}
    assert held.tokens_held <= 400


def test_snapshots_are_consistent_while_another_thread_remembers():
    held = memory()
    other = SlotKey("owner", "judge", "reason")

    def remember() -> None:
        for number in range(2_000):
            held.remember((KEY, other)[number % 2], [number, number + 1])

    thread = Thread(target=remember)
    thread.start()
    counts = []
    while thread.is_alive():
        slots = {slot.key: slot.outputs for slot in held.snapshot()}
        if PROGRAM in slots:
            newest = [slots[key][-1] for key in (KEY, other) if key in slots]
            assert slots[PROGRAM][-1] in newest, "a slot and its program change together"
            counts.append(slots[PROGRAM][-1].tokens[0])
    thread.join()
    assert counts
    assert counts == sorted(counts)
    assert held.outputs(PROGRAM, 1) == ((1_999, 2_000),)
