"""The memory drafter: drafts from the slot's past, in step with a memory that changes under it, for one owner only."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgl_spec.drafting.drafter import DraftRequest
from sgl_spec.drafting.hint import Hint
from sgl_spec.drafting.memory.memory_drafter import REPLAYED_TOKENS, MemoryDrafter
from sgl_spec.drafting.memory.output_memory import OutputMemory
from sgl_spec.drafting.memory.slot_key import slot_key
from sgl_spec.drafting.tree import Chain, DraftError

ANSWER = [11, 12, 13, 14, 15, 16]


def request(rid: str, slot: str | None = "s", owner: str = "", memory: str = "read-write") -> DraftRequest:
    return DraftRequest(rid, [1, 2, 3], "p" if slot else None, slot, frozenset({0}), owner, Hint(memory=memory))


def drafter(max_tokens: int = 100_000, max_slot_tokens: int = 10_000) -> MemoryDrafter:
    return MemoryDrafter(OutputMemory(max_tokens, max_slot_tokens))


def ran(drafts: MemoryDrafter, output: list[int], asked: DraftRequest | None = None) -> None:
    asked = asked or request("past")
    drafts.start(asked)
    drafts.observe(asked.rid, output)
    drafts.finish(asked.rid, output)
    drafts.stop(asked.rid)


def proposed(drafts: MemoryDrafter, rid: str = "r", most: int = 16) -> list[tuple[int, ...]]:
    return [chain.tokens for chain in drafts.propose(rid, most)]


def test_the_first_call_has_nothing_and_the_second_the_whole_first_answer():
    drafts = drafter()
    drafts.start(request("r"))
    assert drafts.propose("r", 16) == []
    ran(drafts, ANSWER)
    (chain,) = drafts.propose("r", 16)
    assert chain.tokens == tuple(ANSWER)
    assert chain.origin == "memory"
    assert list(chain.q) == sorted(chain.q), "the longer it goes as before, the surer it is"


def test_it_goes_on_from_what_was_committed():
    drafts = drafter()
    ran(drafts, ANSWER)
    drafts.start(request("r"))
    drafts.observe("r", [11, 99, 13])
    assert proposed(drafts) == [(14, 15, 16)]
    drafts.observe("r", [14, 15])
    assert proposed(drafts) == [(16,)]
    drafts.observe("r", [16])
    assert proposed(drafts) == [], "the end of an output is never drafted, nor another output after it"


def test_answers_that_differ_are_siblings():
    drafts = drafter()
    for last in (21, 22, 21):
        ran(drafts, [11, 12, last])
    drafts.start(request("r"))
    drafts.observe("r", [11, 12])
    likeliest = sorted(drafts.propose("r", 16), key=lambda chain: -chain.q[0])
    assert [chain.tokens for chain in likeliest] == [(21,), (22,)]


def test_where_the_slot_has_nothing_its_program_has_a_say():
    drafts = drafter()
    ran(drafts, ANSWER, request("past", "reason"))
    drafts.start(request("r", "verdict"))
    assert proposed(drafts) == [tuple(ANSWER)], "a slot never seen"
    ran(drafts, [31, 32], request("past", "verdict"))
    assert proposed(drafts) == [(31, 32)], "now it has its own"
    drafts.observe("r", [11, 12, 13])
    assert proposed(drafts) == [(14, 15, 16)], "which this output does not follow"


def test_without_names_a_slot_is_known_by_its_prompt():
    drafts = drafter()
    ran(drafts, ANSWER, request("past", None))
    drafts.start(request("r", None))
    assert proposed(drafts) == [tuple(ANSWER)]
    drafts.start(request("r", None)._replace(prompt=[4, 5]))
    assert proposed(drafts) == []


@pytest.mark.parametrize(("use", "reads", "writes"), [("read", 1, 0), ("write", 0, 1), ("off", 0, 0)])
def test_a_client_may_turn_reading_and_writing_off(use, reads, writes):
    drafts = drafter()
    ran(drafts, ANSWER)
    drafts.start(request("r", memory=use))
    assert len(proposed(drafts)) == reads
    ran(drafts, [41, 42], request("past", "new", memory=use))
    drafts.start(request("r", "new"))
    assert ((41, 42) in proposed(drafts)) == writes


def test_only_what_ended_by_itself_is_remembered_and_without_its_ending():
    drafts = drafter()
    aborted = request("aborted")
    drafts.start(aborted)
    drafts.observe("aborted", ANSWER)
    drafts.stop("aborted")
    drafts.start(request("r"))
    assert proposed(drafts) == []
    ran(drafts, [11, 12, 0, 0])
    ran(drafts, [0])
    assert drafts._memory.outputs(slot_key(aborted)) == ((11, 12),)


def test_a_retracted_request_begins_again():
    drafts = drafter()
    ran(drafts, ANSWER)
    for _ in range(2):
        drafts.start(request("r"))
        drafts.observe("r", [11, 12])
        assert proposed(drafts) == [(13, 14, 15, 16)]


def test_a_long_copy_is_followed_to_its_end():
    drafts = drafter()
    text = [100 + number for number in range(40)] + [7, *range(200, 300)] + [7, *range(300, 400)]
    ran(drafts, text)
    drafts.start(request("r"))
    for place in range(len(text) - 1):
        chains = drafts.propose("r", 4)
        assert max(chains, key=lambda chain: chain.q[0]).tokens[0] == text[place], "also right after the 7"
        drafts.observe("r", text[place : place + 1])
        if place % 50 == 49:
            ran(drafts, [1, 2, place], request("past", "s"))  # the index grows: the place is looked for again


def test_unknown_requests_are_refused_where_something_is_asked_of_them():
    drafts = drafter()
    with pytest.raises(DraftError, match="rid 'r' is not among the 0 started requests"):
        drafts.propose("r", 4)
    with pytest.raises(DraftError, match="rid 'r' is not among the 0 started requests"):
        drafts.observe("r", [1])
    drafts.finish("r", [1])  # ended within its prefill, before it had a slot
    drafts.stop("r")
    with pytest.raises(DraftError, match="min_a is 2"):
        MemoryDrafter(OutputMemory(1_000, 100), 2)


# What happens: a running request "observe"s tokens, or a past one of some slot "finish"es with some.
tokens = st.lists(st.integers(1, 4), min_size=1, max_size=8).map(tuple)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("observe"), st.sampled_from("ABCD"), tokens),
        st.tuples(st.just("finish"), st.sampled_from("stu"), tokens),
    ),
    max_size=60,
)


@settings(deadline=None, max_examples=150)
@given(steps, st.sampled_from([64, 100, 400]))
def test_a_running_request_drafts_what_a_new_one_at_the_same_place_would(steps, slot_tokens):
    """Whatever happened to the memory meanwhile: grown, half forgotten, evicted, come again."""
    drafts = drafter(3 * slot_tokens, slot_tokens)
    outputs: dict[str, list[int]] = {rid: [] for rid in "ABCD"}
    for rid in outputs:
        drafts.start(request(rid, "stst"["ABCD".index(rid)]))
    for what, name, some in steps:
        if what == "finish":
            ran(drafts, list(some) * 3, request("past", name))
        elif len(outputs[name]) + len(some) < REPLAYED_TOKENS:
            drafts.observe(name, some)
            outputs[name] += some
        for rid, output in outputs.items():
            drafts.start(request("twin", "stst"["ABCD".index(rid)]))
            drafts.observe("twin", output)
            assert drafts.propose(rid, 12) == drafts.propose("twin", 12)


@settings(deadline=None, max_examples=150)
@given(steps, st.sampled_from(["s", None]))
def test_nothing_private_reaches_another_owner(steps, slot):
    """Owner b asks from the same program, slot and prompt and writes owner a's tokens, to be led on by them. It still
    sees only what owner b wrote."""
    drafts = drafter(2_000, 400)
    own: set[int] = set()
    for rid in "ABCD":
        drafts.start(request(rid, slot, owner="b"))
    for number, (what, name, some) in enumerate(steps):
        if what == "observe":
            drafts.observe(name, some)
        elif number % 2:
            ran(drafts, list(some), request("past", slot, owner="a"))
        else:
            ran(drafts, [token + 100 for token in some], request("past", slot, owner="b"))
            own |= {token + 100 for token in some}
        for rid in "ABCD":
            assert drafted(drafts.propose(rid, 30)) <= own


def drafted(chains: list[Chain]) -> set[int]:
    return {token for chain in chains for token in chain.tokens}
