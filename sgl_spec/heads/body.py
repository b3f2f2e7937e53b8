"""What a prompt is made of, before any model or chat template. See `prompts` for who draws it."""

from __future__ import annotations

from typing import NamedTuple

MODEL_WRITES = ""  # a user's turn that the model itself is to write


class Message(NamedTuple):
    """One turn of a chat; role is "system", "user" or "assistant"."""

    role: str
    content: str


class Body(NamedTuple):
    """Either a chat or a plain text, and what happens after the first answer.

    Attributes:
        messages: of a chat; the last one is the user's.
        text: of a plain completion; exactly one of `messages` and `text` is given.
        open_user: the last user's turn is only begun with its content, and the model writes the rest of it.
        later: further user's turns, each answered; `MODEL_WRITES` lets the model write the turn.
        stop: strings that end an answer, beside the end of a turn.
    """

    messages: tuple[Message, ...] = ()
    text: str = ""
    open_user: bool = False
    later: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()


def asks(user: str, system: str | None = None, later: tuple[str, ...] = ()) -> Body:
    """A chat of one question."""
    head = () if system is None else (Message("system", system),)
    return Body((*head, Message("user", user)), later=later)
