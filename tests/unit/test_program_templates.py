"""The literal text around each hole, and the examples of a slot in a prompt already written."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from program_graphs import CHATML, QUESTION, at, chain, gen, text

from sgl_spec.program.graph import Edge, ProgramGraph
from sgl_spec.program.nodes import COMPUTED, Call, Constraint, Fork, Image, Join, RoleBegin, RoleEnd, Select
from sgl_spec.program.templates import HoleTemplate, find_examples


def around(graph: ProgramGraph, slot: str = "answer", roles=None) -> tuple[str, str]:
    template = graph.template(slot, roles)
    assert template is not None
    return template.before, template.after


def test_text_reaches_from_value_to_value() -> None:
    graph = chain(text(1, "far ", QUESTION, "\n"), text(2, "A:"), gen(3), text(4, "\n"), text(5, "Q2 ", QUESTION, "x"))
    assert around(graph) == ("\nA:", "\nQ2 ")


@pytest.mark.parametrize(
    "boundary", [gen(2, "other"), Select("pick", at(2), ("a",)), Image(("a.png",), at(2)), text(2, QUESTION)]
)
def test_text_does_not_reach_across_a_value(boundary) -> None:
    assert around(chain(text(1, "a"), boundary, text(3, "b"), gen(4))) == ("b", "")
    assert around(chain(gen(4), text(3, "b"), boundary, text(1, "a"))) == ("", "b")


def test_a_call_of_another_program_is_no_text() -> None:
    assert around(chain(text(1, "a"), Call("other", at(2)), text(3, "b"), gen(4))) == ("ab", "")


def roles_graph() -> ProgramGraph:
    user = [RoleBegin("user", at(1)), text(1, QUESTION), RoleEnd("user", at(1))]
    return chain(*user, RoleBegin("assistant", at(2)), gen(2), RoleEnd("assistant", at(2)), RoleBegin("user", at(3)))


def test_roles_write_what_the_chat_template_says() -> None:
    before, after = around(roles_graph(), roles=CHATML)
    assert before == "<|im_end|>\n<|im_start|>assistant\n"
    assert after == "<|im_end|>\n<|im_start|>user\n"


def test_without_a_chat_template_text_stops_at_roles() -> None:
    assert around(roles_graph()) == ("", "")
    assert around(chain(RoleBegin("assistant", at(1)), text(1, "## "), gen(1)))[0] == "## "


def test_where_ways_meet_their_common_end_counts() -> None:
    nodes = [text(1, "start\n"), text(3, "Thought:"), gen(3), text(2, "Observation: ", COMPUTED, "\n")]
    graph = ProgramGraph("demo", nodes, [Edge(0, 1), Edge(1, 2), Edge(2, 3, times=7), Edge(3, 1, back=True)])
    template = graph.template("answer")
    assert template == HoleTemplate("demo", "answer", "\nThought:", "Observation: ", loops=True)


def test_a_loop_of_literals_ends() -> None:
    graph = chain(text(1, "ab"), text(2, "b"), gen(3), extra=[Edge(1, 1, back=True)])
    assert around(graph)[0] == "bb"


def test_after_takes_the_way_most_runs_took() -> None:
    nodes = [gen(1), text(2, "often"), text(3, "seldom")]
    graph = ProgramGraph("demo", nodes, [Edge(0, 1, times=5), Edge(0, 2, times=2)])
    assert around(graph)[1] == "often"


def test_branches_begin_with_the_text_before_their_fork() -> None:
    nodes = [text(1, "base "), Fork(2, at(2)), text(3, "left:"), gen(3, "l"), gen(4, "r"),
             Join("gather_variable", at(5)), text(6, "\nnext:"), gen(6)]  # fmt: skip
    edges = [Edge(0, 1), Edge(1, 2, 0), Edge(2, 3), Edge(1, 4, 1), Edge(1, 5), Edge(3, 5, 0), Edge(4, 5, 1), Edge(5, 6),
             Edge(6, 7)]  # fmt: skip
    graph = ProgramGraph("demo", nodes, edges)
    assert around(graph, "l") == ("base left:", "")
    assert around(graph, "r") == ("base ", "")
    assert around(graph) == ("base \nnext:", "")


def test_text_of_branches_appended_by_a_join_is_a_value() -> None:
    nodes = [text(1, "a"), Fork(1, at(2)), text(3, "b"), Join("concate_and_append", at(4)), gen(5)]
    graph = ProgramGraph("demo", nodes, [Edge(0, 1), Edge(1, 2, 0), Edge(1, 3), Edge(2, 3, 0), Edge(3, 4)])
    assert around(graph) == ("", "")


def test_templates_say_what_holds_the_output_and_how_often_it_comes() -> None:
    regex = gen(2, constraint=Constraint("regex", "[0-9]+"), stop=(";",), max_tokens=8, shape=("a", ...))
    graph = chain(text(1, "n:"), regex, text(1, ";n:"), regex, Select("pick", at(3), ("yes", "no")))
    first, second, pick = graph.templates()
    assert first == HoleTemplate(
        "demo", "answer", "n:", ";n:", (";",), "regex", "[0-9]+", shape=("a", ...), max_tokens=8
    )
    assert (second.before, second.times) == (";n:", 1)
    assert (pick.kind, pick.choices) == ("choices", ("yes", "no"))
    twice = chain(text(1, QUESTION, "n:"), gen(2), text(1, QUESTION, "n:"), gen(2), text(1, QUESTION))
    assert [(one.before, one.times) for one in twice.templates()] == [("n:", 2)]


def test_long_text_is_cut_to_what_is_near() -> None:
    before, after = around(chain(text(1, "x" * 3000 + "!"), gen(2), text(3, "?" + "y" * 3000)))
    assert (len(before), before[-1], len(after), after[0]) == (2000, "!", 2000, "?")


REACT = """Answer with the tools.

Question: legs of 7 spiders?
Thought: I look up Spider.
Action: Lookup[Spider]
Observation: 8 legs.
Thought: The answer is 56.
Action: Finish[56]

Question: capital of Japan?
Thought:"""
RECORD = (
    "<|im_start|>system\nYou make records.<|im_end|>\n<|im_start|>user\nI am Ann.<|im_end|>\n<|im_start|>assistant\n"
    '{"name": "Ann"}<|im_end|>\n<|im_start|>user\nI am Bob.<|im_end|>\n<|im_start|>assistant\n'
    '{"name": "Bob"}<|im_end|>\n'
    "<|im_start|>user\nI am Cid.<|im_end|>\n<|im_start|>assistant\n"
)
PAGE = "## One\nFirst text.\nMore.\n\n## Two\nSecond text.\n\nRepeat 'Two'.\n## Two\n"


@pytest.mark.parametrize(
    ("prompt", "before", "after", "stops", "examples"),
    [
        (REACT, "\nThought:", "\nObservation: ", ["\nObservation:", "\nQuestion:"],
         (" I look up Spider.\nAction: Lookup[Spider]", " The answer is 56.\nAction: Finish[56]\n")),
        (RECORD, "<|im_end|>\n<|im_start|>assistant\n", "<|im_end|>\n", [], ('{"name": "Ann"}', '{"name": "Bob"}')),
        (PAGE, "\n", "", ["\n\n", "##"], ("First text.\nMore.", "Second text.", "\nRepeat 'Two'.\n")),
        # The text before the hole is longer than what its examples share: the last line will do.
        ("Say when?\nA: now\nSay where?\nA: here\nSay why?\nA:", "\nSay why?\nA:", "", ["\n"], (" now", " here")),
        ("x: 1; x: 2; x: ", "x: ", "; x: ", [], ("1", "2")),
        # No end in sight, no earlier place, nothing there, nothing known.
        ("A: no end A:", "A:", "", [], ()),
        ("Q: one\nA:", "\nA:", "", ["\n"], ()),
        ("A:  \nA:", "A:", "", ["\n"], ()),
        ("some text", "", "", ["\n"], ()),
        ("", "A:", "", ["\n"], ()),
        # The hole's own place is no example, even when the model has begun to write there.
        ("A: one\nA: tw", "A:", "", ["\n"], (" one",)),
    ],
)  # fmt: skip
def test_examples(prompt: str, before: str, after: str, stops: list[str], examples: tuple[str, ...]) -> None:
    assert find_examples(prompt, before, after, stops) == examples


def test_the_nearest_examples_are_kept_whole() -> None:
    prompt = "".join(f"A: {number}{'x' * number}\n" for number in range(1, 10)) + "A:"
    found = find_examples(prompt, "A:", "", ["\n"], limit=3)
    assert [example.strip("x") for example in found] == [" 7", " 8", " 9"]
    assert find_examples(prompt, "A:", "", ["\n"], max_chars=21) == found[-2:]
    assert find_examples(prompt, "A:", "", ["\n"], max_chars=5) == ()
    assert find_examples(prompt, "A:", "", ["\n"], limit=0) == ()


@example("\n:a", ":\n:", "", "\n")  # only the last line of `before` stands earlier: its first line is prompt then
@example(":b:", ":b", "", "b")  # the end would begin inside the hole's own text before
@given(
    st.text("ab\n:", max_size=40),
    st.text("ab\n:", max_size=4),
    st.text("ab\n:", max_size=4),
    st.text("ab\n:", max_size=3),
)
def test_examples_are_pieces_of_the_prompt_without_their_end(prompt: str, before: str, after: str, stop: str) -> None:
    found = find_examples(prompt + before, before, after, [stop], limit=5, max_chars=12)
    assert sum(map(len, found)) <= 12
    assert len(found) <= 5
    for shown in found:
        assert shown in prompt + before
        assert shown.strip()
        assert not stop or stop not in shown
