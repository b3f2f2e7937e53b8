"""Two replies agree only if everything a client can see agrees, and each difference is found where it is."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgl_spec.cli.check.answer import LOGPROBS, USAGE, Answer, Reply, joined, read_answer
from sgl_spec.cli.check.compare import compare, first_difference
from sgl_spec.errors import ServerError

IDS = st.lists(st.integers(0, 5), min_size=1, max_size=8).map(tuple)
META = st.fixed_dictionaries(
    {"finish_reason": st.sampled_from([{"type": "stop", "matched": 2}, {"type": "length", "length": 4}, None])},
    optional={
        **{name: st.integers(0, 3) for name in USAGE},
        **{name: st.lists(st.lists(st.floats(-2, 0), max_size=2), max_size=3) for name in LOGPROBS},
        "cached_tokens": st.integers(0, 9),
        "id": st.text(max_size=3),
    },
)
ANSWERS = st.builds(Answer, IDS, st.text(max_size=8), META, st.just(""))
UNSEEN = {"cached_tokens", "id"}


def reply(*answers: Answer) -> Reply:
    return Reply(answers, 0.1)


def seen(answer: Answer) -> Any:
    """What a user would compare."""
    return (
        answer.output_ids,
        answer.text,
        {k: v for k, v in answer.meta_info.items() if k not in UNSEEN and v is not None},
    )


@given(st.lists(ANSWERS, min_size=1, max_size=3), st.lists(ANSWERS, min_size=1, max_size=3))
def test_they_agree_exactly_if_all_that_is_seen_is_equal(left: list[Answer], right: list[Answer]) -> None:
    found = compare(reply(*left), reply(*right))
    assert found.none == (list(map(seen, left)) == list(map(seen, right)))


@given(st.lists(ANSWERS, min_size=1, max_size=3), st.data())
def test_a_changed_field_is_the_only_difference(answers: list[Answer], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(answers) - 1))
    name = data.draw(st.sampled_from(["output_ids", "text", "finish_reason", *USAGE, *LOGPROBS]))
    one = answers[place]
    if name == "output_ids":
        changed = one._replace(output_ids=(*(one.output_ids or ()), 9))
    elif name == "text":
        changed = one._replace(text=one.text + "x")
    else:
        changed = one._replace(meta_info={**one.meta_info, name: [[1.0, 7, None]]})
    found = compare(reply(*answers[:place], changed, *answers[place + 1 :]), reply(*answers)).found
    assert [(each.field, each.answer) for each in found] == [(name, place)]


@given(IDS, IDS)
def test_the_first_differing_token_is_named(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    on, off = (Answer(ids, "", {}) for ids in (left, right))
    first = compare(reply(on), reply(off)).first_token
    if left == right:
        assert first is None
    else:
        assert first is not None
        at = first.at
        assert at is not None
        assert left[:at] == right[:at]
        assert left[at : at + 1] != right[at : at + 1]
        assert (first.on, first.off) == (left[at : at + 8], right[at : at + 8])


def test_first_difference_of_a_prefix_is_its_end() -> None:
    assert first_difference("abc", "abcd") == first_difference("abcd", "abc") == 3
    assert first_difference([1, 2], [3, 2]) == 0


def test_missing_ids_and_missing_logprobs_are_differences() -> None:
    whole = Answer((1,), "a", {"output_token_logprobs": [[-1.0, 1, None]]})
    assert compare(reply(whole), reply(whole._replace(output_ids=None))).aspects == {"ids"}
    assert compare(reply(whole), reply(whole._replace(meta_info={}))).aspects == {"logprobs"}


def test_infinite_logprobs_agree() -> None:
    answer = Answer((1,), "a", {"output_top_logprobs": [[[-math.inf, 1, None]]]})
    assert compare(reply(answer), reply(answer._replace(meta_info=dict(answer.meta_info)))).none


TOP = st.lists(
    st.tuples(st.sampled_from([-1.0, -2.0, -3.0]), st.integers(0, 99)), min_size=2, max_size=5, unique_by=lambda e: e[1]
).map(lambda entries: [[value, token, None] for value, token in sorted(entries, reverse=True)])


def top(row: list[Any]) -> Reply:
    return reply(Answer((1,), "a", {"output_top_logprobs": [[[-0.5, 3, None]], row]}))


@given(TOP, st.randoms(use_true_random=False))
def test_the_order_of_equal_top_logprobs_is_chance_and_so_is_who_comes_last(row: list[Any], random: Any) -> None:
    turned = sorted(random.sample(row, len(row)), key=lambda entry: -entry[0])
    assert compare(top(row), top(turned)).none
    last = [[value, 100 + token if value == row[-1][0] else token, None] for value, token, _ in row]
    assert compare(top(row), top(last)).none


@given(TOP, st.data())
def test_another_value_or_another_token_above_the_last_is_a_difference(row: list[Any], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(row) - 1))
    value, token, text = row[place]
    others = [[-2.5 if value == -2.0 else value - 0.25, token, text]]
    if value > row[-1][0]:
        others.append([value, 100, text])
    for other in others:
        found = compare(top(row), top([*row[:place], other, *row[place + 1 :]])).found
        assert [(one.field, one.at) for one in found] == [("output_top_logprobs", 1)]
    assert not compare(top(row), top(row[:-1])).none


@pytest.mark.parametrize("failing", [("x", None), (None, "y"), ("x", "y")])
def test_a_failed_request_agrees_with_nothing(failing: tuple[str | None, str | None]) -> None:
    on, off = (Reply((), 0.0, failure) if failure else reply(Answer((1,), "", {})) for failure in failing)
    assert compare(on, off).aspects == {"failed"}


def test_answers_too_few_are_a_difference() -> None:
    one = Answer((1,), "a", {})
    assert [each.field for each in compare(reply(one), reply(one, one)).found] == ["answers"]


def events(texts: list[str], ids: list[list[int]]) -> list[dict[str, Any]]:
    pairs = zip(texts, ids, strict=True)
    return [{"text": text, "output_ids": some, "meta_info": {"finish_reason": None}} for text, some in pairs]


@given(st.lists(st.text(max_size=3), min_size=1, max_size=5))
def test_a_stream_that_only_grows_is_its_last_event(parts: list[str]) -> None:
    texts = ["".join(parts[: n + 1]) for n in range(len(parts))]
    ids = [list(range(n + 1)) for n in range(len(parts))]
    whole = joined(events(texts, ids), incremental=False)
    assert whole == Answer(tuple(ids[-1]), "".join(parts), {"finish_reason": None})
    pieces = joined(events(parts, [[n] for n in range(len(parts))]), incremental=True)
    assert pieces == whole


@pytest.mark.parametrize(
    ("texts", "ids", "what"),
    [
        (["ab", "a", "abc"], [[1], [1], [1]], "text 'ab'"),
        (["a", "ab"], [[1, 2], [1, 3]], "ids [1, 2]"),
    ],
)
def test_what_a_stream_takes_back_is_said_and_is_a_difference(
    texts: list[str], ids: list[list[int]], what: str
) -> None:
    answer = joined(events(texts, ids), incremental=False)
    assert answer.taken_back == what
    calm = answer._replace(taken_back="")
    assert compare(reply(answer), reply(calm)).aspects == {"stream"}


def test_logprobs_of_an_incremental_stream_are_put_together() -> None:
    parts = events(["a", "b"], [[1], [2]])
    for number, event in enumerate(parts):
        event["meta_info"]["output_token_logprobs"] = [[-1.0, number, None]]
    assert joined(parts, incremental=True).meta_info["output_token_logprobs"] == [[-1.0, 0, None], [-1.0, 1, None]]


@pytest.mark.parametrize("answer", [None, "text", {"text": "a"}, {"error": 1}])
def test_what_is_no_answer_is_an_error(answer: object) -> None:
    with pytest.raises(ServerError):
        read_answer(answer)


def test_an_empty_stream_is_an_error() -> None:
    with pytest.raises(ServerError, match="no event"):
        joined([], incremental=False)
