"""The grammar of a request, in whichever backend the server runs, as drafting's `Constraint`.

Where it stands in a round: while drafting, before the verify forward. A cursor is a copy of the backend's own matcher,
made for the round and thrown away: whatever drafting does with it, the request's grammar stays as it was.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sglang.srt.constrained.llguidance_backend import GuidanceGrammar
from sglang.srt.constrained.reasoner_grammar_backend import ReasonerGrammarObject
from sglang.srt.constrained.xgrammar_backend import XGrammarGrammar

from sgl_spec.drafting.constraint import ConstraintCursor, Ways
from sgl_spec.server.codec import ServerCodec


class RequestGrammar:
    """drafting's `Constraint` over `req.grammar` (SGLang's Req)."""

    def __init__(self, req: Any, codec: ServerCodec) -> None:
        self._req = req
        self._codec = codec

    def cursor(self) -> ConstraintCursor | None:
        grammar = self._req.grammar
        if isinstance(grammar, ReasonerGrammarObject):
            grammar = grammar.grammar if grammar._grammar_active() else None
        if grammar is None or grammar.is_terminated():
            return None
        if isinstance(grammar, XGrammarGrammar):
            return XGrammarCursor(grammar, self._codec)
        if isinstance(grammar, GuidanceGrammar):
            return GuidanceCursor(grammar, self._codec)
        return None  # a backend of somebody else's: its requests are drafted for as if unconstrained


class XGrammarCursor:
    """A copy of an xgrammar matcher."""

    def __init__(self, grammar: XGrammarGrammar, codec: ServerCodec) -> None:
        self._matcher = grammar.matcher.fork()
        self._mask = codec.scratch_mask
        self._masked = codec.masked_bytes

    def accept(self, token: int) -> bool:
        return bool(not self._matcher.is_terminated() and self._matcher.accept_token(token))

    def accept_bytes(self, text: bytes) -> bool:
        return bool(not self._matcher.is_terminated() and self._matcher.accept_string(text))

    def rollback(self, steps: int) -> None:
        if steps:
            self._matcher.rollback(steps)

    def forced(self) -> bytes:
        if self._matcher.is_terminated():
            return b""
        return self._matcher.find_jump_forward_string().encode()

    def ways(self) -> Ways:
        if self._matcher.is_terminated():
            return Ways(b"", True)
        self._mask.fill(-1)
        self._matcher.fill_next_token_bitmask(self._mask)
        mask = self._mask[0]
        end = any(int(mask[token >> 5]) >> (token & 31) & 1 for token in self._matcher.stop_token_ids)
        return Ways(self._masked.read(mask), end)


class GuidanceCursor:
    """A copy of an llguidance matcher. It goes by tokens, so a text is accepted as tokens of one byte each."""

    def __init__(self, grammar: GuidanceGrammar, codec: ServerCodec) -> None:
        self._matcher = grammar.ll_matcher.deep_copy()
        self._token_of = codec.token_of_byte
        self._masked = codec.masked_bytes
        self._steps: list[int] = []

    def accept(self, token: int) -> bool:
        return self._consume([token])

    def accept_bytes(self, text: bytes) -> bool:
        tokens = [self._token_of.get(byte) for byte in text]
        return None not in tokens and self._consume(tokens)

    def _consume(self, tokens: list[Any]) -> bool:
        matcher = self._matcher
        if matcher.is_stopped() or matcher.is_error():
            return False
        taken = matcher.try_consume_tokens(tokens)
        if taken < len(tokens):
            matcher.rollback(taken)
            return False
        self._steps.append(taken)
        return True

    def rollback(self, steps: int) -> None:
        if steps:
            self._matcher.rollback(sum(self._steps[-steps:]))
            del self._steps[-steps:]

    def forced(self) -> bytes:
        return b"" if self._matcher.is_stopped() else bytes(self._matcher.compute_ff_bytes())

    def ways(self) -> Ways:
        if self._matcher.is_stopped():
            return Ways(b"", True)
        mask = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.int32)
        return Ways(self._masked.read(mask), bool(self._matcher.is_accepting()))
