"""What recorded texts have in common: literals where they agree, values where a known value explains the difference."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgl_spec.program.nodes import COMPUTED, Inserted, join_parts
from sgl_spec.program.text_parts import Sample, common_end, common_parts, common_start

NAME, TOWN = Inserted("argument", "name"), Inserted("variable", "town")


def samples(*runs: tuple[str, Mapping[Inserted, str]]) -> list[Sample]:
    return [Sample(text, values) for text, values in runs]


@pytest.mark.parametrize(
    ("runs", "parts"),
    [
        ([("same", {NAME: "a"}), ("same", {NAME: "b"})], ("same",)),
        ([("", {}), ("", {})], ()),
        ([("Hi Ann!", {NAME: "Ann"}), ("Hi Bob!", {NAME: "Bob"})], ("Hi ", NAME, "!")),
        # Values that begin alike, and one inside another.
        ([("Hi Paul", {NAME: "Paul"}), ("Hi Peter", {NAME: "Peter"})], ("Hi ", NAME)),
        ([("xaby", {NAME: "a"}), ("xabby", {NAME: "ab"})], ("x", NAME, "by")),
        ([("Ann of Rome, Ann", {NAME: "Ann", TOWN: "Rome"}), ("Bob of Oslo, Bob", {NAME: "Bob", TOWN: "Oslo"})],
         (NAME, " of ", TOWN, ", ", NAME)),
        ([("AnnRome", {NAME: "Ann", TOWN: "Rome"}), ("BoOslo", {NAME: "Bo", TOWN: "Oslo"})], (NAME, TOWN)),
        ([("Result: 12 ok", {NAME: "Ann"}), ("Result: 99 ok", {NAME: "Bob"})], ("Result: ", COMPUTED, " ok")),
        # Explained as far as it goes.
        ([("Ann: 12.", {NAME: "Ann"}), ("Bob: 7.", {NAME: "Bob"})], (NAME, ": ", COMPUTED, ".")),
        # A value that is the same in every run explains no difference.
        ([("Ann 1", {NAME: "Ann"}), ("Ann 2", {NAME: "Ann"})], ("Ann ", COMPUTED)),
        # A value that only one of the runs knows is not the reason.
        ([("Hi Ann", {NAME: "Ann"}), ("Hi Bob", {})], ("Hi ", COMPUTED)),
        ([("", {NAME: ""}), ("Bob", {NAME: "Bob"})], (NAME,)),
    ],
)  # fmt: skip
def test_parts(runs, parts) -> None:
    assert common_parts(samples(*runs)) == parts
    assert common_parts(samples(*reversed(runs))) == parts


def test_one_run_alone_is_literal() -> None:
    assert common_parts(samples(("Hi Ann", {NAME: "Ann"}))) == ("Hi Ann",)


def test_a_value_that_repeats_without_end_is_given_up() -> None:
    runs = [("a" * 5000 + "!", {NAME: "a"}), ("b" * 5000 + "!", {NAME: "b"})]
    assert common_parts(samples(*runs))[-2:] == (COMPUTED, "!")


WORDS = st.text(alphabet="abc ", max_size=6)
PARTS = st.lists(st.one_of(WORDS, st.sampled_from([NAME, TOWN])), max_size=6)


@settings(max_examples=300, deadline=None)
@given(PARTS, st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=4))
def test_the_parts_give_every_sample_its_text(parts, values) -> None:
    """Whatever is found renders to the texts it was found in; a program's own parts are always an explanation."""
    runs = [{NAME: name, TOWN: town} for name, town in values]
    given_samples = [Sample(render(parts, run), run) for run in runs]
    found = common_parts(given_samples)
    assert COMPUTED not in found
    assert [render(found, run) for run in runs] == [sample.text for sample in given_samples]


def render(parts, values: Mapping[Inserted, str]) -> str:
    return "".join(part if isinstance(part, str) else values[part] for part in parts)


@given(st.lists(st.text(alphabet="ab", max_size=5), max_size=4))
def test_common_ends(texts: list[str]) -> None:
    start, end = common_start(texts), common_end(texts)
    assert all(text.startswith(start) and text.endswith(end) for text in texts)
    longer = {text[: len(start) + 1] for text in texts}
    assert not texts or len(longer) > 1 or start in texts


def test_joining_parts_leaves_no_empty_or_double_literals() -> None:
    assert join_parts(["a", "", "b", NAME, "", NAME, "c"]) == ("ab", NAME, NAME, "c")
