"""Prompts: a function of seed and number, of every kind, and about other things when they are held out."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgl_spec.heads.draw import Draw
from sgl_spec.heads.prompts import GREEDY_SHARE, KINDS, WEIGHTS, Prompt, make_prompt
from sgl_spec.heads.word_lists import LISTS

MANY = 3000


def _said(prompt: Prompt) -> str:
    body = prompt.body
    return "\n".join([body.text, *(message.content for message in body.messages), *body.later])


@pytest.fixture(scope="module")
def prompts() -> list[Prompt]:
    return [make_prompt(0, number, 0.1) for number in range(MANY)]


@given(st.integers(), st.integers(0, 10**6), st.sampled_from([0.0, 0.5, 1.0]))
def test_any_prompt_is_complete(seed: int, number: int, held_share: float) -> None:
    prompt = make_prompt(seed, number, held_share)
    assert prompt == make_prompt(seed, number, held_share)
    body = prompt.body
    assert bool(body.text) != bool(body.messages)
    if body.messages:
        assert body.messages[-1].role == "user"
        assert body.open_user or body.messages[-1].content
    # No field of a template is left unfilled (`${name}` is JavaScript's), and none of the marks that building uses.
    assert not re.search(r"(?<!\$)\{[a-z]+\d*\}", _said(prompt))
    assert not set("\0\1\2\3") & set(_said(prompt))
    assert prompt.held_out == {0.0: False, 1.0: True}.get(held_share, prompt.held_out)


def test_another_seed_gives_other_prompts(prompts: list[Prompt]) -> None:
    others = {_said(make_prompt(1, number, 0.1)) for number in range(200)}
    said = {_said(prompt) for prompt in prompts[:200] if prompt.kind != "self"}
    assert len(said & others) < 10


def test_every_kind_comes_as_often_as_its_weight(prompts: list[Prompt]) -> None:
    counts = Counter(prompt.kind for prompt in prompts)
    assert sum(WEIGHTS.values()) == pytest.approx(1)
    assert set(counts) == set(KINDS)
    for kind, weight in WEIGHTS.items():
        assert counts[kind] / MANY == pytest.approx(weight, abs=0.03)
    assert sum(prompt.temperature == 0 for prompt in prompts) / MANY == pytest.approx(GREEDY_SHARE, abs=0.03)
    assert sum(prompt.held_out for prompt in prompts) / MANY == pytest.approx(0.1, abs=0.02)


def test_templates_hardly_repeat_themselves(prompts: list[Prompt]) -> None:
    said = [_said(prompt) for prompt in prompts if prompt.kind != "self"]
    assert len(set(said)) > 0.98 * len(said)


def test_held_out_prompts_are_about_other_things(prompts: list[Prompt]) -> None:
    held = {company for at, company in enumerate(LISTS["company"]) if at % 5 == 4}
    for side, allowed in ((True, held), (False, set(LISTS["company"]) - held)):
        said = "\n".join(_said(prompt) for prompt in prompts if prompt.held_out == side)
        assert {company for company in LISTS["company"] if company in said} == allowed


@given(st.integers(), st.integers(0, 1000), st.booleans())
def test_draws_keep_to_their_side(seed: int, number: int, held: bool) -> None:
    draw = Draw(seed, number, 1.0 if held else 0.0)
    items = list(range(37))
    chosen = [draw.pick(items), *draw.several(items, 50)]
    assert all((item % 5 == 4) == held for item in chosen)
    assert len(set(chosen[1:])) == len(chosen) - 1
    assert draw.pick([1, 2]) in (1, 2), "a short list is not divided"


def test_fields_are_drawn_once_and_numbered_ones_differ() -> None:
    for number in range(50):
        one, again, other = Draw(3, number).fill("{name}|{name}|{name2}").split("|")
        assert one == again != other
        assert other in LISTS["name"]
    assert Draw(3, 0).fill("{{name}}") == "{name}"
    assert re.fullmatch(r"\{a: \d+\}", Draw(3, 0).fill("{{a: {few}}}"))
    with pytest.raises(KeyError):
        Draw(3, 0).fill("{nonsense}")


def test_records_shown_as_examples_are_json_of_their_message(prompts: list[Prompt]) -> None:
    shown = 0
    for prompt in prompts:
        messages = prompt.body.messages
        for message, answer in pairwise(messages):
            if prompt.kind == "extract" and answer.role == "assistant":
                shown += 1
                for value in json.loads(answer.content).values():
                    assert value is True or all(
                        str(v) in message.content for v in (value if isinstance(value, list) else [value])
                    )
    assert shown > 20
