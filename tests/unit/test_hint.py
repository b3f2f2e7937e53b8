"""The wire format of hints: the round trip, every reason to ignore one, and that reading never raises."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgl_spec.drafting.hint import MAX_NAME_CHARS, Hint, HintRead, decode_hint, encode_hint
from sgl_spec.errors import HintError, SglSpecError

names = st.none() | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=MAX_NAME_CHARS)
hints = st.builds(Hint, version=st.just(1), program=names, slot=names, off=st.booleans())
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)
fields = st.sampled_from(["version", "program", "slot", "off", "tokens"])
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
        "off": False,
    }
    assert encode_hint(Hint(off=True)) == {"version": 1, "off": True}
    assert decode_hint({"version": 1}) == HintRead(Hint(1, None, None, False), None)
    assert decode_hint({"version": 1, "slot": None}) == HintRead(Hint(), None)


@pytest.mark.parametrize(
    "hint", [Hint(version=2), Hint(program=""), Hint(slot="s" * 201), Hint(program=5), Hint(off="no")]
)
def test_a_client_is_told_what_is_wrong(hint):
    with pytest.raises(HintError, match="200 characters") as caught:
        encode_hint(hint)
    assert isinstance(caught.value, SglSpecError)
    assert len(str(caught.value)) < 400
