"""What the memory of past outputs costs on the hot path of a server: 32 requests of one slot with 20 past outputs.

The bounds are on the fastest run and generous, several times what an idle machine needs: a busy machine
should not fail them, a change of order should.
"""

from __future__ import annotations

import random

import pytest

from sgl_spec.drafting.drafter import DraftRequest
from sgl_spec.drafting.lookup.suffix_index import MAX_BYTES_PER_TOKEN
from sgl_spec.drafting.memory.memory_drafter import MemoryDrafter
from sgl_spec.drafting.memory.memory_file import MemoryIdentity, load, save
from sgl_spec.drafting.memory.output_memory import LEAST_SLOT_TOKENS, OutputMemory
from sgl_spec.drafting.memory.slot_key import SlotKey, slot_key

REQUESTS = 32
OUTPUTS = 20
TOKENS = 200
WIDTH = 16
ROUND = 3  # tokens committed in a round


def answers(number: int) -> list[list[int]]:
    """Outputs of one slot: the same parts in the same order, other values between them."""
    generator = random.Random(7)
    parts = [[generator.randrange(49_152) for _ in range(8)] for _ in range(TOKENS // 12)]
    made = []
    for _ in range(number):
        tokens: list[int] = []
        for part in parts:
            tokens += [*part, *(int(generator.paretovariate(0.5)) % 49_152 for _ in range(4))]
        made.append((tokens + [9] * TOKENS)[:TOKENS])
    return made


@pytest.fixture(scope="module")
def texts() -> list[list[int]]:
    return answers(REQUESTS)


@pytest.fixture
def memory() -> OutputMemory:
    return OutputMemory(1 << 20, 1 << 15)


@pytest.fixture
def drafter(memory) -> MemoryDrafter:
    drafter = MemoryDrafter(memory)
    requests = [DraftRequest(str(number), list(range(4_000)), "p", "s") for number in range(REQUESTS)]
    for output in answers(OUTPUTS):
        memory.remember(slot_key(requests[0]), output)
    for request in requests:
        drafter.start(request)
    return drafter


def test_a_round_of_a_batch(benchmark, drafter, texts):
    place = 0

    def one_round() -> int:
        nonlocal place
        place = (place + ROUND) % (TOKENS - ROUND)
        nodes = 0
        for number, text in enumerate(texts):
            drafter.observe(str(number), text[place : place + ROUND])
            nodes += sum(len(chain.tokens) for chain in drafter.propose(str(number), WIDTH - 1))
        return nodes

    assert benchmark(one_round) > REQUESTS, "there is something to draft"
    assert benchmark.stats.stats.min / REQUESTS < 60e-6


def test_a_round_after_another_request_of_the_slot_ended(benchmark, drafter, memory, texts):
    """Every running request looks for its place again."""
    key = slot_key(DraftRequest("r", [], "p", "s"))
    fresh = iter(answers(500))
    for number, text in enumerate(texts):
        drafter.observe(str(number), text[:50])

    def propose() -> None:
        for number in range(REQUESTS):
            drafter.propose(str(number), WIDTH - 1)

    benchmark.pedantic(propose, setup=lambda: memory.remember(key, next(fresh)), rounds=50)
    assert benchmark.stats.stats.min / REQUESTS < 90e-6


def test_start_a_request(benchmark, drafter):
    request = DraftRequest("r", list(range(4_000)), owner="salt", endings=frozenset({2}), constraint_key="[0-9]+" * 50)
    benchmark(drafter.start, request)
    assert benchmark.stats.stats.min < 100e-6


@pytest.mark.parametrize("tokens", [200, 2_000])
def test_remembering_is_linear(benchmark, memory, tokens):
    key = slot_key(DraftRequest("r", [], "p", "s"))
    generator = random.Random(3)
    outputs = iter([[generator.randrange(500) for _ in range(tokens)] for _ in range(60)])
    memory.remember(key, next(outputs))
    benchmark.pedantic(lambda: memory.remember(key, next(outputs)), rounds=50)
    assert benchmark.stats.stats.median / tokens < 15e-6


@pytest.mark.parametrize(("slots", "tokens"), [(30, TOKENS), (3_000, 1)])
def test_what_a_token_takes(slots, tokens):
    """The bound on tokens is one on memory: whatever is remembered, an index costs no more than its count says."""
    memory = OutputMemory(200_000, 10_000)
    for number, output in enumerate(answers(2_000)):
        memory.remember(SlotKey("", "", str(number % slots)), [number, *output][:tokens])
    indexes = [memory.index(slot.key) for slot in memory.snapshot()]
    counted = sum(max(LEAST_SLOT_TOKENS, len(index)) for index in indexes)
    assert sum(index.num_bytes for index in indexes) < MAX_BYTES_PER_TOKEN * counted


def test_save_and_load(benchmark, memory, tmp_path):
    identity = MemoryIdentity("t", 49_152)
    for number, output in enumerate(answers(300)):
        memory.remember(SlotKey("", "p", str(number % 10)), output)
    benchmark.pedantic(lambda: save(memory, tmp_path / "m", identity), rounds=3)
    assert load(tmp_path / "m", identity, 1 << 20, 1 << 15).tokens_held == memory.tokens_held
    assert benchmark.stats.stats.min < 2
