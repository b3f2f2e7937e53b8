"""Cut runs against tokens fed one at a time to SGLang's own request: the same end, the same reason, the same counts."""

from __future__ import annotations

import pkgutil
from array import array
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sglang.srt.managers.schedule_batch import FINISH_ABORT, Req
from sglang.srt.plugins.hook_registry import HookType
from sglang.srt.sampling.sampling_params import SamplingParams

from sgl_spec.server import algorithm as algorithm_module
from sgl_spec.server import plugin, run_end
from sgl_spec.server.worker import Accepted
from sgl_spec.testing.small_tokenizers import byte_level

TOKENIZER = byte_level()
TOKENIZER.additional_stop_token_ids = None  # SGLang sets it on every tokenizer it loads
EOS = TOKENIZER.eos_token_id
THINK_END = TOKENIZER.encode("b\n")  # stands for "</think>", which is several tokens too
# Letters, a word, characters of two, three and four bytes, and the ends of each: much is spelled in several ways.
PIECES = sorted({token for text in [*"abhouse \né€🦊", "house"] for token in TOKENIZER.encode(text)} | {EOS})
STOPS = ["a", "ab", "b a", "ba", "house", "se", "é", "€", "🦊\n", "ab", "\n\n", "ous"]
REGEXES = ["a+b", "b$", "(?<=a)b", "^a", "[ab]{2}\n", "^(?!.*a)", "\\bb\\b", "€.*🦊", "\ufffd"]


@pytest.fixture(autouse=True, scope="module")
def published() -> Iterator[None]:
    """The hook asks which algorithm decodes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(algorithm_module, "get_spec", lambda: SimpleNamespace(speculative_algorithm="SGL_SPEC"))
        yield


class End(NamedTuple):
    """All that SGLang says of a request's end."""

    output: list[int]
    reason: dict[str, Any] | None
    finished_len: int | None
    reasoning_tokens: int


def request(reasons: bool = False, **params: Any) -> Req:
    sampling = SamplingParams(**{"max_new_tokens": 1 << 20, **params})
    sampling.normalize(TOKENIZER)
    made = Req(
        "r", "", array("q", [1, 2]), sampling, eos_token_ids={EOS}, vocab_size=len(TOKENIZER), require_reasoning=reasons
    )
    made.tokenizer = TOKENIZER
    return made


def end_of(req: Req) -> End:
    reason = req.finished_reason and req.finished_reason.to_json()
    return End(list(req.output_ids), reason, req.finished_len, req.reasoning_tokens)


def take(req: Req, tokens: Sequence[int]) -> None:
    """As the scheduler does with what a round committed."""
    req.output_ids.extend(tokens)
    if req.require_reasoning:
        req.update_reasoning_tokens(list(tokens), THINK_END)
    run_end.judge_last_token(Req.update_finish_state, req, len(tokens))


def alone(req: Req, tokens: Sequence[int]) -> End:
    for token in tokens:
        if req.finished():
            break
        take(req, [token])
    return end_of(req)


def in_runs(req: Req, runs: Sequence[Sequence[int]]) -> End:
    for run in runs:
        if req.finished():
            break
        before = {**vars(req), "output_ids": list(req.output_ids)}
        kept = run_end.kept_tokens(req, run)
        assert {**vars(req), "output_ids": list(req.output_ids)} == before
        take(req, run[:kept])
    return end_of(req)


def same_end(runs: Sequence[Sequence[int]], **params: Any) -> End:
    one, other = request(**params), request(**params)
    expected = alone(one, [token for run in runs for token in run])
    assert in_runs(other, runs) == expected
    assert list(other.output_ids_through_stop) == expected.output
    assert expected.reasoning_tokens <= len(expected.output)
    return expected


def kwargs() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {},
        optional={
            "stop": st.lists(st.sampled_from(STOPS), min_size=1, max_size=3),
            "stop_regex": st.lists(st.sampled_from(REGEXES), min_size=1, max_size=2),
            "stop_token_ids": st.lists(st.sampled_from(PIECES), min_size=1, max_size=2),
            "ignore_eos": st.booleans(),
            "no_stop_trim": st.booleans(),
            "max_new_tokens": st.integers(1, 12),
            "reasons": st.booleans(),
        },
    )


@given(st.lists(st.lists(st.sampled_from(PIECES), min_size=1, max_size=7), min_size=1, max_size=5), kwargs())
def test_a_request_ends_as_if_its_tokens_had_come_one_by_one(runs: list[list[int]], params: dict[str, Any]) -> None:
    same_end(runs, **params)


def spelled(text: str) -> list[int]:
    """One token for each character (each byte of those beyond ASCII), however the tokenizer would encode it."""
    return [token for character in text for token in TOKENIZER.encode(character)]


class Example(NamedTuple):
    run: list[int]
    params: dict[str, Any]
    kept: int | None  # None: the run does not end the request


EXAMPLES = {
    "a stop split over tokens": Example(spelled("xhouse."), {"stop": ["house"]}, None),
    "a stop split as it is encoded": Example(spelled("€ab€"), {"stop": ["ab"]}, 5),
    "a character of three bytes": Example(spelled("a€b"), {"stop": ["€"]}, 4),
    "the second of two in the list comes first": Example(spelled("xbaab"), {"stop": ["aa", "ba"]}, 3),
    "twice in a run": Example(spelled("xabyab"), {"stop": ["ab"]}, 3),
    "overlapping": Example(spelled("xaab"), {"stop": ["aab", "aa"]}, 3),
    "both end at one token": Example(spelled("xaba"), {"stop": ["b", "ab"]}, 3),
    "anchored": Example(spelled("xaby"), {"stop_regex": ["b$"]}, 3),
    "anchored where decoding alone begins to read": Example(spelled("xby."), {"stop_regex": ["^b"]}, 3),
    "looking behind": Example(spelled("bxb.b"), {"stop_regex": ["(?<=x)b"]}, 3),
    "a stop token": Example([66, 67, 66, 67], {"stop_token_ids": [67]}, 2),
    "the end of the text": Example([66, EOS, 66], {}, 2),
    "ignored": Example([66, EOS, 66], {"ignore_eos": True}, None),
    "a stop token is ignored with it": Example([66, 67, 66], {"ignore_eos": True, "stop_token_ids": [67]}, None),
    "the most tokens": Example(spelled("abab"), {"max_new_tokens": 3}, 3),
    "a stop beyond the most tokens": Example(spelled("aabb"), {"max_new_tokens": 2, "stop": ["b"]}, 2),
    "a stop at the last of the most tokens": Example(spelled("aabb"), {"max_new_tokens": 3, "stop": ["b"]}, 3),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_where_it_ends(name: str) -> None:
    run, params, kept = EXAMPLES[name]
    end = same_end([run], **params)
    assert len(end.output) == (kept or len(run))
    assert (end.reason is None) == (kept is None)


def test_what_sglang_says_of_a_whole_run_differs() -> None:
    """Else none of this were needed."""
    differs = set()
    for name, (run, params, _) in EXAMPLES.items():
        whole = request(**params)
        whole.output_ids.extend(run)
        Req.update_finish_state(whole, len(run))
        if end_of(whole)[1:3] != same_end([run], **params)[1:3]:
            differs.add(name)
    assert {"a stop split over tokens", "the second of two in the list comes first"} <= differs


def test_reasoning_ends_where_the_run_is_cut() -> None:
    run = spelled("abab")
    assert same_end([run], reasons=True, stop=["b"]).reasoning_tokens == 2
    ended = same_end([spelled("ab\nab")], reasons=True, stop=["ba", "x"])
    assert (ended.reasoning_tokens, len(ended.output)) == (3, 5)


def test_a_request_to_be_aborted_gets_one_token_more_as_it_would_alone() -> None:
    one, other = request(), request()
    for req in (one, other):
        req.to_finish = FINISH_ABORT("gone")
    assert in_runs(one, [spelled("abab")]) == alone(other, spelled("abab"))
    assert list(one.output_ids) == spelled("a")


@pytest.mark.parametrize("algorithm", [None, "NGRAM", "EAGLE3"])
def test_other_algorithms_judge_whole_runs(monkeypatch: pytest.MonkeyPatch, algorithm: str | None) -> None:
    monkeypatch.setattr(algorithm_module, "get_spec", lambda: SimpleNamespace(speculative_algorithm=algorithm))
    one, other = request(stop=["b"]), request(stop=["b"])
    for req in (one, other):
        req.output_ids.extend(spelled("abab"))
    run_end.judge_last_token(Req.update_finish_state, one, 4)
    Req.update_finish_state(other, 4)
    assert end_of(one) == end_of(other)
    assert one.finished_len == 2


def test_every_hook_has_its_place() -> None:
    for hook in plugin.hooks():
        assert pkgutil.resolve_name(hook.target) is not None
        assert hook.kind in HookType.__members__


def test_what_is_cut_is_accepted_no_more() -> None:
    index = torch.tensor([[0, 2, 3, -1], [4, 5, -1, -1], [8, 9, 10, 11]])
    cut = Accepted(torch.arange(12), index, torch.tensor([3, 2, 4], dtype=torch.int32)).cut([3, 1, 2])
    assert cut.index.tolist() == [[0, 2, 3, -1], [4, -1, -1, -1], [8, 9, -1, -1]]
    assert (cut.lengths.tolist(), cut.lengths.dtype) == ([3, 1, 2], torch.int32)
    assert cut.predict.tolist() == list(range(12))
