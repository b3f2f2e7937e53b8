"""Which prefixes a batch shares: every run once, sharers side by side, a request only where it saves enough."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sgl_spec.program.graph import Edge, ProgramGraph
from sgl_spec.program.nodes import COMPUTED, Gen, Inserted, RoleBegin, RoleEnd, Text
from sgl_spec.program.prefix_plan import WORTH_APART, leading_text, plan_prefixes, warms
from sgl_spec.program.source import NOWHERE
from sgl_spec.program.text_walk import RoleText

PIECES = ["", "a" * 700, "b" * 700, "a" * 2500, "c"]
TEXTS = st.lists(st.lists(st.sampled_from(PIECES), max_size=4).map("".join), max_size=12)


def graph(*nodes) -> ProgramGraph:
    return ProgramGraph("p", nodes, [Edge(place, place + 1) for place in range(len(nodes) - 1)])


def text(*parts) -> Text:
    return Text(tuple(parts), NOWHERE)


def test_text_and_arguments_are_known_up_to_the_first_hole():
    program = graph(text("Say ", Inserted("argument", "word"), "."), Gen("a", NOWHERE), text("more"))
    assert leading_text(program, None, {"word": 7}) == "Say 7."
    assert leading_text(program, None, {}) == "Say "


def test_roles_are_known_with_the_template_only():
    program = graph(RoleBegin("user", NOWHERE), text("hi"), RoleEnd("user", NOWHERE), Gen("a", NOWHERE))
    assert leading_text(program, {"user": RoleText("<u>", "</u>")}, {}) == "<u>hi</u>"
    assert leading_text(program, None, {}) == ""


def test_what_only_a_run_knows_ends_the_text():
    program = graph(text("a", COMPUTED, "b"), Gen("a", NOWHERE))
    assert leading_text(program, None, {}) == "a"


@given(texts=TEXTS)
def test_every_run_is_in_one_group_and_holds_its_prefix(texts):
    groups = plan_prefixes(texts)
    assert sorted(run for group in groups for run in group.runs) == list(range(len(texts)))
    assert all(texts[run].startswith(group.prefix) for group in groups for run in group.runs)


@given(texts=TEXTS)
def test_no_prefix_is_computed_for_less_than_it_saves(texts):
    for group in plan_prefixes(texts):
        if group.prefix:
            assert len(group.prefix) * (len(texts) - 1) >= WORTH_APART


def test_documents_that_come_in_turn_are_put_side_by_side():
    documents = ["x" * 100 + letter * 3000 for letter in "ab"]
    texts = [documents[run % 2] + f"question {run}" for run in range(6)]
    assert [(group.prefix[:101], group.runs) for group in plan_prefixes(texts)] == [
        ("x" * 100 + "a", (0, 2, 4)),
        ("x" * 100 + "b", (1, 3, 5)),
    ]


def test_one_prefix_shared_by_all_is_one_group():
    (group,) = plan_prefixes(["few shots " * 100 + str(run) for run in range(4)])
    assert (group.prefix, group.runs) == ("few shots " * 100, (0, 1, 2, 3))


def test_short_or_lonely_prefixes_are_not_worth_a_request():
    assert [group.prefix for group in plan_prefixes(["short a", "short b"])] == [""]
    assert [group.prefix for group in plan_prefixes(["long " * 1000])] == [""]
    assert not warms("x" * 1999, 2, WORTH_APART)
