"""Whose memory a request reads and writes: the name of its slot. Made once, when the request starts.

A client that sends a hint names program and slot. For one that does not, the slot is recognised by the text before the
hole.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

from sgl_spec.drafting.drafter import DraftRequest

OPENING_TOKENS = 24
CLOSING_TOKENS = 12


class SlotKey(NamedTuple):
    """Names one slot of one owner, or one program of one owner.

    Attributes:
        owner: digest of the isolation key (which may be a secret), see `owner_digest`.
        program: the program's name; empty when the client named none.
        slot: the slot's name or fingerprint; empty for the whole program.
    """

    owner: str
    program: str
    slot: str


def slot_key(request: DraftRequest) -> SlotKey:
    """The slot of `request`: by the names in its hint, else by a fingerprint of the text before the hole.

    Without names, two requests are of the same slot when a program's text around its inserted values is the same: the
    same opening (a system prompt, an instruction, few-shot examples), the same closing (the header of the answer's turn
    and what the program already began to write in it), the same schema or regex. What is between them, such as the
    user's message, is free. So the fingerprint has

    - the first OPENING_TOKENS tokens of the prompt, cut after the first token that ends a turn,
    - the last CLOSING_TOKENS tokens, cut before what stands up to the last token that ends a turn,
    - `request.constraint_key`, and the program or the slot where only one of them is named.

    The tokens that end a turn are `request.endings`: a chat template ends every turn with a token that also ends an
    answer. So neither the user's message behind a short system prompt nor its end tells two requests apart. A message
    without a system prompt before it is told apart by its first words, and a prompt without turns by its raw ends.
    Two programs taken for one share what they draft, no more: that costs some acceptance, never correctness.

    The fingerprint is the same in every process and after every restart.
    """
    owner = owner_digest(request.owner)
    if request.program and request.slot:
        return SlotKey(owner, request.program, request.slot)
    return SlotKey(owner, request.program or "", _fingerprint(request))


def program_key(key: SlotKey) -> SlotKey | None:
    """The whole program that `key` is a slot of; None without a program's name: a fingerprint stands alone."""
    return SlotKey(key.owner, key.program, "") if key.program else None


def owner_digest(owner: str) -> str:
    """What stands for an owner's isolation key in memory and on disk: 32 hexadecimal digits."""
    # A lone surrogate, which JSON can carry, must not fail the request.
    return blake2b(owner.encode("utf-8", "surrogatepass"), digest_size=16, person=b"sgl_spec owner").hexdigest()


def _fingerprint(request: DraftRequest) -> str:
    digest = blake2b(digest_size=16, person=b"sgl_spec slot")
    for tokens in (_opening(request), _closing(request)):
        digest.update(struct.pack(f"<I{len(tokens)}q", len(tokens), *tokens))
    for name in (request.constraint_key, request.program, request.slot):
        text = (name or "").encode("utf-8", "surrogatepass")
        digest.update(struct.pack("<?I", name is not None, len(text)) + text)
    return digest.hexdigest()


def _opening(request: DraftRequest) -> Sequence[int]:
    tokens = request.prompt[:OPENING_TOKENS]
    ends = (place for place, token in enumerate(tokens, 1) if token in request.endings)
    return tokens[: next(ends, len(tokens))]


def _closing(request: DraftRequest) -> Sequence[int]:
    tokens = request.prompt[-CLOSING_TOKENS:]
    starts = (place for place in range(len(tokens), 0, -1) if tokens[place - 1] in request.endings)
    return tokens[next(starts, 0) :]
