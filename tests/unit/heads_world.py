"""What the tests of `heads` share: a tokenizer of characters, a model that is a hash function, random samples."""

from __future__ import annotations

import hashlib
import random
from typing import Any

import numpy as np

from sgl_spec.heads.generate import Completed, Completion
from sgl_spec.heads.samples import Sample, Span

START, END = 256, 257
VOCABULARY = 300
KINDS = ("chat", "math", "edit")


class Characters:
    """A tokenizer whose tokens are the characters below 256, and the two marks of ChatML."""

    chat_template: str | None = "chatml"
    takes_system = True

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        assert not add_special_tokens
        ids: list[int] = []
        for number, part in enumerate(text.split("<|im_")):
            for mark, token in (("start|>", START), ("end|>", END)) if number else ():
                if part.startswith(mark):
                    ids.append(token)
                    part = part.removeprefix(mark)
            ids += [ord(char) for char in part]
        return ids

    def apply_chat_template(self, turns: list[dict[str, str]], tokenize: bool, add_generation_prompt: bool) -> str:
        assert add_generation_prompt
        assert not tokenize
        if turns[0]["role"] == "system" and not self.takes_system:
            raise ValueError("no system turns here")
        said = "".join(f"<|im_start|>{turn['role']}\n{turn['content']}<|im_end|>\n" for turn in turns)
        return said + "<|im_start|>assistant\n"


class HashModel:
    """Goes on with letters that depend on everything asked, and ends turns by itself.

    calls: the requests so far; fail_at: the call that raises.
    """

    def __init__(self, fail_at: int | None = None) -> None:
        self.calls: list[Completion] = []
        self._fail_at = fail_at

    def complete(self, request: Completion) -> Completed:
        self.calls.append(request)
        if len(self.calls) - 1 == self._fail_at:
            raise KeyboardInterrupt
        rng = random.Random(hashlib.sha256(repr(request).encode()).digest())
        length = rng.randint(1, 40)
        ids = [rng.randint(97, 122) for _ in range(min(length, request.max_tokens))]
        if length < request.max_tokens and request.stop_ids:
            return Completed((*ids, request.stop_ids[0]), True)
        return Completed(tuple(ids), False)


def random_sample(rng: random.Random, number: int = 0, **changed: Any) -> Sample:
    """A sample of up to 60 tokens with one or two answers of at least 4 tokens."""
    spans, at = [], rng.randint(1, 8)
    for _ in range(rng.randint(1, 2)):
        end = at + rng.randint(4, 20)
        spans.append(Span(at, end))
        at = end + rng.randint(0, 6)
    ids = np.array([rng.randrange(VOCABULARY) for _ in range(at)], dtype=np.int64)
    made = Sample(ids, tuple(spans), rng.choice(KINDS), number, rng.random() < 0.2, rng.choice((0.0, 0.7)))
    return made._replace(**changed)


def same(one: Sample, other: Sample) -> bool:
    return one._replace(ids=None) == other._replace(ids=None) and one.ids.tolist() == other.ids.tolist()  # type: ignore[arg-type]
