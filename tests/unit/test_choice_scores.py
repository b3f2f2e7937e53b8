"""A choice's score is the mean over exactly the tokens it adds, whatever their log-probabilities are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgl_spec.errors import ConfigError, ServerError
from sgl_spec.frontend.choice_scores import MOST_HEALED, check_choices, score_choice, scoring_start

IDS = st.lists(st.integers(0, 9), min_size=1, max_size=8)
VALUES = st.floats(-50, 0)


@given(prompt=IDS, healed=st.integers(0, MOST_HEALED), added=IDS, data=st.data())
def test_the_mean_is_of_the_tokens_from_the_first_that_is_not_the_prompts(prompt, healed, added, data):
    kept = prompt[: max(len(prompt) - healed, 1)]
    if len(kept) < len(prompt) and added[0] == prompt[len(kept)]:
        added = [10, *added]
    whole = kept + added
    values = [data.draw(VALUES) for _ in whole]
    start = scoring_start(prompt)
    entries = [[None if place == start else values[place], whole[place], "?"] for place in range(start, len(whole))]
    score = score_choice("c", prompt, entries)
    assert [entry[1] for entry in score.entries] == added
    assert score.mean == pytest.approx(sum(values[len(kept) :]) / len(added))


def test_a_certain_token_counts():
    """SGLang takes 0.0 for missing: it would say -4.0 here, and divide by nought were all certain."""
    assert score_choice("ab", [7], [[None, 7, "x"], [0.0, 1, "a"], [-4.0, 2, "b"]]).mean == -2.0
    assert score_choice("a", [7], [[None, 7, "x"], [0.0, 1, "a"]]).mean == 0.0


def test_a_prompts_own_last_token_does_not_count():
    assert score_choice("b", [6, 7], [[None, 6, "x"], [-9.0, 7, "y"], [-1.0, 1, "b"]]).mean == -1.0


@pytest.mark.parametrize("entries", [[], [[None, 7, "x"]], [[None, 7, "x"], [None, 1, "a"]]])
def test_an_answer_without_the_choices_values_is_an_error(entries):
    with pytest.raises(ServerError, match="no log-probabilities for the choice 'a'"):
        score_choice("a", [7], entries)


@pytest.mark.parametrize("choices", [[], "yes", ["a", ""], ["a", 3]])
def test_what_cannot_be_scored_is_refused(choices):
    with pytest.raises(ConfigError, match=r"^choices: "):
        check_choices(choices, 0.0)


def test_a_temperature_is_refused():
    with pytest.raises(ConfigError, match=r"^temperature: select scores its choices"):
        check_choices(["a", "b"], 0.7)
