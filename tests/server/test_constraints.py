"""Outputs held to a grammar: valid, and the same tokens as without drafts, on both grammar backends. What the grammar
forces is accepted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from client import Server, account, chat, tokens_per_step
from grammar_cases import CASES, Case

from sgl_spec import Runtime

SHEET = (
    r'\{\n    "name": "[\w\s]{1,16}",\n    "house": "(Gryffindor|Slytherin|Ravenclaw|Hufflepuff)",\n'
    r'    "wand": \{\n        "wood": "[\w\s]{1,16}",\n        "length": [0-9]{1,2}\.[0-9]{0,2}\n    \}\n\}'
)


@pytest.fixture(scope="module")
def llguidance() -> Iterator[Server]:
    with Runtime(max_total_tokens=16_384, random_seed=1, grammar_backend="llguidance") as runtime:
        yield Server(runtime.url)


def _same(ours: Server, case: Case) -> None:
    drafted = ours.generate(**case.params(), custom_params={"sgl_spec": {"version": 1, "memory": "off"}})
    alone = ours.generate(**case.params(), custom_params={"sgl_spec": {"version": 1, "off": True}})
    assert drafted["output_ids"] == alone["output_ids"]
    assert drafted["meta_info"]["finish_reason"] == alone["meta_info"]["finish_reason"]
    ended = drafted["meta_info"]["finish_reason"]["type"] == "stop"
    assert ended or not case.whole
    if ended:
        assert case.valid(drafted["text"])
    counts = account(drafted)
    assert counts["reached"].get("grammar.forced", 0) == counts["accepted"].get("grammar.forced", 0)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_xgrammar_is_valid_and_the_same(on: Server, off: Server, case: Case) -> None:
    _same(on, case)
    stock = off.generate(**case.params())
    assert on.generate(**case.params())["output_ids"] == stock["output_ids"]  # with what memory has by now


@pytest.mark.parametrize("case", [c for c in CASES if "llguidance" in c.backends], ids=lambda case: case.name)
def test_llguidance_is_valid_and_the_same(llguidance: Server, case: Case) -> None:
    _same(llguidance, case)


@pytest.mark.parametrize("less", [0, 1, 2])
def test_a_regex_that_ends_at_the_cap(on: Server, off: Server, less: int) -> None:
    params = {"prompt": chat("What day is it?"), "regex": r"Today is (Monday|Tuesday), the [0-9]{2}(st|nd|rd|th)\."}
    whole = off.generate(**params)
    cap = whole["meta_info"]["completion_tokens"] - less
    ours, stock = (s.generate(**params, max_new_tokens=cap) for s in (on, off))
    assert ours["output_ids"] == stock["output_ids"]
    assert ours["text"] == stock["text"]
    assert ours["meta_info"]["finish_reason"] == stock["meta_info"]["finish_reason"]


def test_a_first_sheet_takes_few_steps_and_a_known_one_fewer(on: Server) -> None:
    key = "sheets of this test"
    answers = [
        on.generate(f"{name} is a wizard. Fill in the sheet.\n", regex=SHEET, max_new_tokens=160, request_extra_key=key)
        for name in ("Merlin", "Gandalf", "Merlin")
    ]
    first, _, again = map(tokens_per_step, answers)
    assert first > 2.5
    assert again > 1.5 * first
    counts = [account(answer) for answer in answers]
    assert counts[0]["drafted"].get("memory", 0) == 0
    assert counts[-1]["accepted"]["memory"] > 0
    assert counts[0]["accepted"]["grammar.forced"] > 0
    # Where memory knows it all the grammar has nothing to add.
    assert all(c["reached"].get("grammar.forced") == c["accepted"].get("grammar.forced") for c in counts)


def test_sampled_outputs_are_the_same_too(on: Server) -> None:
    params = {"regex": SHEET, "max_new_tokens": 120, "temperature": 0.9, "sampling_seed": 5}
    drafted = on.generate("Morgana is a witch. Fill in the sheet.\n", **params)
    alone = on.generate(
        "Morgana is a witch. Fill in the sheet.\n", custom_params={"sgl_spec": {"version": 1, "off": True}}, **params
    )
    assert drafted["output_ids"] == alone["output_ids"]
    assert account(drafted)["accepted"]["all"] > 0
