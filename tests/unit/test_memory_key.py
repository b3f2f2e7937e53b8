"""Which requests share a slot: by name, else by the text around what a program inserted."""

from __future__ import annotations

import os
import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from sgl_spec.drafting.drafter import DraftRequest
from sgl_spec.drafting.memory.slot_key import (
    CLOSING_TOKENS,
    OPENING_TOKENS,
    SlotKey,
    owner_digest,
    program_key,
    slot_key,
)

END_OF_TURN = 2
ENDINGS = frozenset({END_OF_TURN, 0})
SYSTEM = [1, 9690, 198, *range(100, 112), END_OF_TURN]  # shorter than the opening: the user's message would show
USER = [198, 1, 4093, 198]
ANSWER = [END_OF_TURN, 198, 1, 520, 9531, 198]

words = st.lists(st.integers(1_000, 50_000), max_size=60)


def chat(message: list[int], system: list[int] = SYSTEM, begun: tuple[int, ...] = (), **what: str) -> SlotKey:
    return slot_key(DraftRequest("r", [*system, *USER, *message, *ANSWER, *begun], endings=ENDINGS, **what))


def test_names_are_taken_as_they_are():
    key = slot_key(DraftRequest("r", [1, 2], program="judge", slot="verdict", owner="salt"))
    assert (key.program, key.slot) == ("judge", "verdict")
    assert key == slot_key(DraftRequest("other", [7, 8, 9], program="judge", slot="verdict", owner="salt"))
    assert program_key(key) == SlotKey(key.owner, "judge", "")


def test_an_owner_is_known_by_a_digest_only():
    keys = {slot_key(DraftRequest("r", [], owner=owner)).owner for owner in ("", "a", "b", "\ud800", "\ud801")}
    assert len(keys) == 5
    assert all(len(key) == 32 and int(key, 16) >= 0 for key in keys)
    assert owner_digest("salt") == slot_key(DraftRequest("r", [], program="p", slot="s", owner="salt")).owner


@given(words, words)
def test_the_users_message_is_free(one, other):
    assert chat(one) == chat(other)
    assert program_key(chat(one)) is None


def test_what_surrounds_it_is_not():
    keys = {
        chat([5_000]),
        chat([5_000], system=[1, 9690, 198, *range(200, 212), END_OF_TURN]),
        chat([5_000], begun=(90, 91)),
        chat([5_000], constraint_key="[0-9]+"),
        chat([5_000], constraint_key=""),
        chat([5_000], program="judge"),
        chat([5_000], slot="verdict"),
        chat([5_000], owner="salt"),
    }
    assert len(keys) == 8


def test_a_program_that_names_no_slot_still_has_its_program():
    key = chat([5_000], program="judge")
    assert key == chat([6_000], program="judge")
    assert program_key(key) == SlotKey(owner_digest(""), "judge", "")


@given(words, words)
def test_without_turns_both_raw_ends_count(one, other):
    opening, closing = list(range(OPENING_TOKENS)), list(range(500, 500 + CLOSING_TOKENS))
    key = slot_key(DraftRequest("r", [*opening, *one, *closing]))
    assert key == slot_key(DraftRequest("r", [*opening, *other, *closing]))
    assert key != slot_key(DraftRequest("r", [*opening[:-1], 99, *one, *closing]))
    assert key != slot_key(DraftRequest("r", [*opening, *one, 99, *closing[1:]]))


def test_short_prompts_have_slots_too():
    prompts = [[], [1], [1, 1], list(range(30)), [END_OF_TURN], [1, END_OF_TURN]]
    assert len({slot_key(DraftRequest("r", prompt, endings=ENDINGS)) for prompt in prompts}) == len(prompts)


def test_a_fingerprint_outlives_the_process():
    code = (
        "from sgl_spec.drafting.drafter import DraftRequest; from sgl_spec.drafting.memory.slot_key import slot_key;"
        "print(*slot_key(DraftRequest('r', list(range(50)), owner='salt', constraint_key='[0-9]+')))"
    )
    here = slot_key(DraftRequest("r", list(range(50)), owner="salt", constraint_key="[0-9]+"))
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert shown.stdout.split() == [here.owner, here.slot]
    # Pinned: another value would orphan every saved memory. Change VERSION in memory_file.py with it.
    assert here.slot == "5865b4e1fe75f6a832c0d84bfb09a766"
