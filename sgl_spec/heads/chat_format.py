"""A model's chat template, taken apart: what stands before, between and after the turns, as token ids.

Stands before any round: `generate` needs prompts as ids, turns that the model writes itself, and second turns after
answers that exist only as ids. Works for every template that puts contents into a text unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sgl_spec.errors import ConfigError
from sgl_spec.heads.body import Message

_MARKS = ("qqfirstqq", "qqanswerqq", "qqsecondqq")


class ChatFormat:
    """The chat template of one tokenizer.

    Args:
        tokenizer: of transformers, or anything with its `encode`, `apply_chat_template` and `chat_template`.

    Raises:
        ConfigError: the template changes what it is given, so that turns cannot be found in its text.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._has_template = tokenizer.chat_template is not None
        first, answer, second = _MARKS
        turns = (Message("user", first), Message("assistant", answer), Message("user", second))
        whole = self._render(turns)
        pieces = _split(whole, _MARKS)
        self._to_assistant, self._to_user = pieces[1], pieces[2]
        if pieces[3] != pieces[1]:
            raise ConfigError(
                f"the chat template ends a user's turn once with {pieces[1]!r} and once with {pieces[3]!r}; "
                f"wanted one that ends every turn alike"
            )
        self.takes_system = self._try_system()

    @property
    def turn_end(self) -> int:
        """The token that ends a user's turn."""
        return self.encode(self._to_assistant)[0]

    def encode(self, text: str) -> list[int]:
        """Ids of `text` as it stands; special tokens written in it count as such, and none is added."""
        return [int(token) for token in self._tokenizer.encode(text, add_special_tokens=False)]

    def prompt(self, messages: Sequence[Message]) -> list[int]:
        """Ids of a chat up to where the assistant's answer begins."""
        return self.encode(self._render(self._accepted(messages)))

    def opened(self, messages: Sequence[Message]) -> list[int]:
        """Ids of a chat whose last turn, the user's, is only begun with its content."""
        *before, last = self._accepted(messages)
        text = self._render((*before, Message(last.role, _MARKS[0])))
        return self.encode(_split(text, _MARKS[:1])[0] + last.content)

    def to_assistant(self) -> list[int]:
        """Ids that follow a user's turn, up to where the answer begins."""
        return self.encode(self._to_assistant)

    def to_user(self) -> list[int]:
        """Ids that follow an answer, up to where the user's next turn begins."""
        return self.encode(self._to_user)

    def _accepted(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """A system message goes in front of the first turn where the template has no place for one."""
        if self.takes_system or messages[0].role != "system":
            return tuple(messages)
        system, first, *rest = messages
        return (Message(first.role, f"{system.content}\n\n{first.content}"), *rest)

    def _render(self, messages: Sequence[Message]) -> str:
        if not self._has_template:
            return "".join(message.content + "\n" for message in messages)  # a base model goes on with the text
        turns = [message._asdict() for message in messages]
        return str(self._tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True))

    def _try_system(self) -> bool:
        try:
            text = self._render((Message("system", _MARKS[2]), Message("user", _MARKS[0])))
        except Exception:  # templates refuse with whatever jinja raises
            return False
        return _MARKS[2] in text


def _split(text: str, marks: Sequence[str]) -> list[str]:
    """The text around the marks, which it must hold once each and in this order."""
    pieces = []
    for mark in marks:
        before, found, text = text.partition(mark)
        if not found or mark in text:
            raise ConfigError(f"the chat template does not keep a turn's content as it is: {mark!r} is not in it once")
        pieces.append(before)
    return [*pieces, text]
