"""A stand-in becomes text and nothing else: each other use fails, with the line and what the line does."""

from __future__ import annotations

import contextlib
import json
import math
import operator
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sgl_spec.errors import TraceError
from sgl_spec.program.nodes import COMPUTED, Inserted
from sgl_spec.program.placeholder import Placeholder, Refusals, first_held, parts_of, subject_of

STEP = Inserted("variable", "step")


@pytest.fixture
def refusals() -> Refusals:
    return Refusals()


@pytest.fixture
def step(refusals: Refusals) -> Placeholder:
    return Placeholder((STEP,), refusals)


def test_text_around_a_value_stays_text(step: Placeholder) -> None:
    assert parts_of("a" + step + "b" + step) == ("a", STEP, "b", STEP)
    assert parts_of(step + "" + "x" + "y") == (STEP, "xy")
    assert parts_of("plain") == ("plain",)
    text = "start "
    text += step
    assert parts_of(text) == ("start ", STEP)


USES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "bool": ("branches on", bool),
    "if": ("branches on", lambda x: 1 if x else 2),
    "and": ("branches on", lambda x: x and 1),
    "not": ("branches on", operator.not_),
    "for": ("iterates over", list),
    "star": ("iterates over", lambda x: [*x]),
    "unpack": ("iterates over", lambda x: dict([x])),
    "len": ("takes the length of", len),
    "int": ("turns .* into a number", int),
    "float": ("turns .* into a number", float),
    "round": ("turns .* into a number", round),
    "range": ("turns .* into a number", range),
    "math": ("turns .* into a number", math.sqrt),
    "slice": ("turns .* into a number", lambda x: [1, 2][x:]),
    "equal": ("compares", lambda x: x == "a"),
    "equal from the left": ("compares", lambda x: "a" == x),  # noqa: SIM300
    "unequal": ("compares", lambda x: x != "a"),
    "less": ("compares", lambda x: x > "a"),
    "sort": ("compares", lambda x: sorted([x, x])),
    "in a list": ("compares", lambda x: x in ["a"]),
    "contains": ("looks inside", lambda x: "a" in x),
    "index": ("indexes", lambda x: x[0]),
    "key": ("uses .* as a key", lambda x: {"a": 1}[x]),
    "member": ("uses .* as a key", lambda x: {x}),
    "strip": (r"uses `\.strip` of", lambda x: x.strip()),
    "format method": ("formats", "{}".format),
    "percent": ("formats", lambda x: "%s" % x),  # noqa: UP031
    "str": ("formats", str),
    "repr": ("formats", repr),
    "list as text": ("formats", lambda x: f"{[x]}"),
    "minus": ("computes with", lambda x: x - 1),
    "plus a number": ("computes with", lambda x: x + 1),
    "number plus": ("computes with", lambda x: 1 + x),
    "times": ("computes with", lambda x: 2 * x),
    "power": ("computes with", lambda x: x**2),
    "negative": ("computes with", operator.neg),
    "modulo": ("computes with", lambda x: x % 2),
    "call": ("calls", lambda x: x()),
    "path": ("opens", Path),
    "compile": ("uses .* as a key", re.compile),
}


@pytest.mark.parametrize("use", USES, ids=list(USES))
def test_every_other_use_is_refused_by_name_and_line(step: Placeholder, refusals: Refusals, use: str) -> None:
    does, apply = USES[use]
    with pytest.raises(TraceError, match=rf"^the program {does}.* at test_program_placeholder.py:\d+$") as raised:
        apply(step)
    assert "`step`" in str(raised.value)
    assert raised.value.where == str(raised.value).rpartition(" ")[2]
    assert refusals.first is not None


@pytest.mark.parametrize(
    "use",
    [lambda x: "".join([x]), json.dumps, lambda x: "a".replace(x, "b"), lambda x: "a".startswith(x)],
    ids=["join", "dumps", "replace", "startswith"],
)
def test_functions_in_c_take_it_for_no_text(step: Placeholder, use: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError):
        use(step)


def test_the_line_is_that_of_the_use(step: Placeholder) -> None:
    with pytest.raises(TraceError) as raised:
        bool(step)
    source = Path(__file__).read_text().splitlines()
    number = int(str(raised.value).rpartition(":")[2])
    assert source[number - 1].strip() == "bool(step)"


def test_a_caught_refusal_is_not_forgotten(step: Placeholder, refusals: Refusals) -> None:
    with contextlib.suppress(Exception):
        bool(step)
    with pytest.raises(TraceError):
        len(step)
    assert "branches on the value of `step`" in str(refusals.first)


def test_subjects_name_all_values(step: Placeholder, refusals: Refusals) -> None:
    other = Placeholder((Inserted("argument", "name"),), refusals)
    assert subject_of(step) == "the value of `step`"
    assert subject_of("x" + step + other) == "text that holds the value of `step`, `name`"
    assert subject_of(Placeholder((COMPUTED,), refusals)) == "text that only a run has"


def test_after_the_trace_it_can_be_shown(step: Placeholder, refusals: Refusals) -> None:
    refusals.active = False
    assert repr(step) == "<the value of `step`>"


def test_values_are_found_inside_containers(step: Placeholder) -> None:
    assert first_held({"a": [1, (2, step)]}) is step
    assert first_held([1, "a", {"b": None}]) is None
