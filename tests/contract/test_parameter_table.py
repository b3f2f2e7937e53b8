"""The table of parameters says something of every field the installed SGLang takes, names tests that exist, and is what
the page shows; every treatment that is ours has a mutation that breaks it."""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
from sglang.srt.entrypoints.openai.protocol import ChatCompletionRequest, CompletionRequest
from sglang.srt.entrypoints.openai.serving_completions import OpenAIServingCompletion
from sglang.srt.managers.io_struct import GenerateReqInput
from sglang.srt.sampling.sampling_params import SamplingParams

from sgl_spec.server import abstain, parameter_page
from sgl_spec.server.parameter_row import Parameter, Treatment
from sgl_spec.server.parameter_table import INTERNAL, OUTSIDE, REQUEST, SAMPLING

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests" / "mutations"))
MUTATION = importlib.import_module("mutation")
MUTATIONS = importlib.import_module("catalogue").MUTATIONS

ROWS = (*SAMPLING, *REQUEST)
OURS = (Treatment.HONOURED, Treatment.ABSTAINS)
# Fields of a request body that no class of SGLang declares.
UNDECLARED = {"prediction"}


def _names(rows: tuple[Parameter, ...]) -> list[str]:
    return [row.name for row in rows]


def test_every_sampling_parameter_has_its_row() -> None:
    assert sorted([*_names(SAMPLING), *INTERNAL]) == sorted(SamplingParams.__struct_fields__)


def test_every_field_of_generate_has_its_row_or_group() -> None:
    outside = [name for group in OUTSIDE for name in group.generate]
    assert sorted([*_names(REQUEST), *outside]) == sorted(f.name for f in dataclasses.fields(GenerateReqInput))


def test_every_field_of_the_openai_endpoints_is_accounted_for() -> None:
    outside = {name for group in OUTSIDE for name in group.openai}
    rows = {name for row in ROWS for name in row.openai}
    assert not outside & rows
    assert outside | rows == {*CompletionRequest.model_fields, *ChatCompletionRequest.model_fields, *UNDECLARED}


# A value for each OpenAI field that is another than its default, and what SGLang makes of it.
OTHER: dict[str, Any] = {
    "temperature": 0.25, "top_k": 3, "top_p": 0.5, "min_p": 0.125, "seed": 7, "n": 2, "frequency_penalty": 0.5,
    "presence_penalty": 0.25, "repetition_penalty": 1.5, "min_tokens": 3, "logit_bias": {"1": 2.0}, "regex": "a+",
    "ebnf": "root ::= a", "max_tokens": 9, "max_completion_tokens": 9, "stop": ["x"], "stop_token_ids": [4],
    "stop_regex": ["y"], "ignore_eos": True, "custom_params": {"a": 1}, "skip_special_tokens": False,
    "no_stop_trim": True, "watermark": {"enabled": True}, "json_schema": "{}",
}  # fmt: skip
# Not copied but translated, each by code of its own in SGLang or here.
TRANSLATED = {"response_format", "tools", "tool_choice", "parallel_tool_calls", "prediction"}
COPIED = [(row.name, name) for row in SAMPLING for name in row.openai if name not in TRANSLATED]


@pytest.mark.parametrize(("name", "openai"), COPIED)
def test_openai_names_become_the_parameters_of_their_rows(name: str, openai: str) -> None:
    made = []
    if openai in ChatCompletionRequest.model_fields:
        chat = ChatCompletionRequest(messages=[{"role": "user", "content": "x"}], **{openai: OTHER[openai]})
        made.append(chat.to_sampling_params(["x"] if openai == "stop" else [], {}))
    if openai in CompletionRequest.model_fields:
        completion = CompletionRequest(prompt="x", **{openai: OTHER[openai]})
        made.append(OpenAIServingCompletion._build_sampling_params(object.__new__(OpenAIServingCompletion), completion))
    assert made
    assert all(params[name] == OTHER[openai] for params in made)


@functools.cache
def _tests_in(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def _exists(test: str) -> bool:
    path, _, name = test.partition("::")
    return (ROOT / path).is_file() and name.partition("[")[0] in _tests_in(path)


def _missing(tests: tuple[str, ...]) -> list[str]:
    return [test for test in tests if not _exists(test)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_names_tests_that_exist(row: Parameter) -> None:
    assert not _missing(row.tests)
    assert row.tests or row.treatment not in OURS


def test_reasons_are_those_that_requests_abstain_for() -> None:
    known = {value for name, value in vars(abstain).items() if name.isupper() and isinstance(value, str)}
    assert {row.reason for row in ROWS if row.reason} == known
    assert all(row.reason for row in ROWS if row.treatment is Treatment.ABSTAINS)


@pytest.mark.parametrize("row", [row for row in ROWS if row.treatment in OURS], ids=lambda row: row.name)
def test_mutations_try_a_row(row: Parameter) -> None:
    """`tests/mutations` shows that each of its tests fails when the treatment is dropped in some way, and that one of
    them fails whichever way it is dropped."""
    mine = [set(mutation.tests) for mutation in MUTATIONS if row.name in mutation.parameters]
    assert mine
    assert set(row.tests) <= set().union(*mine)
    assert all(tests & set(row.tests) for tests in mine)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_fits_the_source(mutation: Any) -> None:
    assert MUTATION.misfit(mutation) is None
    assert not _missing(mutation.tests)
    assert set(mutation.parameters) <= set(_names(ROWS))
    ast.parse((ROOT / mutation.file).read_text().replace(mutation.old, mutation.new))


def test_mutations_have_names_of_their_own() -> None:
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS)


def test_the_page_shows_the_table() -> None:
    page = (ROOT / "docs" / "lossless.md").read_text()
    shown = page[page.index(parameter_page.BEGIN) : page.index(parameter_page.END) + len(parameter_page.END)]
    assert shown == parameter_page.markdown(), "python -m sgl_spec.server.parameter_page prints what belongs there"
