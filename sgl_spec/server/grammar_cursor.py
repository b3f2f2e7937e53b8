"""The grammar of a request, in whichever backend the server runs, as drafting's `Constraint`.

Where it stands in a round: while drafting, before the verify forward. A cursor is a copy of the backend's own matcher,
made for the round and thrown away: whatever drafting does with it, the request's grammar stays as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sglang.srt.constrained.llguidance_backend import GuidanceGrammar
from sglang.srt.constrained.reasoner_grammar_backend import ReasonerGrammarObject
from sglang.srt.constrained.xgrammar_backend import XGrammarGrammar

from sgl_spec.drafting.constraint import ConstraintCursor, Ways
from sgl_spec.server.codec import MaskBits, ServerCodec


class RequestGrammar:
    """drafting's `Constraint` over `req.grammar` (SGLang's Req)."""

    def __init__(self, req: Any, codec: ServerCodec) -> None:
        self._req = req
        self._codec = codec
        self._no_text: MaskBits | None = None

    def cursor(self) -> ConstraintCursor | None:
        grammar = self._req.grammar
        if isinstance(grammar, ReasonerGrammarObject):
            grammar = grammar.grammar if grammar._grammar_active() else None
        if grammar is None or grammar.is_terminated():
            return None
        if isinstance(grammar, XGrammarGrammar):
            if self._no_text is None:
                self._no_text = self._codec.no_text(grammar.matcher.stop_token_ids)
            return XGrammarCursor(grammar, self._codec, self._no_text)
        if isinstance(grammar, GuidanceGrammar):
            return GuidanceCursor(grammar, self._codec)
        return None  # a backend of somebody else's: its requests are drafted for as if unconstrained


class XGrammarCursor:
    """A copy of an xgrammar matcher.

    Args:
        grammar: the request's.
        codec: of its tokens.
        no_text: the tokens that are no text (special, or they end the output).
    """

    settles_tokens = False

    def __init__(self, grammar: XGrammarGrammar, codec: ServerCodec, no_text: MaskBits) -> None:
        self._matcher = grammar.matcher.fork()
        self._mask = codec.scratch_mask
        self._masked = codec.masked_bytes
        self._no_text = no_text
        self._ended = False  # an ending can only be accepted as a token

    def accept(self, token: int) -> bool:
        if self._ended or not self._matcher.accept_token(token):
            return False
        self._ended = self._matcher.is_terminated()
        return True

    def accept_bytes(self, text: bytes) -> bool:
        return not self._ended and bool(self._matcher.accept_string(text))

    def rollback(self, steps: int) -> None:
        if steps:
            self._matcher.rollback(steps)
            self._ended = False

    def forced(self) -> bytes:
        if self._ended:
            return b""
        try:
            return self._matcher.find_jump_forward_string().encode()
        except UnicodeDecodeError as error:  # it stops, or we are, inside a character
            return error.object

    def forced_tokens(self, after: Sequence[int]) -> Sequence[int]:
        return ()

    def ways(self) -> Ways:
        if self._ended:
            return Ways(b"", True)
        self._mask.fill(-1)
        self._matcher.fill_next_token_bitmask(self._mask)
        mask = self._mask[0]
        return Ways(self._masked.read(mask), bool(self._no_text.set_in(mask).any()))


class GuidanceCursor:
    """A copy of an llguidance matcher. It goes by tokens, so a text is accepted as tokens of one byte each.

    Where a text is forced, llguidance's mask leaves only the tokens its tokenizer would write it in, though its matcher
    would take others.
    """

    settles_tokens = True

    def __init__(self, grammar: GuidanceGrammar, codec: ServerCodec) -> None:
        self._matcher = grammar.ll_matcher.deep_copy()
        self._token_of = codec.token_of_byte
        self._masked = codec.masked_bytes
        self._steps: list[int] = []
        self._coming: list[int] = []  # forced tokens that are known; there may be others when this is empty

    def accept(self, token: int) -> bool:
        forced = self._coming or self._forced_tokens()
        if forced and forced[0] != token:
            return False
        if not self._consume([token]):
            return False
        self._coming = forced[1:]
        return True

    def _forced_tokens(self) -> list[int]:
        matcher = self._matcher
        return matcher.compute_ff_tokens() if not matcher.is_stopped() and matcher.compute_ff_bytes() else []

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
        self._coming = []
        return True

    def rollback(self, steps: int) -> None:
        if steps:
            self._matcher.rollback(sum(self._steps[-steps:]))
            del self._steps[-steps:]
            self._coming = []

    def forced(self) -> bytes:
        return b"" if self._matcher.is_stopped() else bytes(self._matcher.compute_ff_bytes())

    def forced_tokens(self, after: Sequence[int]) -> Sequence[int]:
        taken = self._matcher.try_consume_tokens(list(after)) if after else 0
        try:
            return self._forced_tokens() if taken == len(after) else ()
        finally:
            if taken:
                self._matcher.rollback(taken)

    def ways(self) -> Ways:
        if self._matcher.is_stopped():
            return Ways(b"", True)
        forced = self.forced()
        if forced:  # the mask there is that of one token
            return Ways(forced[:1], False)
        mask = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.int32)
        return Ways(self._masked.read(mask), bool(self._matcher.is_accepting()))
