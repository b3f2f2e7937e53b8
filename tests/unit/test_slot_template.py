"""Learning a slot's template: what is constant, how holes end, optional parts, alternatives and lists."""

from __future__ import annotations

import json
import random

import pytest
from drafted import check, nodes, replay
from hypothesis import given, settings
from hypothesis import strategies as st
from piece_codec import PieceCodec

from sgl_spec.drafting.template.alignment import ABSENT, SUPPORT, align, constants
from sgl_spec.drafting.template.slot_template import NO_VALUE, START_HOLE, SlotTemplate
from sgl_spec.drafting.template.template_cursor import TemplateCursor
from sgl_spec.drafting.template.template_learning import MAX_OUTPUT_TOKENS, MAX_OUTPUTS, MAX_TOKENS, learn
from sgl_spec.drafting.template.template_search import TemplateSearch

CITIES = ("Paris", "Helsinki", "Nairobi", "Quito", "Wellington", "Tashkent", "Oslo", "Lagos", "Ulaanbaatar")
NAMES = ("Ada", "Bo", "Chandra", "Delphine", "Eero", "Fatima", "Gunnar", "Hiroshi", "Ines", "Jacqueline")


def record(rng: random.Random, nick: bool = False) -> dict[str, object]:
    made: dict[str, object] = {"name": f"{rng.choice(NAMES)} {rng.choice(CITIES)}son", "city": rng.choice(CITIES)}
    if nick:
        made["nickname"] = rng.choice(NAMES)
    return made | {"age": rng.randint(10, 99), "email": f"{rng.choice(NAMES).lower()}@example.com"}


def template_of(*outputs: list[int]) -> SlotTemplate:
    template = learn(outputs)
    assert template is not None
    return template


def cursor_of(*outputs: list[int], min_a: float = 0.02) -> TemplateCursor:
    return TemplateCursor(TemplateSearch(template_of(*outputs), "t", min_a))


tokens = st.lists(st.integers(0, 6), max_size=40)


@settings(deadline=None)
@given(tokens, tokens)
def test_an_alignment_ascends_and_pairs_equal_tokens(a, b):
    found = align(a, b)
    places = [place for place in found if place != ABSENT]
    assert len(found) == len(a)
    assert places == sorted(set(places))
    assert all(a[n] == b[place] for n, place in enumerate(found) if place != ABSENT)


@settings(deadline=None)
@given(st.lists(tokens.filter(bool), min_size=2, max_size=6))
def test_constants_are_in_nearly_all_outputs_in_order(outputs):
    runs = constants(outputs)
    for number, output in enumerate(outputs):
        end = 0
        for run in runs:
            place = run.places[number]
            if place != ABSENT:
                assert place >= end
                assert tuple(output[place : place + len(run.tokens)]) == run.tokens
                end = place + len(run.tokens)
    assert all(len(run.tokens) > 1 or run.times <= len(outputs) for run in runs)


def test_the_keys_of_records_are_constant_and_their_values_are_not():
    codec, rng = PieceCodec(), random.Random(3)
    outputs = [codec.encode(json.dumps(record(rng))) for _ in range(8)]
    found = "|".join(codec.text(run.tokens) for run in constants(outputs))
    assert found.startswith('{"name": "|')
    for key in ('", "city": "', '", "age": ', ', "email": "', '@example.com"}'):
        assert key in found
    assert not any(city in found for city in CITIES)


def test_a_run_that_a_fifth_of_the_outputs_lack_is_still_one():
    full, lacking = [1, 2, 3, 50, 7, 8, 9, 60, 4, 5], [1, 2, 3, 51, 61, 4, 5]
    outputs = [[51 + n if token in (50, 60) else token for token in full] for n in range(4)]
    runs = [run.tokens for run in constants([*outputs, lacking])]
    assert (7, 8, 9) in runs
    assert len(outputs) >= SUPPORT * (len(outputs) + 1)


@pytest.mark.parametrize("outputs", [[], [[]], [[1, 2, 3, 4]], [[1, 2, 3], []], [[1, 2, 3, 4], [5, 6, 7, 8]]])
def test_one_output_and_outputs_with_nothing_in_common_make_no_template(outputs):
    assert learn(outputs) is None


def hole_of_length(length: int, times: int) -> list[list[int]]:
    return [[1, 2, 3, *(100 + 10 * n + k for k in range(length)), 4, 5, 6] for n in range(times)]


def test_a_hole_that_always_lasted_as_long_ends_there_and_hardly_before():
    (hole,) = (hole for hole in template_of(*hole_of_length(5, 8)).holes if len(hole.hazards) == 6)
    assert hole.hazard(5, NO_VALUE) > 0.8
    assert max(hole.hazard(length, NO_VALUE) for length in range(5)) < 0.1


def test_few_observations_are_no_certainty():
    ends = []
    for times in (2, 4, 8):
        template = template_of(*hole_of_length(5, times))
        ends.append(template.holes[1].hazard(5, NO_VALUE))
        assert all(run.q < 1.0 for run in template.runs)
    assert ends == sorted(ends)
    assert ends[0] < 0.65


def test_a_hole_far_beyond_every_length_seen_is_hardly_expected_to_end():
    hole = template_of(*hole_of_length(5, 8)).holes[1]
    late = [hole.hazard(length, NO_VALUE) for length in range(6, 80)]
    assert late == sorted(late, reverse=True)
    assert late[-1] < 0.02


def test_an_output_begins_with_the_first_run():
    template = template_of(*hole_of_length(3, 4))
    (first,) = template.holes[START_HOLE].exits
    assert template.runs[first.run].tokens == (1, 2, 3)
    assert template.holes[START_HOLE].hazard(0, NO_VALUE) > 0.9


def test_of_an_optional_part_both_ways_are_drafted():
    codec, rng = PieceCodec(), random.Random(8)
    outputs = [
        codec.encode(
            json.dumps({"id": rng.randint(10, 99), **({"ok": True} if n % 2 else {}), "end": rng.randint(10, 99)})
        )
        for n in range(8)
    ]
    cursor = cursor_of(*outputs)
    cursor.extend(codec.encode('{"id": 77'))
    drafted = {codec.text(path) for path in nodes(cursor.propose(20))}
    assert ', "ok": true, "end": ' in drafted
    assert ', "end": ' in drafted


def test_of_a_slot_with_several_forms_the_commonest_is_learned():
    refusals = [[90, 91, 92 + n] for n in range(2)]
    template = template_of(*refusals, *hole_of_length(2, 4))
    runs = [run.tokens for run in template.runs]
    assert (1, 2, 3) in runs
    assert (4, 5, 6) in runs


def test_values_seen_before_are_offered_by_how_often_they_were():
    codec = PieceCodec()
    outputs = [
        codec.encode(f'{{"verdict": "{verdict}", "n": {n}}}')
        for n, verdict in enumerate(["yes"] * 5 + ["no"] * 2 + ["maybe"])
    ]
    cursor = cursor_of(*outputs)
    cursor.extend(codec.encode('{"verdict": "'))
    q = {codec.text(path): q for path, q in nodes(cursor.propose(20)).items()}
    assert q["yes"] > q["no"] > q["mayb" if "mayb" in q else "maybe"] > 0.0
    assert 'yes", "n": ' in q, "the run follows the value"


def test_a_list_is_followed_beyond_the_lengths_it_was_learned_from():
    codec, rng = PieceCodec(), random.Random(5)

    def listed(n: int) -> list[int]:
        return codec.encode(json.dumps([record(rng) for _ in range(n)]))

    cursor = cursor_of(*(listed(n) for n in (1, 2, 3, 2, 1, 3)))
    result = replay(cursor, listed(12))
    values = replay(TemplateCursor(TemplateSearch(template_of([1, 2], [1, 2]), "t", 0.02)), listed(12))
    assert values.per_round == 1.0
    assert result.per_round > 2.0


def test_long_outputs_are_cut_and_the_newest_are_taken():
    rng = random.Random(1)
    outputs = [[1, 2, 3, *(rng.randrange(100, 10**6) for _ in range(3_000)), 4, 5, 6] for _ in range(2)]
    template = learn([[1, 2, 3, *([9] * MAX_OUTPUT_TOKENS)], *outputs])
    assert template is None or all(6 not in run.tokens for run in template.runs), "the end of each was cut off"
    old = [[7, 8, 9, n] for n in range(5)]
    newest = [[1, 2, 3, n] for n in range(10, 10 + MAX_OUTPUTS)]
    assert all(7 not in run.tokens for run in template_of(*newest, *old).runs)
    many = [[1, 2, 3, *([20 + n] * 1_990)] for n in range(8)]
    assert sum(map(len, many)) > MAX_TOKENS
    assert template_of(*many).runs[0].tokens == (1, 2, 3)


@settings(deadline=None, max_examples=150)
@given(st.lists(tokens, max_size=6), st.lists(st.integers(0, 8), max_size=50), st.integers(1, 16))
def test_any_outputs_and_any_text_give_proper_chains(outputs, text, most):
    template = learn(outputs)
    if template is None:
        return
    cursor = TemplateCursor(TemplateSearch(template, "t", 0.01))
    for token in text:
        chains = cursor.propose(most)
        check(chains)
        assert len(nodes(chains)) <= most
        cursor.advance(token)
