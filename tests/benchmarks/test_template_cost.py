"""What templates, shapes and predictions cost on the host, per request and round, and before the first round.

A round is `propose` for 15 nodes and `observe` of one token, all through whole outputs. The bounds are several times
what an idle machine needs (in the docstrings): a busy machine should not fail them, a change of order should.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable
from statistics import median

import pytest

from sgl_spec.drafting.drafter import Drafter, DraftRequest
from sgl_spec.drafting.hint import MAX_PREDICT_CHARS, Hint
from sgl_spec.drafting.predict.predict_drafter import PredictDrafter
from sgl_spec.drafting.template.template_drafter import TemplateDrafter
from sgl_spec.drafting.template.template_learning import MAX_OUTPUT_TOKENS, learn

PROMPT = list(range(50))
REQUESTS = 12
WORDS = ("river", "mountain", "green", "old", "likes", "knows", "quickly", "Paris", "Oslo", "Quito", "Ada", "Bo", "Liu")


class Codec:
    """Words with the space before them, signs in a row, digits."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._bytes: list[bytes] = []

    def encode(self, text: str) -> list[int]:
        ids = self._ids
        tokens = [ids.setdefault(piece, len(ids)) for piece in re.findall(r" ?[A-Za-z]+|\d| ?[^\s\w]+|\s", text)]
        self._bytes.extend(piece.encode() for piece in list(ids)[len(self._bytes) :])
        return tokens

    def token_bytes(self, token: int) -> bytes:
        return self._bytes[token] if token < len(self._bytes) else b""


def record(rng: random.Random) -> dict[str, object]:
    note = " ".join(rng.choices(WORDS, k=rng.randint(3, 12)))
    return {"name": rng.choice(WORDS), "age": rng.randint(1, 99), "city": rng.choice(WORDS), "note": note}


def text_of(rng: random.Random, records: int) -> str:
    return json.dumps([record(rng) for _ in range(records)], indent=1)


@pytest.fixture
def codec() -> Codec:
    return Codec()


def rounds(drafter: Drafter, hint: Hint, outputs: list[list[int]]) -> list[float]:
    """Seconds of every round of every output."""
    times = []
    for number, output in enumerate(outputs):
        drafter.start(DraftRequest(str(number), PROMPT, "p", "s", hint=hint))
        for token in output:
            begin = time.perf_counter()
            drafter.propose(str(number), 15)
            drafter.observe(str(number), (token,))
            times.append(time.perf_counter() - begin)
        drafter.stop(str(number))
    return times


def measured(benchmark, run: Callable[[], list[float]]) -> float:
    """Median seconds of a round, over several runs; the best of them."""
    medians: list[float] = []
    benchmark.pedantic(lambda: medians.append(median(run())), rounds=5)
    benchmark.extra_info["median_us_per_round"] = round(min(medians) * 1e6, 2)
    return min(medians)


def test_rounds_of_a_learned_template(benchmark, codec):
    """5 microseconds, half of them for the token observed."""
    rng = random.Random(1)
    past = [codec.encode(text_of(rng, 3)) for _ in range(8)]
    outputs = [codec.encode(text_of(rng, 3)) for _ in range(REQUESTS)]
    drafter = TemplateDrafter(codec, lambda request: past)
    assert measured(benchmark, lambda: rounds(drafter, Hint(), outputs)) < 8e-6


def test_rounds_of_a_template_nobody_used_before(benchmark, codec):
    """Most places are searched for the first time: 15 microseconds."""
    rng = random.Random(2)
    past = [codec.encode(text_of(rng, 3)) for _ in range(8)]
    output = codec.encode(text_of(rng, 3))
    assert measured(benchmark, lambda: rounds(TemplateDrafter(codec, lambda _: past), Hint(), [output])) < 40e-6


def test_rounds_of_a_declared_shape(benchmark, codec):
    """4 microseconds."""
    rng = random.Random(3)
    shape = (
        '[\n {\n  "name": "',
        None,
        '",\n  "age": ',
        None,
        ',\n  "city": "',
        None,
        '",\n  "note": "',
        None,
        '"\n }\n]',
    )
    outputs = [codec.encode(text_of(rng, 1)) for _ in range(REQUESTS)]
    drafter = TemplateDrafter(codec, lambda request: ())
    assert measured(benchmark, lambda: rounds(drafter, Hint(shape=shape), outputs)) < 20e-6


@pytest.mark.parametrize("edits", [0, 5, 40])
def test_rounds_of_a_prediction(benchmark, codec, edits):
    """2 microseconds while it is followed, 5 in the middle where every sixth word was changed."""
    rng = random.Random(4)
    text = text_of(rng, 8)
    words = text.split(" ")
    for _ in range(edits):
        words[rng.randrange(len(words))] = rng.choice(WORDS)
    drafter = PredictDrafter(codec)
    outputs = [codec.encode(" ".join(words))] * 3
    assert measured(benchmark, lambda: rounds(drafter, Hint(predict=text), outputs)) < 8e-6


def test_rounds_of_a_wrong_prediction(benchmark, codec):
    """It is looked for after every token: 8 microseconds."""
    rng = random.Random(5)
    outputs = [codec.encode(" ".join(rng.choices(WORDS, k=300)))]
    drafter = PredictDrafter(codec)
    assert measured(benchmark, lambda: rounds(drafter, Hint(predict=text_of(rng, 8)), outputs)) < 40e-6


@pytest.mark.parametrize("tokens", [100, 300, MAX_OUTPUT_TOKENS])
def test_learning(benchmark, codec, tokens):
    """3 ms for 8 outputs of 100 tokens, 5 for 300, 25 at most."""
    rng = random.Random(6)
    outputs = [codec.encode(text_of(rng, 40))[:tokens] for _ in range(8)]
    benchmark.pedantic(lambda: learn(outputs), rounds=5, warmup_rounds=1)
    assert benchmark.stats.stats.min < 80e-3


def test_starting_again_learns_nothing(benchmark, codec):
    """7 microseconds for these outputs of 100 tokens, to see that they are the same."""
    rng = random.Random(7)
    past = [tuple(codec.encode(text_of(rng, 3))) for _ in range(8)]
    drafter = TemplateDrafter(codec, lambda request: past)
    drafter.start(DraftRequest("r", PROMPT, "p", "s"))
    benchmark(lambda: drafter.start(DraftRequest("r", PROMPT, "p", "s")))
    assert benchmark.stats.stats.min < 500e-6


def test_starting_the_longest_prediction(benchmark, codec):
    """262,144 characters: 70 ms, nearly all of them for the tokenizer (SmolLM2's takes longer, see the report)."""
    text = text_of(random.Random(8), 4_000)[:MAX_PREDICT_CHARS]
    assert len(text) == MAX_PREDICT_CHARS
    drafter = PredictDrafter(codec)
    benchmark.pedantic(lambda: drafter.start(DraftRequest("r", PROMPT, hint=Hint(predict=text))), rounds=3)
    assert benchmark.stats.stats.min < 1.0
    output = codec.encode(text[:4_000])
    begin = time.perf_counter()
    for token in output:
        drafter.propose("r", 15)
        drafter.observe("r", (token,))
    assert (time.perf_counter() - begin) / len(output) < 50e-6, "a round does not depend on the prediction's length"
