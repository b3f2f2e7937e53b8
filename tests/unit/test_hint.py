"""The wire format of hints: the round trip, every reason to ignore one, and that reading never raises."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgl_spec.drafting.hint import MAX_NAME_CHARS, MEMORY_USES, Hint, HintRead, decode_hint, encode_hint
from sgl_spec.errors import HintError, SglSpecError

names = st.none() | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=MAX_NAME_CHARS)
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
parts = texts | st.none() | st.lists(texts, min_size=1, max_size=3).map(tuple)
hints = st.builds(
    Hint, version=st.just(1), program=names, slot=names, predict=st.none() | texts,
    shape=st.lists(parts, max_size=5).map(tuple), examples=st.lists(texts, max_size=3).map(tuple), off=st.booleans(),
    origins=st.none() | st.frozensets(st.sampled_from(["lookup", "memory", "grammar"])),
    width=st.none() | st.integers(1, 256), memory=st.sampled_from(MEMORY_USES),
)  # fmt: skip
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)
fields = st.sampled_from(["version", "off", "tokens", *Hint._fields])
near_misses = st.dictionaries(fields, json_values | st.just(1) | st.text(min_size=190, max_size=210))


@settings(deadline=None)
@given(hints)
def test_round_trip_through_json(hint):
    assert decode_hint(json.loads(json.dumps(encode_hint(hint)))) == HintRead(hint, None)


@settings(deadline=None)
@given(json_values | near_misses)
def test_no_json_value_makes_reading_raise(obj):
    read = decode_hint(obj)
    assert (read.hint is None) != (read.ignored is None)
    if read.hint is None:
        assert read.ignored in {"version", "malformed", "oversized"}
    else:
        assert decode_hint(encode_hint(read.hint)) == read


@pytest.mark.parametrize(
    ("obj", "ignored"),
    [
        (None, "malformed"),
        ([], "malformed"),
        ("{}", "malformed"),
        ({}, "malformed"),
        ({"version": True}, "malformed"),
        ({"version": "1"}, "malformed"),
        ({"version": 1.0}, "malformed"),
        ({"version": 2}, "version"),
        ({"version": 0, "program": 7}, "version"),
        ({"version": 1, "program": 7}, "malformed"),
        ({"version": 1, "program": ""}, "malformed"),
        ({"version": 1, "slot": ["a"]}, "malformed"),
        ({"version": 1, "slot": "\ud800"}, "malformed"),
        ({"version": 1, "off": 1}, "malformed"),
        ({"version": 1, "of": True}, "malformed"),
        ({"version": 1, 5: True}, "malformed"),
        ({"version": 1, "program": "p" * (MAX_NAME_CHARS + 1)}, "oversized"),
        ({"version": 1, "slot": "s" * 10_000_000}, "oversized"),
        ({"version": 1} | {str(n): n for n in range(10)}, "oversized"),
        ({"version": 1, "predict": ["a"]}, "malformed"),
        ({"version": 1, "predict": "a" * 262_145}, "oversized"),
        ({"version": 1, "shape": "a"}, "malformed"),
        ({"version": 1, "shape": [""]}, "malformed"),
        ({"version": 1, "shape": [[]]}, "malformed"),
        ({"version": 1, "shape": [["a", None]]}, "malformed"),
        ({"version": 1, "shape": [None] * 65}, "oversized"),
        ({"version": 1, "shape": ["a" * 10_000, ["b" * 10_000]]}, "oversized"),
        ({"version": 1, "examples": ["a", 1]}, "malformed"),
        ({"version": 1, "examples": ["a"] * 17}, "oversized"),
        ({"version": 1, "examples": ["a" * 40_000] * 2}, "oversized"),
        ({"version": 1, "origins": "lookup"}, "malformed"),
        ({"version": 1, "origins": [""]}, "malformed"),
        ({"version": 1, "origins": ["a"] * 33}, "oversized"),
        ({"version": 1, "width": 0}, "malformed"),
        ({"version": 1, "width": True}, "malformed"),
        ({"version": 1, "width": 257}, "malformed"),
        ({"version": 1, "memory": "on"}, "malformed"),
    ],
)
def test_reasons(obj, ignored):
    assert decode_hint(obj) == HintRead(None, ignored)


def test_the_format_itself():
    """Written out: a change here breaks clients of other versions."""
    assert encode_hint(Hint(program="quote", slot="answer")) == {
        "version": 1,
        "program": "quote",
        "slot": "answer",
    }
    everything = {
        "version": 1,
        "program": "judge",
        "slot": "verdict",
        "predict": "Because it rhymes.",
        "shape": ["Because ", None, ".\n", ["Yes", "No"]],
        "examples": ["Because it scans.\nNo"],
        "off": True,
        "origins": ["lookup", "memory"],
        "width": 8,
        "memory": "read",
    }
    hint = decode_hint(everything).hint
    assert hint == Hint(
        1, "judge", "verdict", "Because it rhymes.", ("Because ", None, ".\n", ("Yes", "No")),
        ("Because it scans.\nNo",), True, frozenset(("lookup", "memory")), 8, "read",
    )  # fmt: skip
    assert encode_hint(hint) == everything
    assert encode_hint(Hint(off=True)) == {"version": 1, "off": True}
    assert decode_hint({"version": 1}) == HintRead(Hint(), None)
    assert decode_hint({"version": 1, "slot": None}) == HintRead(Hint(), None)


@pytest.mark.parametrize(
    "hint", [Hint(version=2), Hint(program=""), Hint(slot="s" * 201), Hint(program=5), Hint(off="no"), Hint(width=0)]
)
def test_a_client_is_told_what_is_wrong(hint):
    with pytest.raises(HintError, match="200 characters") as caught:
        encode_hint(hint)
    assert isinstance(caught.value, SglSpecError)
    assert len(str(caught.value)) < 400


def test_an_origin_stands_for_its_kinds():
    hint = Hint(origins=frozenset(("grammar", "memory.template")))
    assert hint.allows("grammar")
    assert hint.allows("grammar.text")
    assert hint.allows("memory.template")
    assert not hint.allows("memory")
    assert not hint.allows("lookup")
    assert Hint().allows("lookup")


@pytest.mark.parametrize(
    ("memory", "reads", "writes"),
    [("read-write", True, True), ("read", True, False), ("write", False, True), ("off", False, False)],
)
def test_uses_of_the_memory(memory, reads, writes):
    assert (Hint(memory=memory).reads_memory, Hint(memory=memory).writes_memory) == (reads, writes)
