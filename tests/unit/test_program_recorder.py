"""Runs become one graph: places are shared, values recognised, loops folded, forks kept as branches."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from program_graphs import QUESTION, at, chain, gen, run_log, text

from sgl_spec.errors import GraphError, TraceError
from sgl_spec.program import run_log as run_log_module
from sgl_spec.program.graph import ProgramGraph
from sgl_spec.program.nodes import COMPUTED, Call, CallArgument, Inserted, Join, Select, Text
from sgl_spec.program.recorder import merge_runs
from sgl_spec.program.run_log import RunLog

VARIABLE = Inserted("variable", "answer")


def edges(graph: ProgramGraph) -> list[tuple[int, int, bool]]:
    return [(edge.tail, edge.head, edge.back) for edge in graph.edges]


def test_a_traced_run_is_its_own_graph() -> None:
    nodes = [text(1, "Q: ", QUESTION), gen(2), text(3, VARIABLE)]
    assert merge_runs([run_log(nodes)], fold=False, traced=True) == chain(*nodes)


def test_differences_between_runs_become_values() -> None:
    runs = [run_log([text(1, f"Q: {question}\nA:"), gen(2)], {"question": question}) for question in ("why?", "when?")]
    graph = merge_runs(runs, fold=False)
    assert graph == chain(text(1, "Q: ", QUESTION, "\nA:"), gen(2))
    assert (graph.runs, [edge.times for edge in graph.edges]) == (2, [2])


def test_a_loop_is_folded_and_its_texts_are_one() -> None:
    def run(*tools: str) -> RunLog:
        steps = [text(1, "start")]
        for tool in tools:
            steps += [text(2, "Thought:"), gen(2, "step"), text(3, f"\nObservation: {tool}\n")]
        return run_log([*steps, text(2, "Thought:"), gen(2, "step")])

    graph = merge_runs([run("x1", "y2"), run(), run("z3")], fold=True)
    assert list(graph.nodes.values()) == [
        text(1, "start"), text(2, "Thought:"), gen(2, "step"), text(3, "\nObservation: ", COMPUTED, "\n"),
    ]  # fmt: skip
    assert edges(graph) == [(0, 1, False), (1, 2, False), (2, 3, False), (3, 1, True)]
    assert graph.looping == {1, 2, 3}
    assert [edge.times for edge in graph.edges] == [3, 6, 3, 3]


def test_without_folding_every_pass_is_kept() -> None:
    steps = [text(1, "a"), gen(2), text(1, "a"), gen(2)]
    assert len(merge_runs([run_log(steps)], fold=False).nodes) == 4
    assert len(merge_runs([run_log(steps)], fold=True).nodes) == 2


def test_examples_that_a_loop_writes_are_never_folded() -> None:
    examples = [text(1, f"example {number}") for number in range(3)]
    runs = [run_log([*examples, *([text(2, "go"), gen(3)] * times)]) for times in (1, 3)]
    graph = merge_runs(runs, fold=True)
    assert list(graph.nodes.values()) == [*examples, text(2, "go"), gen(3)]
    assert edges(graph)[-1] == (4, 3, True)


def test_a_gen_that_repeats_alone_is_a_loop_on_itself() -> None:
    graph = merge_runs([run_log([text(1, "a"), gen(2), gen(2), gen(2)])], fold=True)
    assert edges(graph) == [(0, 1, False), (1, 1, True)]


def test_runs_that_part_become_branches_and_may_meet_again() -> None:
    runs = [
        run_log([text(1, "a"), text(2, "yes"), text(4, "end")]),
        run_log([text(1, "a"), text(3, "no"), text(4, "end")]),
    ]
    graph = merge_runs(runs, fold=True)
    assert edges(graph) == [(0, 1, False), (0, 2, False), (1, 3, False), (2, 3, False)]


def test_runs_that_begin_differently_get_one_entry() -> None:
    graph = merge_runs([run_log([text(2, "a"), gen(4)]), run_log([text(3, "b"), gen(4)])], fold=True)
    assert graph.nodes[graph.entry] == Text((), at(1))
    assert edges(graph) == [(0, 1, False), (0, 2, False), (1, 3, False), (2, 3, False)]


def test_fields_that_vary_are_named() -> None:
    runs = [run_log([gen(1, stop=(stop,), max_tokens=9), Select("pick", at(2), (stop,))]) for stop in "ab"]
    hole, choice = merge_runs(runs, fold=False).nodes.values()
    assert (hole.varying, hole.stop, hole.max_tokens) == (("stop",), (), 9)
    assert (choice.varying, choice.choices) == (("choices",), ())


def test_arguments_of_calls_are_merged_like_text() -> None:
    def run(question: str) -> RunLog:
        argument = CallArgument("topic", (f"about {question}",))
        return run_log([Call("other", at(1), (argument, CallArgument("n", ("3",))))], {"question": question})

    (call,) = merge_runs([run("bees"), run("ants")], fold=False).nodes.values()
    assert call.arguments == (CallArgument("topic", ("about ", QUESTION)), CallArgument("n", ("3",)))


def forking(size: int, *, joined: bool, steps: bool = True) -> RunLog:
    log = RunLog("demo", at(1))
    log.main.add(text(1, "a"), (at(1),))
    lanes = log.main.fork(size, (at(2),))
    for lane in lanes if steps else ():
        lane.add(gen(3, lane.next_slot("side")), (at(3),))
    if joined:
        for lane in lanes:
            lane.join("gather_variable", (at(4),))
    log.main.add(text(5, "end"), (at(5),))
    return log


def test_a_fork_has_a_lane_for_each_branch_and_one_join() -> None:
    graph = merge_runs([forking(2, joined=True)], fold=True)
    assert [type(node).__name__ for node in graph.nodes.values()] == ["Text", "Fork", "Gen", "Gen", "Join", "Text"]
    assert [(edge.tail, edge.head, edge.branch) for edge in graph.edges] == [
        (0, 1, None), (1, 2, 0), (1, 3, 1), (1, 4, None), (2, 4, 0), (3, 4, 1), (4, 5, None),
    ]  # fmt: skip


def test_a_fork_may_be_left_open_or_empty() -> None:
    graph = merge_runs([forking(2, joined=False)], fold=True)
    assert not any(isinstance(node, Join) for node in graph.nodes.values())
    graph = merge_runs([forking(2, joined=True, steps=False)], fold=True)
    assert [(edge.tail, edge.head, edge.branch) for edge in graph.edges] == [(0, 1, None), (1, 2, None), (2, 3, None)]


def test_forks_of_different_sizes_are_different_nodes() -> None:
    graph = merge_runs([forking(2, joined=True), forking(3, joined=True)], fold=True)
    assert sorted(node.size for node in graph.nodes.values() if type(node).__name__ == "Fork") == [2, 3]
    assert sum(isinstance(node, Join) for node in graph.nodes.values()) == 2


def test_variables_of_branches_have_names_of_their_own() -> None:
    log = RunLog("demo", at(1))
    log.main.defines("plan")
    left, right = log.main.fork(2, (at(2),))
    assert [left.defines("x"), right.defines("x")] == ["x[0]", "x[1]"]
    right.reads("x", "written right")
    left.reads("plan", "the plan")
    log.main.reads("x", ["one", "two"])
    assert log.values == {
        Inserted("variable", "x[1]"): "two", Inserted("variable", "plan"): "the plan",
        Inserted("variable", "x[0]"): "one",
    }  # fmt: skip


def test_slots_are_named_as_the_endpoint_names_them() -> None:
    log = RunLog("demo", at(1))
    (branch,) = log.main.fork(1, (at(2),))
    assert [log.main.next_slot(None), log.main.next_slot("a"), log.main.next_slot("")] == ["#1", "a", "#3"]
    assert [branch.next_slot("b"), branch.next_slot(None)] == ["b", "fork#2"]


def test_what_a_called_program_generates_is_known_to_its_caller() -> None:
    caller, called = RunLog("outer", at(1)), RunLog("inner", at(9))
    called.called_by(caller, Call("inner", at(2)), (at(2),))
    called.main.defines("first")
    called.main.reads("first", "hello")
    assert caller.values == {Inserted("call", "inner.first"): "hello"}
    assert [step.node for step in caller.main.steps] == [Call("inner", at(2))]


def test_what_cannot_be_merged_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(GraphError, match="of no program"):
        merge_runs([], fold=False)
    with pytest.raises(GraphError, match="of demo, other"):
        merge_runs([run_log([gen(1)]), RunLog("other", at(1))], fold=False)
    with pytest.raises(GraphError, match="appends nothing"):
        merge_runs([run_log([])], fold=False)
    monkeypatch.setattr(run_log_module, "MAX_STEPS", 5)
    with pytest.raises(TraceError, match=r"more than 5 nodes, the last at demo.py:2"):
        run_log([gen(2)] * 6)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=9), min_size=1, max_size=4), st.booleans())
def test_any_runs_make_a_checked_graph_in_which_each_run_is_a_walk(runs: list[list[int]], fold: bool) -> None:
    """Whatever branches and loops a program has. Lines 1 and 2 are gens, the others text."""
    logs = [run_log([gen(n, f"slot{n}") if n < 3 else text(n, f"line {n}") for n in lines]) for lines in runs]
    graph = merge_runs(logs, fold=fold)
    successors: dict[int, set[int]] = {number: set() for number in graph.nodes}
    for edge in graph.edges:
        successors[edge.tail].add(edge.head)
        assert edge.back or edge.tail < edge.head
    for lines in runs:
        places = {graph.entry} if len({one[0] for one in runs}) == 1 else successors[graph.entry]
        for line, following in itertools.pairwise([*lines, None]):
            places = {place for place in places if graph.nodes[place].source.line == line}
            assert places
            places = set().union(*(successors[place] for place in places)) if following else places
