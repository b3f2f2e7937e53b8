"""The predicted output: what is drafted while it is followed and after an edit, and what usage counts of it."""

from __future__ import annotations

import random
import re

import pytest
from drafted import check, nodes, replay
from hypothesis import given, settings
from hypothesis import strategies as st
from piece_codec import PieceCodec

from sgl_spec.drafting.drafter import DraftRequest
from sgl_spec.drafting.hint import Hint
from sgl_spec.drafting.predict.predict_drafter import HEAD_CHARS, PredictDrafter, PredictionCounts, tokens_after
from sgl_spec.drafting.predict.prediction import ABSENT, Prediction
from sgl_spec.drafting.predict.prediction_cursor import (
    AGAIN,
    FOLLOWED,
    FOUND_FAR,
    FOUND_NEAR,
    INSERTED,
    REPLACED,
    TRUST,
    TRUST_FOLLOWED,
    PredictionCursor,
)
from sgl_spec.drafting.text_codec import continuation
from sgl_spec.drafting.tree import DraftError

CODE = """
def total_price(items, discount):
    result = 0
    for item in items:
        result = result + item.price * item.count
    if discount:
        result = result * (1 - discount)
    return round(result, 2)


def cheapest(items):
    return min(items, key=lambda item: item.price)
"""


def cursor_of(predicted: list[int], min_a: float = 0.02) -> PredictionCursor:
    return PredictionCursor(Prediction(predicted), "predict", min_a)


def started(predict: str | None, prompt: str = "Rewrite:\n", **hint: object) -> tuple[PredictDrafter, PieceCodec]:
    codec = PieceCodec()
    drafter = PredictDrafter(codec)
    drafter.start(DraftRequest("r", codec.encode(prompt), hint=Hint(predict=predict, **hint)))
    return drafter, codec


def first_tokens(cursor: PredictionCursor) -> dict[int, float]:
    return {path[0]: q for path, q in nodes(cursor.propose(15)).items() if len(path) == 1}


def test_the_whole_prediction_is_drafted_from_its_beginning():
    drafter, codec = started("one two three four")
    (chain,) = drafter.propose("r", 15)
    assert codec.text(chain.tokens) == "one two three four"
    assert chain.origin == "predict"
    assert min(chain.q) > 0.9
    assert len(drafter.propose("r", 2)[0].tokens) == 2


def test_q_rises_with_what_was_followed():
    cursor = cursor_of(list(range(60)))
    firsts = []
    for token in range(20):
        firsts.append(first_tokens(cursor)[token])
        cursor.advance(token)
    assert firsts == sorted(firsts)
    assert firsts[-1] == FOLLOWED[-1]


def test_right_after_a_departure_both_replacement_and_insertion_are_drafted():
    cursor = cursor_of(list(range(20)))
    cursor.extend([0, 1, 2, 77])  # in place of 3, or before it
    q = first_tokens(cursor)
    assert q[4] > q[3] > 0.0


def test_the_token_after_a_departure_tells_where_it_goes_on():
    cursor = cursor_of(list(range(20)))
    cursor.extend([0, 1, 2, 6])  # 3 to 5 were deleted
    assert max(first_tokens(cursor).items(), key=lambda item: item[1])[0] == 7
    cursor.extend([7])
    assert first_tokens(cursor)[8] > 0.7


def test_the_way_back_from_far_is_found_by_three_tokens():
    cursor = cursor_of(list(range(500)))
    cursor.extend([0, 1, 300, 301])
    assert 302 not in first_tokens(cursor)
    cursor.extend([302])
    assert first_tokens(cursor)[303] > 0.7


def test_of_two_ways_back_the_nearer_comes_first():
    predicted = [*range(10), 50, 51, 52, 53, *range(20, 40), 50, 51, 52, 99]
    cursor = cursor_of(predicted)
    cursor.extend([*range(6), 70, 71, 50, 51, 52])
    q = first_tokens(cursor)
    assert q[53] > q.get(99, 0.0)


def test_after_an_insertion_the_prediction_goes_on_where_it_was_left():
    cursor = cursor_of(list(range(40)))
    cursor.extend([0, 1, 2, *range(100, 130), 3, 4])
    assert first_tokens(cursor)[5] > 0.6


def test_a_renaming_is_drafted_where_the_name_comes_again():
    codec = PieceCodec()
    predicted = codec.encode(CODE)
    new = codec.encode(re.sub(r"\bresult\b", "total", CODE))
    cursor = cursor_of(predicted)
    twice = CODE.replace("result", "total").index("total", CODE.index("result") + 8)
    cursor.extend(codec.encode(CODE.replace("result", "total")[:twice].rstrip()))
    drafted = {codec.text(path) for path in nodes(cursor.propose(15))}
    assert any(text.endswith(" total =") for text in drafted)
    assert any("resul" in text for text in drafted), "the prediction itself stays a sibling"
    assert replay(cursor_of(predicted), new).per_round > 5.0


@pytest.mark.parametrize(
    ("old", "new"), [(" * item.count", ""), ("discount:", "discount and discount < 1:"), ("round(result, 2)", "result")]
)
def test_an_edit_costs_only_a_few_rounds(old, new):
    codec = PieceCodec()
    edited = codec.encode(CODE.replace(old, new))
    result = replay(cursor_of(codec.encode(CODE)), edited)
    assert result.rounds <= len(edited) / 15 + 9
    assert result.rounds < len(edited) / 6


def test_a_wrong_prediction_soon_proposes_next_to_nothing():
    rng = random.Random(1)
    result = replay(cursor_of([rng.randrange(100) for _ in range(300)]), [rng.randrange(100, 200) for _ in range(200)])
    assert result.rounds == 200
    assert result.drafted < 200


@pytest.mark.parametrize(
    ("predicted", "output", "accepted"),
    [
        ([1, 2, 3], [1, 2, 3], 3),
        ([1, 2, 3], [1, 2, 3, 4, 5], 3),
        ([1, 2, 3, 4], [1, 2], 2),
        ([1, 2, 3, 4, 5, 6], [1, 2, 9, 4, 5, 6], 5),
        ([1, 2, 3, 4, 5, 6], [1, 2, 9, 8, 3, 4, 5, 6], 6),
        ([1, 2, 3, 4, 5, 6, 7], [1, 2, 5, 6, 7], 5),
        ([1, 2, 3], [7, 8, 9], 0),
        ([1, 2, 3], [], 0),
    ],
)
def test_counts_are_those_of_the_tokens_in_order(predicted, output, accepted):
    cursor = cursor_of(predicted)
    cursor.extend(output)
    assert cursor.matched(len(output)) == accepted


def test_a_part_written_twice_counts_once():
    cursor = cursor_of(list(range(10)))
    cursor.extend([0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 6, 7])
    assert cursor.matched(14) == 8


def test_what_a_stop_cut_off_does_not_count():
    drafter, codec = started("one two three four")
    tokens = codec.encode("one two three four")
    drafter.observe("r", tokens[:3])
    assert drafter.prediction_counts("r") == PredictionCounts(3, len(tokens) - 3)
    drafter.observe("r", tokens[3:])
    drafter.finish("r", tokens[:2])
    assert drafter.prediction_counts("r") == PredictionCounts(2, len(tokens) - 2)
    assert drafter.notes("r") == {"prediction": {"accepted": 2, "rejected": len(tokens) - 2}}
    drafter.stop("r")
    assert drafter.prediction_counts("r") is None
    assert drafter.notes("r") == {}


def test_without_a_prediction_nothing_is_drafted_or_counted():
    drafter, _ = started(None)
    assert drafter.propose("r", 15) == []
    drafter.observe("r", [1, 2])
    drafter.finish("r", [1])
    assert drafter.prediction_counts("r") is None


def test_a_client_that_allows_other_origins_only_still_gets_counts():
    drafter, codec = started("one two three", origins=frozenset({"lookup"}))
    assert drafter.propose("r", 15) == []
    tokens = codec.encode("one two thirty")
    for token in tokens:
        drafter.observe("r", [token])
        assert drafter.propose("r", 15) == []
    counts = drafter.prediction_counts("r")
    assert counts is not None
    assert counts.accepted == 2


def test_unknown_requests_are_named():
    drafter, _ = started("one")
    drafter.stop("r")
    with pytest.raises(DraftError, match="rid 'r'"):
        drafter.propose("r", 15)
    with pytest.raises(DraftError, match="rid 'r'"):
        drafter.observe("r", [1])
    drafter.finish("r", [1])


@pytest.mark.parametrize("min_a", [-1.0, 1.5, float("nan")])
def test_a_wrong_floor_is_refused(min_a):
    with pytest.raises(DraftError, match="min_a"):
        PredictDrafter(PieceCodec(), min_a)


@pytest.mark.parametrize(
    ("prompt", "text"), [("The answer", ": yes " * 40), ("a (", ") b " * 40), ("x", "y"), ("", "a b")]
)
def test_a_text_is_tokenised_as_it_comes_after_the_prompt(prompt, text):
    codec = PieceCodec()
    before = codec.encode(prompt)
    assert tokens_after(codec, before, text) == continuation(codec, before, text)


def test_a_long_text_is_tokenised_once():
    codec = PieceCodec()
    before = codec.encode("Rewrite this:\n")
    codec.encoded_chars = 0
    tokens_after(codec, before, "a long text " * 1_000)
    assert codec.encoded_chars < 12_000 + 20 * HEAD_CHARS


def test_occurrences_are_found_and_the_nearest_is_taken():
    prediction = Prediction([1, 2, 3, 9, 1, 2, 3, 8, 1 << 40, 2, 3])
    assert prediction.after((1, 2, 3), 0) == 3
    assert prediction.after((1, 2, 3), 6) == 7
    assert prediction.after((3, 2, 1), 0) == ABSENT
    assert Prediction([1, 2]).after((1, 2, 3), 0) == ABSENT
    assert Prediction([1 << 21, 2, 3]).after((0, 2, 3), 0) == ABSENT, "ids that only look alike to the index"
    assert list(prediction.places_of(3, 0, 11)) == [2, 6, 10]
    assert list(prediction.places_of(3, 3, 6)) == []


def test_the_priors_are_probabilities():
    for table in (FOLLOWED, REPLACED, INSERTED, FOUND_NEAR, FOUND_FAR, AGAIN, TRUST, TRUST_FOLLOWED):
        assert all(0.0 <= q <= 1.0 for q in table)
    assert list(FOLLOWED) == sorted(FOLLOWED)
    assert all(one + other <= 1.0 for one, other in zip(REPLACED, INSERTED, strict=True))


tokens = st.lists(st.integers(0, 5), max_size=50)


@settings(deadline=None, max_examples=200)
@given(tokens, tokens, st.integers(0, 16), st.sampled_from([1.0, 0.75]))
def test_any_prediction_and_output_give_proper_chains_and_counts(predicted, output, most, trust):
    cursor = PredictionCursor(Prediction(predicted), "p", 0.001, trust)
    for done, token in enumerate(output):
        chains = cursor.propose(most)
        check(chains)
        assert sum(len(chain.tokens) for chain in chains) <= 2 * most + 8
        assert cursor.matched(done) <= min(len(predicted), done)
        cursor.advance(token)
    counts = [cursor.matched(n) for n in range(len(output) + 1)]
    assert counts == sorted(counts)


@settings(deadline=None)
@given(tokens)
def test_an_output_as_predicted_counts_whole(predicted):
    cursor = cursor_of(predicted)
    cursor.extend(predicted)
    assert cursor.matched(len(predicted)) == len(predicted)
