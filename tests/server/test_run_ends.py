"""Where a request ends, with runs of many tokens across the place: as a server without speculation ends it, and as ours
does with drafts switched off. (`tests/contract/test_run_end.py` tries what ends a request far more widely.)"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from client import CODE, OFF, QUOTE, Server, account, chat

UNICODE = "東京 🦊 naïve €\n" * 4
DAY = chat("What day is it?")
REGEX = r"Today is (Monday|Tuesday), the [0-9]{2}(st|nd|rd|th)\."
PROMPTS = (QUOTE, UNICODE, CODE, DAY)


class Edge(NamedTuple):
    """inside: the last run is cut: it would go on after the end."""

    prompt: str
    params: dict[str, Any]
    inside: bool = True


# To QUOTE the model says "A reader may borrow up to eight books at a time and keep each of them for three weeks."
EDGES = {
    "a stop string": Edge(QUOTE, {"stop": ["three weeks"]}),
    "a stop string within tokens": Edge(QUOTE, {"stop": ["ime a"]}),
    "the later in the text is first in the list": Edge(QUOTE, {"stop": ["weeks", "three"]}),
    "overlapping stop strings": Edge(QUOTE, {"stop": ["ght books at", "books a", "t b"]}),
    "a stop string that comes again": Edge(QUOTE, {"stop": ["ee"], "no_stop_trim": True}),
    "a stop string of several characters, each of several tokens": Edge(UNICODE, {"stop": ["京 🦊"]}),
    "a stop regex": Edge(QUOTE, {"stop_regex": ["we", "three w"]}),
    "an anchored stop regex": Edge(QUOTE, {"stop_regex": "[a-z]+ weeks$"}),
    "a stop token": Edge(QUOTE, {"stop_token_ids": [282]}, inside=False),  # " of", which is never drafted then
    "the end of the text": Edge(QUOTE, {}, inside=False),
    "the end of the text ignored": Edge(QUOTE, {"ignore_eos": True, "max_new_tokens": 44}, inside=False),
    "one token": Edge(CODE, {"max_new_tokens": 1}, inside=False),
    "two tokens": Edge(CODE, {"max_new_tokens": 2}, inside=False),
    "as many tokens as fit a tree": Edge(CODE, {"max_new_tokens": 17}, inside=False),
    "one more": Edge(CODE, {"max_new_tokens": 18}, inside=False),
    "a stop string in a grammar": Edge(DAY, {"regex": REGEX, "stop": [", t"]}),
    "a grammar's end": Edge(DAY, {"regex": REGEX}, inside=False),
}


class Answers(NamedTuple):
    drafted: dict[str, Any]
    alone: dict[str, Any]
    stock: dict[str, Any]


@pytest.fixture(scope="module")
def answers(on: Server, off: Server) -> dict[str, Answers]:
    """Every edge with what the model would say drafted, with nothing drafted, and of the server without speculation."""
    whole = off.generate_all([{"prompt": prompt} for prompt in PROMPTS])
    texts = {prompt: answer["text"] for prompt, answer in zip(PROMPTS, whole, strict=True)}
    calls = [{"prompt": edge.prompt, **edge.params} for edge in EDGES.values()]
    told = [{"sgl_spec": {"version": 1, "memory": "off", "predict": texts[call["prompt"]]}} for call in calls]
    drafted = on.generate_all([{**call, "custom_params": hint} for call, hint in zip(calls, told, strict=True)])
    alone = on.generate_all([{**call, "custom_params": OFF} for call in calls])
    stock = off.generate_all(calls)
    return {name: Answers(*three) for name, *three in zip(EDGES, drafted, alone, stock, strict=True)}


@pytest.mark.parametrize("name", EDGES)
def test_it_ends_where_decoding_alone_ends(answers: dict[str, Answers], name: str) -> None:
    drafted, alone, stock = answers[name]
    for other in (alone, stock):
        assert (drafted["output_ids"], drafted["text"]) == (other["output_ids"], other["text"])
        for field in ("finish_reason", "completion_tokens", "prompt_tokens", "reasoning_tokens"):
            assert drafted["meta_info"][field] == other["meta_info"][field]
    counts = account(drafted)
    assert counts["tokens"] == drafted["meta_info"]["completion_tokens"] - 1
    # A run of accepted drafts ends in a bonus, unless it is cut.
    assert counts["rounds"] + counts["accepted"]["all"] - counts["tokens"] == EDGES[name].inside


def test_tokens_after_the_end_are_not_cached(on: Server, off: Server) -> None:
    """A later prompt that goes on as the cut run did shares with the cache what a request decoded alone left there."""
    text = off.generate(QUOTE)["text"]
    hint = {"sgl_spec": {"version": 1, "predict": text}}
    shared = []
    for server, custom, key in ((on, hint, "cut"), (on, OFF, "alone"), (off, {}, "stock")):
        ended = server.generate(QUOTE, stop=["at a time"], custom_params=custom, request_extra_key=key)
        later = server.generate(QUOTE + text, max_new_tokens=1, custom_params=custom, request_extra_key=key)
        shared.append((ended["output_ids"], later["meta_info"]["cached_tokens"]))
        assert len(ended["output_ids"]) > 4
    assert shared[0] == shared[1] == shared[2]
