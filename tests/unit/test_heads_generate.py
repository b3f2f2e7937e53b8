"""Generation: the same samples whatever the workers and interruptions, no duplicates, chats taken apart correctly."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from sgl_spec.errors import ConfigError
from sgl_spec.heads import generate as module
from sgl_spec.heads.body import Body, Message, asks
from sgl_spec.heads.chat_format import ChatFormat
from sgl_spec.heads.data_settings import DataSettings
from sgl_spec.heads.generate import Completed, Completion, Made, generate
from sgl_spec.heads.prompts import Prompt
from sgl_spec.heads.sample_folder import SampleFolder
from sgl_spec.heads.samples import Sample
from tests.unit.heads_world import END, START, VOCABULARY, Characters, HashModel, same

CHAT = ChatFormat(Characters())


def _folder(path: Path, **changed: int) -> SampleFolder:
    settings = {"answer_tokens": 30, "turn_tokens": 30, "prompt_tokens": 3000, **changed}
    return SampleFolder.create(path, DataSettings("hash", VOCABULARY, **settings))  # type: ignore[arg-type]


def _samples(folder: SampleFolder) -> list[Sample]:
    return [sample for shard in folder.shards() for sample in shard.samples]


def _text(ids: list[int]) -> str:
    return "".join({START: "<", END: ">"}.get(token, chr(token)) for token in ids)


def test_content_depends_on_neither_workers_nor_interruptions(tmp_path: Path) -> None:
    quick, slow = _folder(tmp_path / "quick"), _folder(tmp_path / "slow")
    made = generate(quick, HashModel(), CHAT, 4000, workers=7)
    for fail_at in (3, 40, 95):
        with pytest.raises(KeyboardInterrupt):
            generate(slow, HashModel(fail_at), CHAT, 4000, workers=2)
    generate(slow, HashModel(), CHAT, 4000, workers=1)

    samples = _samples(quick)
    assert made.tokens == sum(sample.answer_tokens for sample in samples) >= 4000
    assert made.samples == len(samples) > 100
    assert len(_samples(slow)) == len(samples)
    assert all(map(same, samples, _samples(slow)))
    assert len(list(slow.shards())) > len(list(quick.shards()))


def test_an_interrupted_run_keeps_what_it_has(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        generate(folder, HashModel(fail_at=60), CHAT, 10**6, workers=1)
    kept = _samples(folder)
    assert len(kept) > 20
    progress: list[Made] = []
    generate(folder, HashModel(), CHAT, 1, workers=1, progress=progress.append)
    assert [made.samples for made in progress] == [len(kept)], "enough is there: nobody is asked"


def test_more_tokens_go_on_after_the_last_prompt(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    generate(folder, HashModel(), CHAT, 500, workers=3)
    first = _samples(folder)
    generate(folder, HashModel(), CHAT, 1500, workers=3)
    samples = _samples(folder)
    assert all(map(same, first, samples))
    numbers = [sample.number for sample in samples]
    assert numbers == sorted(set(numbers))
    assert len({(bytes(sample.ids)) for sample in samples}) == len(samples)


def test_answers_are_what_the_model_wrote(tmp_path: Path) -> None:
    folder, model = _folder(tmp_path), HashModel()
    generate(folder, model, CHAT, 2500, workers=2)
    answered = {(request.ids, HashModel().complete(request).ids) for request in model.calls}
    two = 0
    for sample in _samples(folder):
        ids = sample.ids.tolist()
        for span in sample.spans:
            assert (tuple(ids[: span.start]), tuple(ids[span.start : span.end])) in answered
            assert span.end - span.start <= 30
        two += len(sample.spans) == 2
    assert two > 3


def test_greedy_and_sampled_answers_carry_the_prompts_temperature_and_seed(tmp_path: Path) -> None:
    model = HashModel()
    generate(_folder(tmp_path), model, CHAT, 3000, workers=1)
    assert {request.temperature for request in model.calls} == {0.0, 0.3, 0.6, 0.9}
    sampled = [(request.ids, request.seed) for request in model.calls if request.temperature]
    # Only turns that the model is to write itself, all alike so far, share their ids; their seeds tell them apart.
    assert len(set(sampled)) == len(sampled)
    assert all(0 <= request.seed < 2**31 for request in model.calls)


class Always:
    """Answers every request alike."""

    def __init__(self, *ids: int, ended: bool = True) -> None:
        self._completed = Completed(ids, ended)

    def complete(self, request: Completion) -> Completed:
        return self._completed


def _made(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    body: Body,
    model: Always,
    prompts: int = 3,
    temperature: float = 0.0,
) -> tuple[list[Sample], Counter[str]]:
    """The outcome of so many equal prompts."""

    def prompt(seed: int, number: int, held_share: float) -> Prompt:
        if number == prompts:
            raise KeyboardInterrupt
        return Prompt(number, "chat", False, body, temperature, 5)

    monkeypatch.setattr(module, "make_prompt", prompt)
    folder, seen = _folder(tmp_path), []
    with pytest.raises(KeyboardInterrupt):
        generate(folder, model, CHAT, 10**9, 1, seen.append)
    return _samples(folder), Counter(seen[-1].dropped)


def test_duplicates_are_dropped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    model = Always(*b"some answer", END)
    samples, dropped = _made(monkeypatch, tmp_path, asks("hello"), model)
    assert [sample.number for sample in samples] == [0]
    assert dropped == {"duplicate": 2}


@pytest.mark.parametrize(
    ("body", "model", "reason"),
    [
        (asks("x" * 3000), Always(*b"answer", END), "long prompt"),
        (asks("hello"), Always(END), "short answer"),
        (asks("Tell")._replace(open_user=True), Always(*b" me more and more", ended=False), "user turn without end"),
    ],
)
def test_useless_prompts_are_dropped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: Body, model: Always, reason: str
) -> None:
    samples, dropped = _made(monkeypatch, tmp_path, body, model)
    assert samples == []
    assert dropped == {reason: 3}


def test_a_turn_the_model_writes_stands_in_the_users_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    body = asks("Tell", "Be kind.", later=("", "And then?"))._replace(open_user=True)
    samples, _ = _made(monkeypatch, tmp_path, body, Always(*b" me, now", END), prompts=1)
    (sample,) = samples
    assert _text(sample.ids.tolist()) == (
        "<system\nBe kind.>\n<user\nTell me, now>\n<assistant\n me, now>\n<user\n me, now>\n<assistant\n me, now>\n"
        "<user\nAnd then?>\n<assistant\n me, now>"
    )
    answers = [_text(sample.ids[span.start : span.end].tolist()) for span in sample.spans]
    assert answers == [" me, now>"] * 3


def test_an_answer_without_end_ends_the_chat(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    samples, _ = _made(monkeypatch, tmp_path, asks("Go", later=("on",)), Always(*b"and on", ended=False), prompts=1)
    assert [len(sample.spans) for sample in samples] == [1]


def test_a_template_without_system_turns() -> None:
    tokenizer = Characters()
    tokenizer.takes_system = False
    chat = ChatFormat(tokenizer)
    messages = (Message("system", "Be kind."), Message("user", "Hi"))
    assert _text(chat.prompt(messages)) == "<user\nBe kind.\n\nHi>\n<assistant\n"
    assert _text(chat.opened(messages)) == "<user\nBe kind.\n\nHi"


def test_a_base_model_goes_on_with_the_text() -> None:
    tokenizer = Characters()
    tokenizer.chat_template = None
    chat = ChatFormat(tokenizer)
    assert _text(chat.prompt(asks("Hi").messages)) == "Hi\n"
    assert chat.turn_end == ord("\n")


class Shouting(Characters):
    """A template that changes what it is given."""

    def apply_chat_template(self, *args: object, **kwargs: object) -> str:
        return super().apply_chat_template(*args, **kwargs).upper()  # type: ignore[arg-type]


def test_a_template_that_changes_contents_is_refused() -> None:
    with pytest.raises(ConfigError, match="does not keep a turn's content"):
        ChatFormat(Shouting())
