"""Workloads whose outputs the server holds to a grammar: a regular expression, a JSON schema. Pure.

Each of them is one slot of one program, so that its first request is the first call ever of the slot and the later
ones find what the earlier ones left in memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from sgl_spec.cli.bench.data_file import read_lines
from sgl_spec.cli.bench.function_calls import call_requests
from sgl_spec.cli.bench.prompt import Chat, Prompt

NAMES_FILE = "sglang_json_jump_forward_names.txt"

_FREE_TEXT = r'"[\w\s]{1,16}"'


def character_prompts(data: Path, chat: Chat) -> Iterator[Prompt]:
    """Character sheets: SGLang's benchmark/json_jump_forward, one prompt per name, held to `character_regex`.

    The prompt is plain text, not a chat, as in that benchmark.
    """
    names = [name.strip() for name in read_lines(data / NAMES_FILE)]
    regex = character_regex()
    for number, name in enumerate(filter(None, names)):
        ask = f"{name} is a character in Harry Potter. Please fill in the following information about this character.\n"
        yield Prompt(f"character-{number}", ask, regex=regex, program="character", slot="sheet")


def bfcl_prompts(data: Path, chat: Chat) -> Iterator[Prompt]:
    """Function calls held to the JSON schema of the functions offered; the prompts are those of `json`."""
    for request in call_requests(data):
        ask, schema = chat(request.message), json.dumps(request.schema())
        yield Prompt(f"bfcl-{request.line}", ask, json_schema=schema, program="bfcl", slot="call")


def character_regex() -> str:
    """A sheet as a JSON object: a field a line, indented by four spaces a level, free texts of 1 to 16 characters."""
    wand = {"wood": _FREE_TEXT, "core": _FREE_TEXT, "length": r"[0-9]{1,2}\.[0-9]{0,2}"}
    return _object(
        {
            "name": _FREE_TEXT,
            "house": _one_of("Gryffindor", "Slytherin", "Ravenclaw", "Hufflepuff"),
            "blood status": _one_of("Pure-blood", "Half-blood", "Muggle-born"),
            "occupation": _one_of(
                "student", "teacher", "auror", "ministry of magic", "death eater", "order of the phoenix"
            ),
            "wand": _object(wand, level=1),
            "alive": _one_of("Alive", "Deceased"),
            "patronus": _FREE_TEXT,
            "bogart": _FREE_TEXT,
        }
    )


def _object(fields: Mapping[str, str], level: int = 0) -> str:
    outer = " " * 4 * level
    lines = [rf'{outer}    "{key}": {value}' for key, value in fields.items()]
    return r"\{\n" + r",\n".join(lines) + rf"\n{outer}\}}"


def _one_of(*words: str) -> str:
    return f'"({"|".join(words)})"'
