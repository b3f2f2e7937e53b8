"""What drafts from a grammar cost on the hot path of a server: the refiner's part of a round, over real grammars.

Outputs are replayed: function calls, each with a schema of its own, so that nothing is known when a request starts; and
a sheet whose text is mostly forced. Timed is all that the grammar adds to planning a round (begin_round, cut, extend),
as time of this process on a core. The bounds are generous: the best group of rounds, and about twice what a busy
machine needs.
"""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from sgl_spec.drafting.drafter import DraftRequest
from sgl_spec.drafting.grammar.constraint_drafter import ConstraintDrafter
from sgl_spec.drafting.tree import DraftTree
from sgl_spec.platform_cpu.activate import activate
from sgl_spec.server.codec import ServerCodec
from sgl_spec.testing.small_tokenizers import byte_level

activate()  # before SGLang is imported

from sglang.srt.constrained.llguidance_backend import GuidanceBackend  # noqa: E402
from sglang.srt.constrained.xgrammar_backend import XGrammarGrammarBackend  # noqa: E402

from sgl_spec.server.grammar_cursor import RequestGrammar  # noqa: E402

TOKENIZER = byte_level(1_000)
CODEC = ServerCodec(TOKENIZER, len(TOKENIZER))
ENDING = TOKENIZER.eos_token_id
WIDTH = 16
GROUPS = 4
MOST_SECONDS = 1.2e-3
KEYS = ["base", "height", "unit", "radius", "city", "name", "length", "house", "weather"]
SHEET = (
    r'\{\n    "name": "[\w\s]{1,16}",\n    "house": "(Gryffindor|Slytherin|Hufflepuff)",\n'
    r'    "wand": \{\n        "wood": "[\w\s]{1,16}",\n        "length": [0-9]{1,2}\.[0-9]{0,2}\n    \}\n\}'
)


class Output(NamedTuple):
    """A grammar's kind and text, and an output it allows."""

    kind: str
    grammar: str
    text: str


def calls() -> Iterator[Output]:
    dice = random.Random(5)
    for number in range(24):
        keys = dice.sample(KEYS, 3)
        properties = {key: {"type": "integer" if dice.random() < 0.7 else "string"} for key in keys}
        arguments = {"type": "object", "properties": properties, "required": keys[:2], "additionalProperties": False}
        name = f"get_{dice.choice(KEYS)}_{number}"
        schema = {"type": "object", "properties": {"name": {"const": name}, "arguments": arguments}}
        values = {key: number if properties[key]["type"] == "integer" else "Paris" for key in keys}
        text = json.dumps({"name": name, "arguments": values}, indent=2 if number % 2 else None)
        yield Output("json", json.dumps({**schema, "required": ["name", "arguments"]}), text)


def sheets() -> Iterator[Output]:
    for name in ("Harry", "Draco", "Luna", "Cedric", "Cho", "Neville", "Ginny", "Percy") * 2:
        text = f'{{\n    "name": "{name}",\n    "house": "Slytherin",\n    "wand": {{\n        "wood": "holly",\n'
        yield Output("regex", SHEET, f'{text}        "length": 11.5\n    }}\n}}')


def _backend(name: str) -> Any:
    if name == "xgrammar":
        return XGrammarGrammarBackend(TOKENIZER, vocab_size=CODEC.vocab_size, model_eos_token_ids=[ENDING])
    return GuidanceBackend(TOKENIZER, n_vocab=CODEC.vocab_size, eos_token_ids=[ENDING])


class Replay:
    """Rounds of all outputs, one after the other."""

    def __init__(self, outputs: list[Output], backend: Any) -> None:
        self.outputs, self.backend = outputs, backend
        self.drafter = ConstraintDrafter(CODEC, CODEC.vocabulary, lambda request: (), lambda request: None, 0.04)
        self.seconds: list[float] = []
        self.tokens = 0

    def run(self) -> None:
        for output in self.outputs:
            grammar = getattr(self.backend, f"dispatch_{output.kind}")(output.grammar).copy()
            constraint = RequestGrammar(SimpleNamespace(grammar=grammar), CODEC)
            tokens = CODEC.encode(output.text)
            prompt = CODEC.encode("Call the function " + output.grammar)
            self.drafter.start(DraftRequest("r", prompt, endings=frozenset([ENDING]), constraint=constraint))
            self.tokens += len(tokens)
            while tokens:
                new = tokens[: self._round(tokens) + 1]
                del tokens[: len(new)]
                for token in new:
                    grammar.accept_token(token)
                self.drafter.observe("r", new)

    def _round(self, coming: list[int]) -> int:
        """Plan one; returns how many drafts are accepted."""
        tree = DraftTree(0)
        began = time.process_time()
        self.drafter.begin_round("r")
        self.drafter.cut("r", coming[:2])
        self.drafter.extend("r", tree, WIDTH - 1)
        self.seconds.append(time.process_time() - began)
        node = accepted = 0
        while accepted < len(coming):
            below = (child for child in tree.children(node) if tree.tokens[child] == coming[accepted])
            node = next(below, -1)
            if node < 0:
                break
            accepted += 1
        return accepted


@pytest.mark.parametrize("backend", ["xgrammar", "llguidance"])
@pytest.mark.parametrize("outputs", [calls, sheets])
def test_a_round_with_a_grammar(benchmark: Any, outputs: Any, backend: str) -> None:
    replay = Replay(list(outputs()), _backend(backend))
    benchmark.pedantic(replay.run, rounds=1)
    size = len(replay.seconds) // GROUPS
    groups = (replay.seconds[group * size : (group + 1) * size] for group in range(GROUPS))
    median = min(map(statistics.median, groups))
    benchmark.extra_info["microseconds a round"] = round(median * 1e6)
    benchmark.extra_info["tokens a round"] = round(replay.tokens / len(replay.seconds), 2)
    assert replay.tokens / len(replay.seconds) > 2.0
    assert median < MOST_SECONDS


def test_a_long_output_costs_no_more_than_a_short_one(benchmark: Any) -> None:
    """Texts that are known are let go as they are committed; only the copy of the matcher grows with the output."""
    schema = json.dumps({"type": "array", "items": {"type": "object", "properties": {"a": {"type": "integer"}}}})
    text = json.dumps([{"a": number % 97} for number in range(250)])
    replay = Replay([Output("json", schema, text)], _backend("xgrammar"))
    benchmark.pedantic(replay.run, rounds=1)
    size = len(replay.seconds) // 4
    assert statistics.median(replay.seconds[-size:]) < 3 * statistics.median(replay.seconds[size : 2 * size])
