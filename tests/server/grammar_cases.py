"""Outputs held to a grammar that are hard to draft right: each case is a prompt, the constraint, and a check that the
text really is in the language."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from client import chat

PERSON = chat('{"name": "Anna", "age": 31, "city": "Oslo"} is a record. Write one for Bob, 42, of Paris.')


@dataclass(frozen=True)
class Case:
    """valid: whether a text is in the language. whole: the output must be complete within max_new_tokens."""

    name: str
    constraint: dict[str, Any]
    valid: Callable[[str], bool]
    prompt: str = PERSON
    max_new_tokens: int = 96
    whole: bool = True
    backends: tuple[str, ...] = field(default=("xgrammar", "llguidance"))

    def params(self) -> dict[str, Any]:
        return {"prompt": self.prompt, "max_new_tokens": self.max_new_tokens, **self.constraint}


def _schema(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object", "properties": properties, "required": list(properties), "additionalProperties": False,
    }  # fmt: skip


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"json_schema": json.dumps(schema, ensure_ascii=False)}


def _fits(check: Callable[[Any], bool]) -> Callable[[str], bool]:
    return lambda text: check(json.loads(text))


def _is_tree(value: Any) -> bool:
    return set(value) == {"value", "next"} and (value["next"] is None or _is_tree(value["next"]))


TREE = {
    "$defs": {"tree": _schema(value={"type": "integer"}, next={"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]})},
    "$ref": "#/$defs/tree",
}
DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
WEATHER = _schema(city={"type": "string", "maxLength": 20})
TAG = {
    "structures": [{"begin": "<call=weather>", "schema": WEATHER, "end": "</call>"}],
    "triggers": ["<call="],
}

CASES = (
    Case(
        "keys that disagree with the prompt",
        _json(_schema(colour={"enum": ["red", "green"]}, quantity={"type": "integer"}, urgent={"type": "boolean"})),
        _fits(lambda value: value["colour"] in ("red", "green") and type(value["urgent"]) is bool),
    ),
    Case(
        "null alternatives",
        _json(
            _schema(
                name={"anyOf": [{"type": "string", "maxLength": 20}, {"type": "null"}]},
                age={"type": ["integer", "null"]},
                nickname={"type": "null"},
            )
        ),
        _fits(lambda value: value["nickname"] is None),
    ),
    Case(
        "a recursive schema", _json(TREE), _fits(_is_tree), whole=False,
        prompt=chat('Write the list 1, 2, 3 as {"value": 1, "next": {"value": 2, "next": null}}.'),
    ),
    Case(
        "unicode keys",
        _json(_schema(größe={"type": "integer"}, 名={"type": "string", "maxLength": 9}, ключ={"enum": ["да", "нет"]})),
        _fits(lambda value: value["ключ"] in ("да", "нет")),
    ),
    Case(
        "optional keys",
        _json(
            {
                "type": "object", "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "y"]}, "c": {}},
                "required": ["b"], "additionalProperties": False,
            }
        ),
        _fits(lambda value: value["b"] in ("x", "y")), whole=False,
    ),
    Case(
        "lists of enums",
        _json({"type": "array", "items": {"enum": ["left", "right", "lower"]}, "minItems": 2, "maxItems": 5}),
        _fits(lambda value: 2 <= len(value) <= 5),
    ),
    Case(
        "a regex", {"regex": rf"On {DATE} (Alice|Albert|Bob) (paid|owed) [0-9]+\.[0-9]{{2}} EUR"},
        lambda text: bool(re.fullmatch(rf"On {DATE} (Alice|Albert|Bob) (paid|owed) [0-9]+\.[0-9]{{2}} EUR", text)),
        whole=False,
    ),
    Case(
        "an EBNF with spaced alternatives",
        {"ebnf": 'root ::= "The light is" (" red" | " green" | " off") (" now" | "") "."'},
        lambda text: bool(re.fullmatch(r"The light is (red|green|off)( now)?\.", text)),
        backends=("xgrammar",),  # llguidance takes Lark's form
    ),
    Case(
        "a structural tag", {"structural_tag": json.dumps({"type": "structural_tag", **TAG})},
        lambda text: all(
            set(json.loads(call)) == {"city"} for call in re.findall(r"<call=weather>(.*?)</call>", text, re.DOTALL)
        ),
        prompt=chat('Call the weather tool for Oslo: <call=weather>{"city": "Oslo"}</call>. Do the same for Rome.'),
        whole=False,
    ),
)  # fmt: skip
