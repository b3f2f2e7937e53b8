"""Lets a server answer prompts, many at once, and keeps the answers as samples.

Stands before any round; the server may speculate or not, its text is the target's either way. Prompts are answered
side by side but kept in order, so a folder's content depends on its settings alone: not on the number of workers, nor
on how often the run was interrupted. A killed run loses at most the prompts of one unfinished shard.
"""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, Protocol

import numpy as np

from sgl_spec.heads.body import MODEL_WRITES
from sgl_spec.heads.chat_format import ChatFormat
from sgl_spec.heads.data_settings import DataSettings
from sgl_spec.heads.prompts import Prompt, make_prompt
from sgl_spec.heads.sample_folder import SampleFolder
from sgl_spec.heads.samples import Sample, Shard, Span, answer_tokens

TURN_TEMPERATURE = 0.9  # of the turns that the model writes in the user's place
TOP_P = 0.92  # of everything that is sampled
SHORTEST_ANSWER = 4
# Equal answers to different prompts are dropped from this length on: short ones ("Yes.") are rightly frequent.
TELLING_ANSWER = 24
SHARD_PROMPTS = 96
_ANSWER_SEEDS = 1000  # answers and turns of one prompt are sampled with seeds of their own
_AHEAD = 4  # prompts in flight or done per worker: the oldest may be slow without the others waiting for it


class Completion(NamedTuple):
    """A request: go on after `ids`. seed: for sampling; stop: strings that end it; stop_ids: tokens that do."""

    ids: tuple[int, ...]
    max_tokens: int
    temperature: float
    seed: int
    top_p: float = 1.0
    stop: tuple[str, ...] = ()
    stop_ids: tuple[int, ...] = ()


class Completed(NamedTuple):
    """An answer: its tokens (the one that ended it included), and whether it ended before its limit."""

    ids: tuple[int, ...]
    ended: bool


class Completer(Protocol):
    """A server. Called from several threads."""

    def complete(self, request: Completion) -> Completed:
        """The model's continuation."""


class Dropped(NamedTuple):
    """A prompt that gave no sample, and why."""

    reason: str


Outcome = Sample | Dropped
Progress = Callable[["Made"], None]


class Made(NamedTuple):
    """How far generation is: answer tokens kept so far, samples kept, and why others were dropped."""

    tokens: int
    samples: int
    dropped: dict[str, int]


def generate(
    folder: SampleFolder,
    completer: Completer,
    chat: ChatFormat,
    tokens: int,
    workers: int,
    progress: Progress = lambda made: None,
) -> Made:
    """Adds samples to the folder until it holds `tokens` answer tokens.

    Args:
        folder: where to go on.
        completer: who answers.
        chat: the chat template of the model that answers.
        tokens: answer tokens wanted in all, those already there included.
        workers: requests in flight at once.
        progress: called after each prompt.
    """
    book = _Book(folder)
    progress(book.made())
    with ThreadPoolExecutor(workers) as pool:
        outcomes = _in_order(pool, book.next_number, workers, _Maker(folder.settings, completer, chat).make)
        try:
            while book.tokens < tokens:
                book.enter(next(outcomes))
                progress(book.made())
        finally:
            outcomes.close()
            pool.shutdown(wait=False, cancel_futures=True)
            book.close()
    return book.made()


def _in_order(
    pool: ThreadPoolExecutor, first: int, workers: int, make: Callable[[int], Outcome]
) -> Generator[Outcome, None, None]:
    """make(first), make(first + 1), ... without end, some of them already running ahead."""
    running: deque[Future[Outcome]] = deque()
    number = first
    while True:
        while len(running) < _AHEAD * workers:
            running.append(pool.submit(make, number))
            number += 1
        yield running.popleft().result()


class _Maker:
    """Turns the number of a prompt into a sample."""

    def __init__(self, settings: DataSettings, completer: Completer, chat: ChatFormat) -> None:
        self._settings, self._completer, self._chat = settings, completer, chat
        self._turn_end = chat.turn_end

    def make(self, number: int) -> Outcome:
        prompt = make_prompt(self._settings.seed, number, self._settings.held_share)
        ids = self._begin(prompt)
        if isinstance(ids, Dropped):
            return ids
        spans = [self._answer(prompt, ids, 0)]
        for turn, user in enumerate(prompt.body.later, 1):
            between = self._later_turn(prompt, ids, user, turn)
            if between is None:
                break
            ids += between
            spans.append(self._answer(prompt, ids, turn))
        if min(span.end - span.start for span in spans) < SHORTEST_ANSWER:
            return Dropped("short answer")
        kept = np.array(ids, dtype=np.int64)
        return Sample(kept, tuple(spans), prompt.kind, number, prompt.held_out, prompt.temperature)

    def _begin(self, prompt: Prompt) -> list[int] | Dropped:
        """The prompt's ids, up to where the first answer begins."""
        body = prompt.body
        if body.text:
            ids = self._chat.encode(body.text)
        elif body.open_user:
            opened = self._chat.opened(body.messages)
            written = self._written_turn(opened, _seed(prompt, 0))
            if written is None:
                return Dropped("user turn without end")
            ids = opened + written + self._chat.to_assistant()
        else:
            ids = self._chat.prompt(body.messages)
        return ids if len(ids) <= self._settings.prompt_tokens else Dropped("long prompt")

    def _written_turn(self, ids: Sequence[int], seed: int) -> list[int] | None:
        """A user's turn by the model, without the token that ends it; None when it does not end."""
        request = Completion(
            tuple(ids), self._settings.turn_tokens, TURN_TEMPERATURE, seed, TOP_P, stop_ids=(self._turn_end,)
        )
        completed = self._completer.complete(request)
        tokens = list(completed.ids)
        if not completed.ended or len(tokens) < 2:
            return None
        return tokens[: tokens.index(self._turn_end)] if self._turn_end in tokens else None

    def _later_turn(self, prompt: Prompt, ids: list[int], user: str, turn: int) -> list[int] | None:
        """What stands between an answer and the next one; None when the chat ends here."""
        if ids[-1] != self._turn_end:
            return None
        between = self._chat.to_user()
        # The answer ended with the token that the template, too, puts there.
        between = between[1:] if between and ids[-1] == between[0] else between
        if user is not MODEL_WRITES and user:
            written: list[int] | None = self._chat.encode(user)
        else:
            written = self._written_turn([*ids, *between], _seed(prompt, turn))
        if written is None or len(ids) + len(between) + len(written) > self._settings.prompt_tokens:
            return None
        return [*between, *written, *self._chat.to_assistant()]

    def _answer(self, prompt: Prompt, ids: list[int], turn: int) -> Span:
        """Adds an answer to `ids`."""
        request = Completion(
            tuple(ids), self._settings.answer_tokens, prompt.temperature, _seed(prompt, _ANSWER_SEEDS + turn),
            TOP_P, stop=prompt.body.stop, stop_ids=(self._turn_end,),
        )  # fmt: skip
        completed = self._completer.complete(request)
        start = len(ids)
        ids += completed.ids
        return Span(start, len(ids))


def _seed(prompt: Prompt, number: int) -> int:
    return (prompt.seed + number) % 2**31


class _Book:
    """Enters outcomes in order: drops duplicates, counts, and writes shards."""

    def __init__(self, folder: SampleFolder) -> None:
        self._folder = folder
        self.next_number = self.tokens = self._samples = 0
        self._dropped: Counter[str] = Counter()
        self._seen: set[bytes] = set()
        self._open: list[Sample] = []
        self._opened_at = 0
        for shard in folder.shards():
            self.next_number = shard.next_number
            for sample in shard.samples:
                self._count(sample)
                self._seen.update(_marks(sample))
        self._opened_at = self.next_number

    def enter(self, outcome: Outcome) -> None:
        self.next_number += 1
        if isinstance(outcome, Sample) and not self._seen.isdisjoint(_marks(outcome)):
            outcome = Dropped("duplicate")
        if isinstance(outcome, Dropped):
            self._dropped[outcome.reason] += 1
        else:
            self._seen.update(_marks(outcome))
            self._count(outcome)
            self._open.append(outcome)
        if self.next_number - self._opened_at >= SHARD_PROMPTS:
            self.close()

    def close(self) -> None:
        """Writes what is not written yet."""
        if self.next_number > self._opened_at:
            self._folder.append(Shard(tuple(self._open), self.next_number))
            self._open, self._opened_at = [], self.next_number

    def made(self) -> Made:
        return Made(self.tokens, self._samples, dict(self._dropped))

    def _count(self, sample: Sample) -> None:
        self.tokens += answer_tokens([sample])
        self._samples += 1


def _marks(sample: Sample) -> list[bytes]:
    """What makes a sample a duplicate: the same prompt answered greedily again, or the same long answer."""
    first = sample.spans[0]
    answer = sample.ids[first.start : first.end].tobytes()
    marks = [_digest(b"whole", sample.ids[: first.start].tobytes(), answer)]
    if sample.temperature == 0:
        marks.append(_digest(b"prompt", sample.ids[: first.start].tobytes()))
    if first.end - first.start >= TELLING_ANSWER:
        marks.append(_digest(b"answer", answer))
    return marks


def _digest(*parts: bytes) -> bytes:
    return hashlib.blake2b(b"\0".join(parts), digest_size=12).digest()
