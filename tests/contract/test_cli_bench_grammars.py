"""Both grammar backends of SGLang take what the bench's constrained workloads send, and mean the same by it."""

from __future__ import annotations

import json

import llguidance
import pytest
import xgrammar

from sgl_spec.cli.bench.constrained_prompts import character_regex
from sgl_spec.cli.bench.function_calls import call_schema

# One function per feature that BFCL's files use.
FUNCTIONS = (
    {"name": "math.hypot", "parameters": {"type": "dict", "properties": {"x": {"type": "integer"}}, "required": ["x"]}},
    {"name": "no_arguments"},
    {
        "name": "search",
        "parameters": {
            "type": "dict",
            "properties": {
                "by": {"type": "string", "enum": ["price", "r\u00e9putation"]},
                "where": {"type": "array", "items": {"type": "dict", "properties": {"lat": {"type": "float"}}}},
                "flags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
                "area": {"type": "tuple", "items": {"type": "float"}},
                "anything": {"type": "any"},
                "options": {"type": "dict"},
                "exact": {"type": "boolean", "default": True},
            },
            "required": ["by", "flags"],
        },
    },
)


@pytest.mark.parametrize("functions", [*((one,) for one in FUNCTIONS), FUNCTIONS], ids=lambda some: some[-1]["name"])
def test_every_schema_compiles(functions):
    schema = call_schema(functions, "here")
    assert xgrammar.Grammar.from_json_schema(json.dumps(schema))
    grammar = llguidance.LLMatcher.grammar_from_json_schema(schema)
    assert llguidance.LLMatcher.validate_grammar(grammar) == ""


def test_the_character_regex_compiles():
    assert xgrammar.Grammar.from_regex(character_regex())
    assert llguidance.LLMatcher.validate_grammar(llguidance.grammar_from("regex", character_regex())) == ""
