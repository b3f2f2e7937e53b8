"""Makes a SlotTemplate from several outputs of a slot. Runs before a request's first round; its result is cached by
the drafter.

`alignment.constants` finds the runs. Here each output is read along them: what lies between two runs is a hole's
value, a run that is left out is an exit that leads past it, and a run that comes again inside a hole is a list's next
record, an exit that leads back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from typing import NamedTuple

from sgl_spec.drafting.template.alignment import ABSENT, GRAM, Constant, constants, with_optional
from sgl_spec.drafting.template.slot_template import (
    HAZARD_PRIOR,
    RIGHT_BEFORE,
    RIGHT_EACH,
    ROOT_VALUE,
    START_HOLE,
    WRONG_BEFORE,
    Exit,
    Hole,
    Place,
    Run,
    SlotTemplate,
    Value,
)

MAX_OUTPUTS = 8
MAX_OUTPUT_TOKENS = 2_000
MAX_TOKENS = 8_000
# Ways out of one hole that are worth drafting.
MAX_EXITS = 4
# Values are remembered by their first tokens; a longer one is copied better by lookup and memory.
MAX_VALUE_TOKENS = 12
MAX_VALUE_NODES = 256
# A hole whose tokens were counted so rarely tells little of which are never in it.
NOISE_PRIOR_TIMES = 0.2
NOISE_PRIOR_TOKENS = 10.0
# Exits of a hole seen once are not all there are.
EXIT_PRIOR = 0.5
# When less is constant the outputs are prose, and only what is constant in a row is no chance.
MIN_CONSTANT_SHARE = 0.05


class Way(NamedTuple):
    """The run a hole leads to: from its token `offset` on. At the output's end there is none: ABSENT."""

    run: int
    offset: int


class Step(NamedTuple):
    """One hole of one output: the hole, what it held, and where it led."""

    hole: int
    gap: tuple[int, ...]
    way: Way


END = Way(ABSENT, 0)


def learn(outputs: Sequence[Sequence[int]]) -> SlotTemplate | None:
    """The template of the first MAX_OUTPUTS of `outputs`, each cut to MAX_OUTPUT_TOKENS tokens, and of no more of them
    than have MAX_TOKENS tokens together.

    Takes about 3 ms for 8 outputs of 100 tokens, 25 ms at most.

    Returns:
        None where there is none: the outputs have next to nothing in common, or there is only one. One output does
        not show what is constant in it; it is better followed as a prediction, whose every token may change.
    """
    known = [tuple(output[:MAX_OUTPUT_TOKENS]) for output in outputs if output][:MAX_OUTPUTS]
    known = known[: sum(total <= MAX_TOKENS for total in accumulate(map(len, known)))]
    if len(known) < 2:
        return None
    runs = constants(known)
    if sum(run.times * len(run.tokens) for run in runs) < MIN_CONSTANT_SHARE * sum(map(len, known)):
        runs = [run for run in runs if len(run.tokens) >= GRAM]
    runs = with_optional(runs, known)
    if not runs:
        return None
    entries = _entries(runs)
    steps = [step for number, output in enumerate(known) for step in _read(output, number, runs, entries)]
    return _Builder(runs, steps).template()


def agreed(times: int) -> float:
    """P(a run's next token is right), by how many outputs have the run."""
    right = RIGHT_BEFORE + RIGHT_EACH * (times - 1)
    return right / (right + WRONG_BEFORE)


def _entries(runs: Sequence[Constant]) -> dict[tuple[int, ...], list[Way]]:
    """Where any GRAM tokens in a row stand in the runs."""
    entries: dict[tuple[int, ...], list[Way]] = {}
    for number, run in enumerate(runs):
        for offset in range(len(run.tokens) - GRAM + 1):
            entries.setdefault(run.tokens[offset : offset + GRAM], []).append(Way(number, offset))
    return entries


def _read(
    output: tuple[int, ...], number: int, runs: Sequence[Constant], entries: Mapping[tuple[int, ...], list[Way]]
) -> Iterator[Step]:
    """One output's way through the runs."""
    hole, at = START_HOLE, 0
    for way in [*(Way(run, 0) for run, one in enumerate(runs) if one.places[number] != ABSENT), END]:
        end = len(output) if way == END else runs[way.run].places[number]
        for step in _again(output[at:end], hole, runs, entries):
            yield step
            hole, at = step.way.run + 1, at + len(step.gap) + len(runs[step.way.run].tokens) - step.way.offset
        yield Step(hole, output[at:end], way)
        hole, at = way.run + 1, end + len(runs[way.run].tokens)


def _again(
    part: tuple[int, ...], hole: int, runs: Sequence[Constant], entries: Mapping[tuple[int, ...], list[Way]]
) -> Iterator[Step]:
    """The runs that come once more in what lies between two runs."""
    start = at = 0
    while at + GRAM <= len(part):
        ways = entries.get(part[at : at + GRAM])
        way = None if ways is None else _whole_again(part, at, hole, runs, ways)
        if way is None:
            at += 1
            continue
        yield Step(hole, part[start:at], way)
        hole = way.run + 1
        start = at = at + len(runs[way.run].tokens) - way.offset


def _whole_again(
    part: tuple[int, ...], at: int, hole: int, runs: Sequence[Constant], ways: Sequence[Way]
) -> Way | None:
    """Which of `ways` the output goes to its run's end at `at`: the nearest before the hole, as a list goes on with
    the record that came last; if none, the nearest after it."""
    found = None
    for way in ways:
        rest = runs[way.run].tokens[way.offset :]
        if part[at : at + len(rest)] == rest and (found is None or way.run < hole):
            found = way
    return found


class _Builder:
    """Collects runs and holes. Run i of the alignment is run i of the template, and hole i + 1 follows it.

    A run of GRAM tokens or more that stands in several places is in a list's record, and what follows it is the same
    each time: all count as the first.
    """

    def __init__(self, constants: Sequence[Constant], steps: Sequence[Step]) -> None:
        self._runs = [Run(one.tokens, agreed(one.times), number + 1) for number, one in enumerate(constants)]
        first: dict[tuple[int, ...], int] = {}
        same = [
            first.setdefault(run.tokens, run.hole - 1) if len(run.tokens) >= GRAM else run.hole - 1
            for run in self._runs
        ]
        self._steps: list[list[Step]] = [[] for _ in range(len(constants) + 1)]
        for hole, gap, way in steps:
            if hole != START_HOLE:
                hole = same[hole - 1] + 1
            if way.run != ABSENT:
                way = Way(same[way.run], way.offset)
            self._steps[hole].append(Step(hole, gap, way))

    def template(self) -> SlotTemplate:
        resumes = self._resumes()
        holes = tuple(self._hole(hole, steps) for hole, steps in enumerate(self._steps))
        return SlotTemplate(tuple(self._runs), holes, resumes)

    def _resumes(self) -> dict[tuple[int, ...], tuple[Place, ...]]:
        places: dict[tuple[int, ...], tuple[Place, ...]] = {}
        for number, run in enumerate(self._runs):
            for end in range(GRAM, len(run.tokens) + 1) if self._steps[run.hole] else ():
                gram = run.tokens[end - GRAM : end]
                place = Place(number, end) if end < len(run.tokens) else Place(~run.hole, 0, ROOT_VALUE)
                places[gram] = (*places.get(gram, ()), place)
        return places

    def _hole(self, hole: int, steps: Sequence[Step]) -> Hole:
        gaps: dict[Way, list[tuple[int, ...]]] = {}
        for step in steps:
            gaps.setdefault(step.way, []).append(step.gap)
        unended = gaps.pop(END, [])
        commonest = sorted(gaps, key=lambda way: (-len(gaps[way]), way))[:MAX_EXITS]
        # Before a run further on nothing is constant, or it would be in the run.
        leads = {way: () if way.run >= hole and way.offset == 0 else _common_end(gaps[way]) for way in commonest}
        ended = [gap[: len(gap) - len(leads.get(way, ()))] for way, of_way in gaps.items() for gap in of_way]
        inside = Counter(chain.from_iterable([*ended, *unended]))
        exits = tuple(self._exit(way, leads[way], len(gaps[way]), len(ended), inside) for way in commonest)
        by_token: dict[int, tuple[Exit, ...]] = {}
        for one in exits:
            first = self._runs[one.run].tokens[0]
            by_token[first] = (*by_token.get(first, ()), one)
        hazards = _hazards([len(gap) for gap in ended], [len(gap) for gap in unended])
        return Hole(hazards, exits, by_token, _values(ended))

    def _exit(self, way: Way, lead: tuple[int, ...], times: int, ended: int, inside: Counter[int]) -> Exit:
        run = way.run
        if lead or way.offset:
            whole = self._runs[way.run]
            run = len(self._runs)
            self._runs.append(Run(lead + whole.tokens[way.offset :], agreed(times), whole.hole))
        first = self._runs[run].tokens[0]
        noise = (inside[first] + NOISE_PRIOR_TIMES) / (inside.total() + NOISE_PRIOR_TOKENS)
        return Exit(run, times / (ended + EXIT_PRIOR), noise)


def _common_end(gaps: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The tokens with which all of several gaps end; none for a single gap, which cannot tell them from a value."""
    first = gaps[0]
    if len(gaps) < 2:
        return ()
    common = 0
    while all(len(gap) > common and gap[-1 - common] == first[-1 - common] for gap in gaps):
        common += 1
    return first[len(first) - common :]


def _hazards(ended: Sequence[int], unended: Sequence[int]) -> tuple[float, ...]:
    """P(a hole ends | it lasted d tokens) for d up to the longest seen, from the lengths of holes that ended and of
    those cut off by the output's end. Beta means around the rate at which tokens end holes."""
    if not ended:
        return ()
    rate = len(ended) / (sum(ended) + sum(unended) + len(ended))
    ends = Counter(ended)
    lasted = len(ended) + len(unended)
    cut = Counter(unended)
    hazards = []
    for length in range(max(ended) + 1):
        hazards.append((ends[length] + HAZARD_PRIOR * rate) / (lasted + HAZARD_PRIOR))
        lasted -= ends[length] + cut[length]
    return tuple(hazards)


def _values(gaps: Iterable[tuple[int, ...]]) -> tuple[Value, ...]:
    times, ends, following = [0], [0], [dict[int, int]()]
    for gap in gaps:
        node = ROOT_VALUE
        times[node] += 1
        for token in gap[:MAX_VALUE_TOKENS]:
            known = following[node].get(token)
            if known is None:
                if len(times) >= MAX_VALUE_NODES:
                    break
                known = following[node][token] = len(times)
                times.append(0)
                ends.append(0)
                following.append({})
            node = known
            times[node] += 1
        else:
            ends[node] += len(gap) <= MAX_VALUE_TOKENS
    return tuple(map(Value, times, ends, following))
