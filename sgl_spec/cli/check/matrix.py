"""Which comparisons to make: sources by temperature, batch size and memory, sampled down so that each appears.

Stands outside a round. Pure, and the same for the same seed.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, cycle, islice, product
from typing import Any, Literal, NamedTuple

from sgl_spec.cli.check.source import Source

FIELD = "sgl_spec"
OFF = {"custom_params": {FIELD: {"version": 1, "off": True}}}  # beside sampling parameters: decode without drafts
_KEPT_WHEN_OFF = ("version", "program", "slot", "memory")  # of a hint: who asks, and where its answer is remembered
_WEIGHT_WITHIN = 1000  # a source's own balance comes before that of the whole matrix

Memory = Literal["warm", "cold"]
_MEMORIES: tuple[Memory, ...] = ("warm", "cold")


class Plan(NamedTuple):
    """What a check is to cover.

    Attributes:
        requests: comparisons, each of two requests.
        temperatures, batches: the values to try.
        seed: decides everything that is left to chance.
        extra_key: keeps the check's cached prefixes and remembered outputs apart from everybody else's.
        longest: bounds every request's max_new_tokens; None for no bound.
    """

    requests: int
    temperatures: tuple[float, ...]
    batches: tuple[int, ...]
    seed: int
    extra_key: str
    longest: int | None = None


class Cell(NamedTuple):
    """One comparison: a request, and the same one with speculation off.

    Attributes:
        number: from 0.
        source, kind, call: whose request it is.
        temperature, sampling_seed, batch: its row of the matrix; batch is how many requests are under way at once.
        memory: "warm": it may draft from past outputs, that of its own twin among them; "cold": it may not.
        on, off: the two bodies for /generate.
    """

    number: int
    source: str
    kind: str
    call: str
    temperature: float
    sampling_seed: int
    batch: int
    memory: Memory
    on: Mapping[str, Any]
    off: Mapping[str, Any]


class _Variant(NamedTuple):
    call: int
    temperature: float
    batch: int
    memory: Memory


class _Mark(NamedTuple):
    source: str | None
    field: str
    value: Any


def picks(programs: Sequence[str], rows: Sequence[str], plan: Plan) -> tuple[str, ...]:
    """The source of each comparison, by name: everyone once, programs spread among the rows, and from then on as many
    of programs as of rows, each in turn."""
    order = random.Random(f"{plan.seed}/sources")
    sides = [order.sample(side, len(side)) for side in (programs, rows) if side]
    placed = [((place + 0.5) / len(side), name) for side in sides for place, name in enumerate(side)]
    first = [name for _, name in sorted(placed)]
    further = chain.from_iterable(zip(*(cycle(side) for side in sides), strict=True))
    return tuple(islice(chain(first, further), plan.requests if sides else 0))


def cells(chosen: Sequence[str], sources: Mapping[str, Source], plan: Plan) -> tuple[Cell, ...]:
    """A cell for each of `chosen` that has requests. Of a source's variants, those come first whose temperature, batch
    size, memory and call were had least."""
    made: list[Cell] = []
    balance = _Balance()
    variants = {name: _Variants(source, plan) for name, source in sources.items() if source.calls}
    for name in chosen:
        if name in variants:
            variant = balance.least_had(name, variants[name].open())
            variants[name].close(variant)
            made.append(_cell(len(made), sources[name], variant, plan))
    return tuple(made)


class _Variants:
    """The variants of a source that were not had yet, in an order of their own; all again when there are no more."""

    def __init__(self, source: Source, plan: Plan) -> None:
        sampled = [t for t in plan.temperatures if t > 0]
        temperatures = sampled if source.sampled_only and sampled else plan.temperatures
        every = product(range(len(source.calls)), temperatures, plan.batches, _MEMORIES)
        self._every = [_Variant(*one) for one in every]
        self._order = random.Random(f"{plan.seed}/{source.name}")
        self._left: list[_Variant] = []

    def open(self) -> Sequence[_Variant]:
        if not self._left:
            self._left = self._order.sample(self._every, len(self._every))
        return self._left

    def close(self, variant: _Variant) -> None:
        self._left.remove(variant)


class _Balance:
    """Counts how often each value was had: by one source, and by all."""

    def __init__(self) -> None:
        self._had: Counter[_Mark] = Counter()

    def least_had(self, source: str, variants: Sequence[_Variant]) -> _Variant:
        """The variant whose values were had least, the first of several; it counts as had."""
        best = min(variants, key=lambda variant: self._times(source, variant))
        for field, value in best._asdict().items():
            self._had[_Mark(source, field, value)] += 1
            self._had[_Mark(None, field, value)] += 1
        return best

    def _times(self, source: str, variant: _Variant) -> int:
        values = variant._asdict().items()
        own = sum(self._had[_Mark(source, field, value)] for field, value in values)
        return own * _WEIGHT_WITHIN + sum(self._had[_Mark(None, field, value)] for field, value in values)


def _cell(number: int, source: Source, variant: _Variant, plan: Plan) -> Cell:
    call = source.calls[variant.call]
    seed = random.Random(f"{plan.seed}/{number}").randrange(2**31)
    on = request_body(call.body, variant.temperature, seed, plan)
    if variant.memory == "cold":
        on = with_hint(on, {"version": 1, **hint_of(on), "memory": "off"})
    return Cell(
        number, source.name, source.kind, call.name, variant.temperature, seed, variant.batch, variant.memory,
        on, off_body(on),
    )  # fmt: skip


def request_body(body: Mapping[str, Any], temperature: float, seed: int, plan: Plan) -> dict[str, Any]:
    """The request as a cell sends it: at its temperature, with its seed, no longer than the plan allows."""
    params = {**body["sampling_params"], "temperature": temperature, "sampling_seed": seed}
    for name in ("max_new_tokens", "min_new_tokens"):
        if plan.longest is not None and params.get(name) is not None:
            params[name] = min(params[name], plan.longest)
    return {**body, "sampling_params": params, "extra_key": plan.extra_key}


def off_body(on: Mapping[str, Any]) -> dict[str, Any]:
    """The same request with speculation off, and not as a stream. It keeps the names of program and slot, so that its
    answer is remembered where its twin looks."""
    hint = hint_of(on)
    off = {"version": 1, **{name: hint[name] for name in _KEPT_WHEN_OFF if name in hint}, "off": True}
    return {name: value for name, value in with_hint(on, off).items() if name != "stream"}


def hint_of(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The request's hint in its wire form, empty where it has none."""
    hint: Mapping[str, Any] = (body["sampling_params"].get("custom_params") or {}).get(FIELD) or {}
    return hint


def with_hint(body: Mapping[str, Any], hint: Mapping[str, Any]) -> dict[str, Any]:
    """The request with another hint."""
    params = body["sampling_params"]
    custom = {**(params.get("custom_params") or {}), FIELD: dict(hint)}
    return {**body, "sampling_params": {**params, "custom_params": custom}}
