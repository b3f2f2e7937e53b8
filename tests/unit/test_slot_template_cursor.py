"""Following an output along a template: runs, the end of holes, departures, and what a wrong template costs."""

from __future__ import annotations

import json
import random

import pytest
from drafted import accepted, check, nodes, replay
from piece_codec import PieceCodec
from test_slot_template import cursor_of, record

from sgl_spec.drafting.drafter import DraftRequest
from sgl_spec.drafting.lookup.lookup_drafter import LookupDrafter
from sgl_spec.drafting.template.slot_template import Place
from sgl_spec.drafting.template.template_cursor import TemplateCursor
from sgl_spec.drafting.template.template_learning import learn
from sgl_spec.drafting.template.template_search import TRUST, Ahead, TemplateSearch, merged
from sgl_spec.drafting.tree import DraftError

RUNS = ((1, 2, 3, 4), (5, 6, 7), (8, 9, 10, 11))


def output(*values: list[int]) -> list[int]:
    """The runs with values between them."""
    return [token for run, value in zip(RUNS, [*values, []], strict=True) for token in (*run, *value)]


def examples(rng: random.Random, times: int = 8) -> list[list[int]]:
    return [
        output(*([rng.randrange(100, 10**6) for _ in range(rng.randint(1, 4))] for _ in "ab")) for _ in range(times)
    ]


@pytest.fixture
def cursor() -> TemplateCursor:
    return cursor_of(*examples(random.Random(2)))


def test_all_constant_runs_are_drafted(cursor):
    new = output([50, 51], [52, 53, 54])
    for done in range(len(new)):
        if new[done] < 50:
            step = accepted(cursor.propose(15), new[done:])
            run = next(run for run in RUNS if new[done] in run)
            assert step >= run[-1] - new[done] + 1, f"the run's rest is drafted at {done}"
        cursor.advance(new[done])


def test_inside_a_hole_the_next_run_is_offered_and_then_surer(cursor):
    cursor.extend([*RUNS[0], 50])
    q = nodes(cursor.propose(15))
    assert 0.1 < q[5,] < 0.7
    assert q[5, 6] > 0.9
    assert q[5, 6, 7] > 0.9
    cursor.extend([51, 52, 53, *range(54, 70)])
    assert nodes(cursor.propose(15)).get((5,), 0.0) < 0.1, "this hole is longer than any seen"


def test_a_run_is_followed_after_a_hole_of_any_length(cursor):
    cursor.extend([*RUNS[0], *range(50, 90), 5])
    assert accepted(cursor.propose(15), [6, 7]) == 2


def test_a_token_that_only_looks_like_the_next_run_changes_little(cursor):
    cursor.extend([*RUNS[0], 50, 5, 51, 52])  # 5 begins the next run, but it did not go on
    assert (5, 6, 7) in nodes(cursor.propose(15))
    cursor.extend(RUNS[1])
    cursor.extend([60, 61])
    assert (8, 9, 10, 11) in nodes(cursor.propose(15))


def test_the_way_back_is_found_after_a_departure_inside_a_run(cursor):
    cursor.extend([1, 2, 77, 78])
    cursor.extend(RUNS[1])
    cursor.extend([60])
    assert (8, 9, 10, 11) in nodes(cursor.propose(15))


def test_a_part_that_was_left_out_is_passed_over(cursor):
    cursor.extend([*RUNS[0], 50, 51, 52, 8, 9, 10])
    assert accepted(cursor.propose(15), [11]) == 1


def contradicted(cursor: TemplateCursor, times: int) -> int:
    """How many nodes are drafted after so many runs that began and went on otherwise."""
    for n in range(times):
        cursor.extend([1, 2, 3, 1_000 + n, 2_000 + n, 3_000 + n])
        cursor.extend([5, 6, 4_000 + n])
    cursor.extend([1, 2, 3])
    return len(nodes(cursor.propose(15)))


def test_a_template_that_is_contradicted_again_and_again_falls_silent():
    outputs = examples(random.Random(2))
    drafted = [contradicted(cursor_of(*outputs), times) for times in range(6)]
    assert drafted[0] > 0
    assert drafted == sorted(drafted, reverse=True)
    assert drafted[-1] == 0
    assert list(TRUST) == sorted(TRUST, reverse=True)


def test_trust_comes_back_with_runs_that_are_completed():
    cursor = cursor_of(*examples(random.Random(2)))
    assert contradicted(cursor, 5) == 0
    for _ in range(6):
        cursor.extend([4, *output([50], [51])[4:], *RUNS[0][:3]])
    assert len(nodes(cursor.propose(15))) > 0


def test_an_output_unlike_the_template_is_drafted_next_to_nothing():
    rng = random.Random(4)
    result = replay(cursor_of(*examples(rng)), [rng.randrange(200, 10**6) for _ in range(200)])
    assert result.rounds == 200
    assert result.drafted < 200


def test_what_begins_alike_shares_its_nodes():
    here = Place(0, 0)
    one, other, apart = (
        Ahead((1, 2, 3), (0.3, 0.8, 0.9), here),
        Ahead((1, 2, 4), (0.1, 1.0, 0.9), here),
        Ahead((5,), (0.2,), here),
    )
    first, second, third = merged([one, other, apart])
    assert first.q[:2] == pytest.approx((0.4, (0.3 * 0.8 + 0.1) / 0.4))
    assert second.q[:2] == first.q[:2]
    assert first.q[2] + second.q[2] == pytest.approx(0.9)
    assert third == apart
    assert merged([one, apart]) == [one, apart]


def test_one_that_ends_where_another_goes_on_keeps_its_share():
    here = Place(0, 0)
    short, long = merged([Ahead((1,), (0.2,), here), Ahead((1, 2), (0.3, 1.0), here)])
    assert short.q == (0.5,)
    assert short.sure == pytest.approx(0.4)
    assert long.q == pytest.approx((0.5, 0.6))


@pytest.mark.parametrize("min_a", [-0.1, 1.1, float("nan")])
def test_a_wrong_floor_is_refused(min_a):
    with pytest.raises(DraftError, match="min_a"):
        TemplateSearch(learn(examples(random.Random(1))), "t", min_a)


def test_generated_records_go_far_faster_with_their_template_than_with_lookup():
    """Outputs of 3 records in some 200 tokens, and a template of 8 others like them: 5.6 tokens a round against 2.0."""
    codec, rng = PieceCodec(), random.Random(11)
    past = [codec.encode(json.dumps([record(rng, rng.random() < 0.4) for _ in range(3)], indent=1)) for _ in range(8)]
    search = TemplateSearch(learn(past), "t", 0.04)
    tokens = template_rounds = lookup_rounds = 0
    for _ in range(12):
        new = codec.encode(json.dumps([record(rng, rng.random() < 0.4) for _ in range(3)], indent=1))
        result = replay(TemplateCursor(search), new)
        lookup = LookupDrafter()
        lookup.start(DraftRequest("r", codec.encode("Extract the people from this text: ")))
        lookup_rounds += replay(_Lookup(lookup), new).rounds
        tokens, template_rounds = tokens + result.tokens, template_rounds + result.rounds
    assert tokens / template_rounds > 4.0
    assert tokens / template_rounds > 2.0 * tokens / lookup_rounds


class _Lookup:
    """The lookup drafter as a cursor."""

    def __init__(self, drafter: LookupDrafter) -> None:
        self._drafter = drafter

    def propose(self, max_tokens):
        return self._drafter.propose("r", max_tokens)

    def extend(self, tokens):
        self._drafter.observe("r", tokens)


@pytest.mark.parametrize("seed", range(6))
def test_chains_are_proper_wherever_an_output_may_stand(seed):
    codec, rng = PieceCodec(), random.Random(seed)
    texts = [json.dumps([record(rng, rng.random() < 0.5) for _ in range(rng.randint(0, 3))]) for _ in range(16)]
    search = TemplateSearch(learn([codec.encode(text) for text in texts[:8]]), "t", 0.001)
    for text in texts[8:]:
        cursor = TemplateCursor(search)
        for token in codec.encode(text):
            check(cursor.propose(40))
            cursor.advance(token if rng.random() < 0.95 else rng.randrange(2_000))
