"""Parameters that belong to nobody's program, a row of the matrix each.

Stands outside a round: every row is a request whose parameters reach into verification (penalties, biases, masks,
filters), into where a run is cut (stops, limits, ends), or into what is told of it (logprobs, streams, special tokens).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from sgl_spec.cli.check.prompts import Prompt
from sgl_spec.cli.check.source import ROW, Call, Source

Params = dict[str, Any]

_SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 20},
            "age": {"type": "integer", "minimum": 0, "maximum": 120},
            "city": {"enum": ["Paris", "Oslo", "Rome"]},
            "friends": {"type": "array", "items": {"type": "string", "maxLength": 12}, "maxItems": 3},
        },
        "required": ["name", "age", "city", "friends"],
        "additionalProperties": False,
    }
)
_REGEX = r"name: [A-Z][a-z]{1,12}\nborn: [12][0-9]{3}-[01][0-9]-[0-3][0-9]\ncity: (Paris|Oslo|Rome)\n"
_EBNF = 'root ::= item ("\\n" item)* "\\nend."\nitem ::= "- " [a-z]+ " costs " [0-9]+ " euros"'
_CHOICES = "(yes, certainly|yes, perhaps|no, never|no, not today)"
_PENALTIES = {"frequency_penalty": 0.4, "presence_penalty": 0.3, "repetition_penalty": 1.15}
_FILTERS = {"top_k": 40, "top_p": 0.9, "min_p": 0.02}


class Row(NamedTuple):
    """One row.

    Attributes:
        name: what the result calls it.
        prompts: names of the prompts it is tried on.
        params: its sampling parameters; a function of the prompt where they need the model's tokens.
        tokens: max_new_tokens.
        beside: fields of the request beside the sampling parameters.
        sampled_only: no sense at temperature 0.
    """

    name: str
    prompts: tuple[str, ...]
    params: Params | Callable[[Prompt], Params]
    tokens: int = 64
    beside: Params | Callable[[Prompt], Params] = {}  # noqa: RUF012 (never changed)
    sampled_only: bool = False


_TEXTS = ("quote", "code")
_ENDING = ("quote", "unicode")  # short answers: the model ends them itself
ROWS = (
    Row("plain", ("quote", "story", "people", "code"), {}, tokens=128),
    # What changes the logits, by the path to a node or everywhere.
    Row("frequency_penalty", ("records", "code"), {"frequency_penalty": 0.8}),
    Row("frequency_penalty below 0", _TEXTS, {"frequency_penalty": -0.5}, tokens=40),
    Row("presence_penalty", ("records", "code"), {"presence_penalty": 0.8}),
    Row("repetition_penalty", ("records", "quote"), {"repetition_penalty": 1.3}),
    Row("all penalties", _TEXTS, _PENALTIES),
    Row("min_new_tokens before a stop token", _TEXTS,
        lambda p: {"min_new_tokens": 24, "stop_token_ids": [p.token(6)]}, tokens=48),
    Row("min_new_tokens before the end", _ENDING, {"min_new_tokens": 60}, tokens=72),
    Row("logit_bias forbids", _TEXTS, lambda p: {"logit_bias": {str(p.token(n)): -100.0 for n in (0, 9, 17)}}),
    Row("logit_bias favours", _TEXTS, lambda p: {"logit_bias": {str(p.token(n)): 3.0 for n in (5, 12)}}, tokens=40),
    # Where a run is cut.
    Row("stop inside a token", _TEXTS, lambda p: {"stop": [p.piece(31)]}),
    Row("several stops", _TEXTS, lambda p: {"stop": [p.piece(90), "<never>", p.piece(57, 9), p.piece(58, 2)]}),
    Row("no_stop_trim", _TEXTS, lambda p: {"stop": [p.piece(40, 7)], "no_stop_trim": True}, tokens=48),
    Row("stop_token_ids", _TEXTS, lambda p: {"stop_token_ids": [p.token(11), p.token(14)]}),
    Row("stop_regex", _TEXTS, lambda p: {"stop_regex": [re.escape(p.piece(52, 3)) + ".", r"\d{7}"]}),
    Row("ignore_eos", _ENDING, {"ignore_eos": True}, tokens=80),
    Row("max_new_tokens 1", _TEXTS, {}, tokens=1),
    Row("max_new_tokens 2", _TEXTS, {}, tokens=2),
    Row("max_new_tokens 17", _TEXTS, {}, tokens=17),
    # Grammars: a mask at every node, and an end of its own.
    Row("json_schema", ("people", "records"), {"json_schema": _SCHEMA}, tokens=96),
    Row("regex", ("story", "records"), {"regex": _REGEX}),
    Row("ebnf", ("story", "quote"), {"ebnf": _EBNF}, tokens=48),
    Row("choices", ("story", "people"), {"regex": _CHOICES}, tokens=32),
    Row("json_schema and all penalties", ("people", "records"), {"json_schema": _SCHEMA, **_PENALTIES}),
    Row("regex and a stop inside it", ("story", "records"), {"regex": _REGEX, "stop": ["\ncity"]}),
    # Sampling.
    Row("top_k", _TEXTS, {"top_k": 8}, sampled_only=True),
    Row("top_p", _TEXTS, {"top_p": 0.8}, sampled_only=True),
    Row("min_p", _TEXTS, {"min_p": 0.1}, sampled_only=True),
    Row("top_k, top_p and min_p", _TEXTS, _FILTERS, sampled_only=True),
    Row("n = 3", _TEXTS, {"n": 3}, tokens=32),
    # What is told about an answer.
    Row("top_logprobs_num", ("people", "quote"), {}, 40, {"return_logprob": True, "top_logprobs_num": 3}),
    Row("token_ids_logprob", _TEXTS, {}, 40,
        lambda p: {"return_logprob": True, "token_ids_logprob": [p.token(2), p.token(8)]}),
    Row("logprobs of the prompt, with text", _TEXTS, {}, 24,
        {"return_logprob": True, "logprob_start_len": 0, "return_text_in_logprobs": True}),
    Row("stream", ("quote", "unicode"), {}, 80, {"stream": True}),
    Row("stream and a stop", _TEXTS, lambda p: {"stop": [p.piece(44, 6)]}, beside={"stream": True}),
    Row("skip_special_tokens off", _ENDING, {"skip_special_tokens": False}, tokens=80),
    Row("everything at once", _TEXTS, lambda p: {
        **_PENALTIES, **_FILTERS, "min_new_tokens": 12, "logit_bias": {str(p.token(4)): -2.0},
        "stop": [p.piece(70, 4)], "stop_token_ids": [p.token(20)]},
        56, {"return_logprob": True, "top_logprobs_num": 2}),
)  # fmt: skip


def row_source(row: Row, prompts: Mapping[str, Prompt]) -> Source:
    """The row's requests, one for each of its prompts."""
    calls = tuple(Call(name, _body(row, prompts[name])) for name in row.prompts)
    return Source(row.name, ROW, calls, row.sampled_only)


def _body(row: Row, prompt: Prompt) -> dict[str, Any]:
    params = row.params(prompt) if callable(row.params) else row.params
    beside = row.beside(prompt) if callable(row.beside) else row.beside
    return {"text": prompt.text, "sampling_params": {"max_new_tokens": row.tokens, **params}, **beside}
