"""Grammars of SGLang's backends over a small vocabulary, and walks through what they allow."""

from __future__ import annotations

import json
import random
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from sglang.srt.constrained.llguidance_backend import GuidanceBackend
from sglang.srt.constrained.xgrammar_backend import XGrammarGrammarBackend

from sgl_spec.drafting.constraint import ConstraintCursor
from sgl_spec.server.codec import ServerCodec
from sgl_spec.server.grammar_cursor import RequestGrammar
from sgl_spec.testing.small_tokenizers import byte_level

TOKENIZER = byte_level()
CODEC = ServerCodec(TOKENIZER, len(TOKENIZER) + 5)
ENDING = TOKENIZER.eos_token_id
BACKENDS = {
    "xgrammar": XGrammarGrammarBackend(TOKENIZER, vocab_size=CODEC.vocab_size, model_eos_token_ids=[ENDING]),
    "llguidance": GuidanceBackend(TOKENIZER, n_vocab=CODEC.vocab_size, eos_token_ids=[ENDING]),
}


def schema(properties: dict[str, Any], required: list[str], **more: Any) -> str:
    return json.dumps({"type": "object", "properties": properties, "required": required, **more})


_NODE = {
    "type": "object",
    "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
    "required": ["v", "next"],
    "additionalProperties": False,
}
_TAG = {
    "type": "structural_tag",
    "structures": [
        {
            "begin": f"<function={name}>",
            "schema": {"type": "object", "properties": {"city": {"enum": ["Paris", "Pisa"]}}, "required": ["city"]},
            "end": "</function>",
        }
        for name in ("get_weather", "get_time")
    ],
    "triggers": ["<function="],
}
CASES: dict[str, tuple[str, str]] = {
    "enums": ("json", schema({"house": {"enum": ["Gryffindor", "Griffin", "größer", None, 7]}}, ["house"])),
    "null": ("json", schema({"unit": {"type": ["string", "null"]}, "parent": {"type": "null"}}, ["unit", "parent"])),
    "optional": ("json", schema({k: {"type": "boolean"} for k in "abc"}, ["b"], additionalProperties=False)),
    "more keys": ("json", schema({"a": {"type": "boolean"}}, [], additionalProperties={"type": "integer"})),
    "unicode keys": ("json", schema({"größe": {"enum": ["x"]}, "名前": {"const": "名"}}, ["größe", "名前"])),
    "recursive": ("json", json.dumps({"$ref": "#/$defs/node", "$defs": {"node": _NODE}})),
    "array": ("json", json.dumps({"type": "array", "items": {"type": "number"}, "minItems": 1, "maxItems": 3})),
    "regex": (
        "regex",
        r'\{\n    "name": "[\w\s]{1,6}",\n    "house": "(Gryffindor|Griffin)",\n    "n": [0-9]{1,2}\n\}',
    ),
    "regex of characters": ("regex", r"x(größe|grün|名前|名字)+(é|e)?"),
    "regex that ends": ("regex", r"Today is (Mon|Tues)day, the [0-9]{1,2}(st|nd|rd|th)?\."),
    "special token's text": ("regex", r"(<\|start\|>|<tool_call>)?(a<\|start\|>b|<|<tool)"),
    "ebnf": ("ebnf", 'root ::= " a" root | " b" | "house" digits\ndigits ::= [0-9] | [0-9] digits'),
    "structural tag": ("structural_tag", json.dumps(_TAG)),
}
SPECIAL = "special token's text"
# llguidance takes no special token for its text, though its mask may leave no other (see the test of that).
LLGUIDANCE = [case for case in CASES if case != SPECIAL]
EVERY = [*(("xgrammar", case) for case in CASES), *(("llguidance", case) for case in LLGUIDANCE)]
# Walks begin in earnest after this: at random, a trigger would hardly ever be written.
_BEGUN = {"structural tag": "I will <function=get_"}


def compiled(backend: str, case: str, backends: dict[str, Any] = BACKENDS) -> Any:
    kind, text = CASES[case]
    if kind == "ebnf" and backend == "llguidance":  # in its own notation
        text = 'start: (" a")* (" b" | "house" /[0-9]+/)'
    return getattr(backends[backend], f"dispatch_{kind}")(text).copy()


def begun(backend: str, case: str) -> Any:
    grammar = compiled(backend, case)
    for token in CODEC.encode(_BEGUN.get(case, "")):
        grammar.accept_token(token)
    return grammar


def cursor_of(grammar: Any, codec: ServerCodec = CODEC) -> ConstraintCursor | None:
    return RequestGrammar(SimpleNamespace(grammar=grammar), codec).cursor()


def mask_of(grammar: Any, size: int = CODEC.vocab_size) -> set[int]:
    """The backend's own mask, as SGLang applies it."""
    mask = grammar.allocate_vocab_mask(size, 1, "cpu")
    grammar.fill_vocab_mask(mask, 0)
    bits = np.unpackbits(mask.numpy().view(np.uint8).ravel(), bitorder="little")
    return set(np.flatnonzero(bits[:size]).tolist())


class Walk(NamedTuple):
    grammar: Any
    mask: set[int]
    tokens: list[int]


def walks(backend: str, case: str, times: int = 6, most: int = 30) -> Any:
    """Places of random outputs, of which long tokens are preferred; the grammar is the request's own."""
    for seed in range(times):
        dice = random.Random(f"{backend} {case} {seed}")
        grammar, tokens = begun(backend, case), []
        while len(tokens) < most and not grammar.is_terminated():
            mask = mask_of(grammar)
            yield Walk(grammar, mask, tokens)
            some = dice.sample(sorted(mask), min(len(mask), 3))
            tokens.append(max(some, key=lambda token: len(CODEC.token_bytes(token)) if seed % 2 else dice.random()))
            grammar.accept_token(tokens[-1])
