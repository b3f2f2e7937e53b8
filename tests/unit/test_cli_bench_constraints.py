"""What the constrained workloads hold outputs to: the schema of BFCL's functions, the regex of a character sheet."""

from __future__ import annotations

import json
import re

import pytest
from jsonschema import Draft202012Validator

from sgl_spec.cli.bench.constrained_prompts import character_regex
from sgl_spec.cli.bench.function_calls import call_schema
from sgl_spec.errors import ConfigError

TRIP = {
    "name": "plan.trip",
    "description": "Plans a trip.",
    "parameters": {
        "type": "dict",
        "properties": {
            "days": {"type": "integer", "description": "How long.", "default": 3},
            "budget": {"type": "float"},
            "mode": {"type": "string", "enum": ["train", "bus"]},
            "stops": {"type": "array", "items": {"type": "dict", "properties": {"city": {"type": "string"}}}},
            "box": {"type": "tuple", "items": {"type": "float"}},
            "extra": {"type": "any"},
            "options": {"type": "dict"},
        },
        "required": ["days", "mode"],
    },
}


def accepted(schema: dict, name: str, **arguments) -> bool:
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema).is_valid({"name": name, "arguments": arguments})


def test_types_are_translated_and_the_rest_is_kept():
    arguments = call_schema((TRIP,), "f, line 1")["properties"]["arguments"]
    assert arguments == {
        "type": "object",
        "properties": {
            "days": {"type": "integer"},
            "budget": {"type": "number"},
            "mode": {"type": "string", "enum": ["train", "bus"]},
            "stops": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"city": {"type": "string"}},
                    "required": [],
                    "additionalProperties": False,
                },
            },
            "box": {"type": "array", "items": {"type": "number"}},
            "extra": {},
            "options": {"type": "object"},
        },
        "required": ["days", "mode"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("arguments", "valid"),
    [
        ({"days": 2, "mode": "bus"}, True),
        ({"days": 2, "mode": "bus", "stops": [{"city": "Oslo"}], "box": [0.5], "extra": 0, "options": {"a": 1}}, True),
        ({"mode": "bus"}, False),
        ({"days": 2, "mode": "car"}, False),
        ({"days": 2.5, "mode": "bus"}, False),
        ({"days": 2, "mode": "bus", "speed": 1}, False),
        ({"days": 2, "mode": "bus", "stops": [{"town": "Oslo"}]}, False),
    ],
)  # fmt: skip
def test_the_schema_takes_calls_of_the_function_only(arguments, valid):
    schema = call_schema((TRIP,), "f, line 1")
    assert accepted(schema, "plan.trip", **arguments) is valid
    assert not accepted(schema, "plan.walk", **arguments)


def test_of_several_functions_each_has_its_own_arguments():
    walk = {"name": "walk", "parameters": {"type": "dict", "properties": {"km": {"type": "float"}}, "required": ["km"]}}
    schema = call_schema((TRIP, walk), "f, line 1")
    assert accepted(schema, "walk", km=3)
    assert accepted(schema, "plan.trip", days=1, mode="bus")
    assert not accepted(schema, "walk", days=1, mode="bus")


def test_a_function_without_parameters_takes_none():
    schema = call_schema(({"name": "now"},), "f, line 1")
    assert accepted(schema, "now")
    assert not accepted(schema, "now", zone="UTC")


def test_an_unknown_type_and_a_nameless_function_are_named_with_their_place():
    bad = {"name": "f", "parameters": {"properties": {"list": {"type": "array", "items": {"type": "HashMap"}}}}}
    with pytest.raises(ConfigError, match=r"x\.jsonl, line 3, function 'f', list, items: the type is 'HashMap'"):
        call_schema((bad,), "x.jsonl, line 3")
    with pytest.raises(ConfigError, match="line 3: a function has no 'name'"):
        call_schema(({"parameters": {}},), "x.jsonl, line 3")


def sheet(**changes: str) -> str:
    """A character sheet as the regex wants it."""
    fields = {
        "name": "Luna Lovegood",
        "house": "Ravenclaw",
        "blood status": "Pure-blood",
        "occupation": "student",
        "wand": {"wood": "unknown", "core": "phoenix feather", "length": 10.25},
        "alive": "Alive",
        "patronus": "hare",
        "bogart": "her mother",
    }
    return json.dumps({**fields, **changes}, indent=4)


def test_the_regex_takes_a_sheet_indented_by_four():
    assert re.fullmatch(character_regex(), sheet())


@pytest.mark.parametrize(
    "wrong",
    [
        sheet(house="Durmstrang"),
        sheet(alive="maybe"),
        sheet(name="x" * 17),
        sheet(name=""),
        sheet(wand={"wood": "oak"}),
        sheet().replace("    ", "  "),
        sheet().replace('"length": 10.25', '"length": 123.5'),
        sheet() + "\n",
    ],
)
def test_the_regex_takes_nothing_else(wrong):
    assert not re.fullmatch(character_regex(), wrong)
