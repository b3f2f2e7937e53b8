"""Where a request ends: the one place that cuts an accepted run.

Where it stands in a round: right after acceptance, on the host, before anything is settled. Of an accepted run only
what decoding alone would have written is kept: everything through the first token that ends the request. What is cut
here is never committed, reported, counted, cached or learned.

SGLang looks for the end of a whole run at once. It then reads more text at a time than decoding alone does (so it
finds stop strings that decoding alone has already left behind, and takes the first of several in the order in which
they are listed, not in the text), and counts reasoning tokens before it looks. So every token of a run is judged here
by itself, and by SGLang's own code: what ends a request is decided by `Req.update_finish_state` and by the request's
grammar, nowhere else. The scheduler's own check comes after, and sees only the last token kept (`judge_last_token`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from sgl_spec.server.algorithm import decodes_here


def kept_tokens(req: Any, run: Sequence[int]) -> int:
    """How many tokens of `run` decoding alone would have written after `req.output_ids`, at least 1.

    Args:
        req: a running request of SGLang; it is left as it was.
        run: the tokens a round accepted, the bonus included; at least one.
    """
    if len(run) == 1:
        return 1
    if req.grammar is not None:
        run = run[: _through_grammar_end(req.grammar, run)]
    return _through_stop(req, run)


def _through_stop(req: Any, run: Sequence[int]) -> int:
    """Tokens through the first that ends the request. The last is not asked about: it is kept in any case."""
    probe = _probe(req)
    for number, token in enumerate(run[:-1], 1):
        probe.output_ids.append(token)
        probe.update_finish_state(1)
        if probe.finished():
            return number
    return len(run)


def _probe(req: Any) -> Any:
    """A request that shares everything with `req` but its output, and so can end in its place."""
    probe = object.__new__(type(req))
    probe.__dict__.update(req.__dict__)
    probe.output_ids = req.output_ids[:]
    if req.tokenizer is not None:
        probe.tokenizer = _remembered(req.tokenizer)
    return probe


class _Remembered:
    """A tokenizer whose attributes are looked up once: a Hugging Face tokenizer takes microseconds to say which token
    ends a text, and is asked for every token."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._tokenizer, name)
        setattr(self, name, value)
        return value


@functools.lru_cache(maxsize=1)
def _remembered(tokenizer: Any) -> _Remembered:
    return _Remembered(tokenizer)


def _through_grammar_end(grammar: Any, run: Sequence[int]) -> int:
    """Tokens through the one that ends the grammar, or that it refuses: SGLang will meet that one too when it
    commits the run, and ends the request there."""
    if grammar.is_terminated():
        return 1
    accepted = 0
    try:
        for token in run[:-1]:
            grammar.accept_token(token)
            accepted += 1
            if grammar.is_terminated():
                return accepted
    except ValueError:
        return accepted + 1
    finally:
        with suppress(ValueError):  # llguidance, after it refused
            grammar.rollback(accepted)
    return len(run)


def judge_last_token(original: Callable[[Any, int], None], req: Any, new_accepted_len: int = 1) -> None:
    """Hook around `Req.update_finish_state`: all but the last of the new tokens have been judged (`kept_tokens`).

    Only where SGL_SPEC decodes: other algorithms leave the judging to SGLang.
    """
    if decodes_here():
        new_accepted_len = min(new_accepted_len, 1)
    original(req, new_accepted_len)
