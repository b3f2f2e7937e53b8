"""The prompts of the parameter rows, and what the served model says to them when nobody drafts.

Stands outside a round. A row that is to stop in the middle of a token or to forbid what the model wants must know its
tokens; they are the model's own, so that the rows mean something for any model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import NamedTuple

from sgl_spec.cli.check.answer import Send
from sgl_spec.cli.check.matrix import OFF

Chat = Callable[[str], str]
LEARNED_TOKENS = 32  # of an answer

_ASKED = {
    "quote": (
        "A reader may borrow up to eight books at a time and keep each of them for three weeks. A loan can be renewed "
        "twice, unless another reader has asked for the same book.\n\nRepeat this text word for word."
    ),
    "story": "Tell me a short story about a fox and a river.",
    "people": "Write a JSON array of five people with the fields name, age and city.",
    "unicode": 'Repeat this line three times: "naïve café, 東京, Überraschung, 🦊🐻"',
}
_CONTINUED = {
    "code": (
        "def fib(n):\n    if n < 2:\n        return n\n    return fib(n - 1) + fib(n - 2)\n\n"
        "def fib_memo(n, memo={}):\n"
    ),
    "records": (
        '{"name": "Anna", "age": 31, "city": "Oslo"}\n{"name": "Bob", "age": 42, "city": "Paris"}\n'
        '{"name": "Carla", "age": 28, "city": "Rome"}\n'
    ),
}  # fmt: skip
NAMES = (*_ASKED, *_CONTINUED)


class Prompt(NamedTuple):
    """A prompt and the answer that rows are made from.

    Attributes:
        name: one of NAMES.
        text: as the server gets it, chat template included.
        ids: token ids of the model's greedy answer, at most LEARNED_TOKENS; never empty.
        answer: the text of these.
    """

    name: str
    text: str
    ids: tuple[int, ...]
    answer: str

    def token(self, place: int) -> int:
        """The answer's token there, or its last one."""
        return self.ids[min(place, len(self.ids) - 1)]

    def piece(self, place: int, length: int = 5) -> str:
        """`length` characters of the answer from `place` on, or its last ones: hardly ever whole tokens."""
        start = max(0, min(place, len(self.answer) - length))
        return self.answer[start : start + length] or "."


class Learned(NamedTuple):
    """The prompts, or the server's message where it did not answer them."""

    prompts: Mapping[str, Prompt]
    failure: str | None = None


def learn(send: Send, chat: Chat, extra_key: str) -> Learned:
    """Asks the model all prompts at once, without drafts. `chat` makes a user's message a prompt."""
    texts = {name: chat(text) for name, text in _ASKED.items()} | _CONTINUED
    params = {"temperature": 0, "max_new_tokens": LEARNED_TOKENS, **OFF}
    bodies = [{"text": text, "sampling_params": params, "extra_key": extra_key} for text in texts.values()]
    with ThreadPoolExecutor(len(texts)) as pool:
        replies = list(pool.map(send, bodies))
    failure = next((reply.failure for reply in replies if reply.failure is not None), None)
    if failure is not None:
        return Learned({}, failure)
    prompts = {}
    for (name, text), reply in zip(texts.items(), replies, strict=True):
        answer = reply.answers[0]
        if not answer.output_ids:
            return Learned({}, f"the answer to the prompt {name!r} has no output_ids; they are what is compared")
        prompts[name] = Prompt(name, text, answer.output_ids, answer.text)
    return Learned(MappingProxyType(prompts))
