"""Workloads built from public data files (`--data DIR`), as prompts for a model. Pure: no server, no tokenizer.

Each builder reads one file and yields prompts in the file's order, so that `--limit` takes a stable prefix and
neighbours share what an agent's neighbouring steps share (the radix cache then matters, as in real use).
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from sgl_spec.cli.bench.word_list import WORDS
from sgl_spec.errors import ConfigError

Chat = Callable[[str], str]  # a user's message -> the whole prompt, in the served model's template

REACT_FILE = "sglang_react_hotpotqa_100.jsonl"
REACT_EXAMPLES = 2  # traces shown before the question; the model imitates their form
LIST_COPIES = 3


class Prompt(NamedTuple):
    """One request. `stop` strings end it; `max_new_tokens` lowers the measurement's own limit."""

    id: str
    text: str
    stop: tuple[str, ...] = ()
    max_new_tokens: int | None = None


Builder = Callable[[Path, Chat], Iterator[Prompt]]


def build_prompts(name: str, data: Path | None, chat: Chat, limit: int) -> tuple[Prompt, ...]:
    """The first `limit` prompts of the workload `name`.

    Args:
        name: a key of `BUILDERS`.
        data: the folder with the data files; None is enough for `copy`, which is synthetic.
        chat: puts a user's message into the served model's chat template.
        limit: at most so many prompts; at least 1.

    Raises:
        ConfigError: the name is unknown, the folder or a file is missing, or a line is not what the builder reads.
    """
    if name not in BUILDERS:
        raise ConfigError(f"--workloads holds {name!r}; known workloads are {', '.join(BUILDERS)}.")
    if data is None and name != "copy":
        raise ConfigError(f"The workload {name!r} is built from files; name their folder with --data DIR.")
    prompts = tuple(islice(BUILDERS[name](data or Path(), chat), limit))
    if not prompts:
        raise ConfigError(f"The workload {name!r} has no prompt in {data}.")
    return prompts


def react_prompts(data: Path, chat: Chat) -> Iterator[Prompt]:
    """Steps of ReAct agents (Yao et al., arXiv 2210.03629): the trace up to a step, which the model then writes.

    The prompt is SGLang's benchmark/react form: examples, the question, earlier steps, "Thought i:". The model writes
    the thought and the action; the observation is the tool's, so there it stops.
    """
    traces = [_react_trace(row, number) for number, row in _rows(data / REACT_FILE)]
    examples = "\n".join(_render_trace(trace, len(trace.steps)) for trace in traces[:REACT_EXAMPLES])
    for number, trace in enumerate(traces[REACT_EXAMPLES:], REACT_EXAMPLES):
        for step in range(len(trace.steps)):
            text = f"{examples}\n{_render_trace(trace, step)}Thought {step + 1}:"
            yield Prompt(f"react-{number}-{step + 1}", text, stop=("\nObservation", "\nQuestion:"))


def chat_prompts(data: Path, chat: Chat) -> Iterator[Prompt]:
    """First turns of MT-Bench (Zheng et al., arXiv 2306.05685)."""
    for number, row in _rows(data / "mt_bench.jsonl"):
        yield Prompt(f"chat-{number}", chat(_field(row, "turns", number, "mt_bench.jsonl")[0]))


def edit_prompts(data: Path, chat: Chat) -> Iterator[Prompt]:
    """Code edits made from HumanEval (Chen et al., arXiv 2107.03374): a solved function, rewritten with one change."""
    name = "HumanEval.jsonl"
    for number, row in _rows(data / name):
        code = _field(row, "prompt", number, name) + _field(row, "canonical_solution", number, name)
        entry = _field(row, "entry_point", number, name)
        ask = (
            f"Rename the function `{entry}` to `{entry}_v2` and add a docstring to it. Change nothing else. "
            f"Answer with the whole code.\n\n```python\n{code.rstrip()}\n```"
        )
        yield Prompt(f"edit-{number}", chat(ask))


def rag_prompts(data: Path, chat: Chat) -> Iterator[Prompt]:
    """Questions with retrieved passages, from Spec-Bench (Xia et al., arXiv 2401.07851), category "rag"."""
    name = "spec_bench.jsonl"
    for number, row in _rows(data / name):
        if row.get("category") == "rag":
            yield Prompt(f"rag-{number}", chat(_field(row, "turns", number, name)[0]))


def json_prompts(data: Path, chat: Chat) -> Iterator[Prompt]:
    """Function calls as JSON, from the Berkeley Function-Calling Leaderboard's simple Python requests."""
    name = "bfcl_v4_simple_python.jsonl"
    for number, row in _rows(data / name):
        functions = json.dumps(_field(row, "function", number, name), indent=1)
        question = _field(row, "question", number, name)[0][0]["content"]
        ask = (
            f"These functions exist:\n{functions}\n\nAnswer the request with one function call, as JSON like "
            f'{{"name": "...", "arguments": {{"...": "..."}}}} and nothing else.\n\nRequest: {question}'
        )
        yield Prompt(f"json-{number}", chat(ask))


def copy_prompts(data: Path, chat: Chat) -> Iterator[Prompt]:
    """A list of 300 lines in the prompt, copied: what prompt lookup is best at. Synthetic; other seeds, other lists.

    The list stands there `LIST_COPIES` times, and each prompt goes on from another place of the next copy, for a few
    lines: the bundled model shown a list once gets a sixth of the text right before it loses its place, shown it three
    times about three quarters.
    """
    for seed in range(1_000):
        lines = list_lines(seed)
        copies = ("\n".join(lines) + "\n\n") * LIST_COPIES
        for at in range(5, len(lines), 33):
            given = "\n".join(lines[:at])
            yield Prompt(f"copy-{seed}-{at}", f"{copies}{given}\n", stop=("\n\n",), max_new_tokens=64)


def list_lines(seed: int) -> list[str]:
    """A list of 300 different words, the same for the same seed on every machine."""
    return random.Random(seed).sample(WORDS, len(WORDS))


BUILDERS: dict[str, Builder] = {
    "react": react_prompts,
    "chat": chat_prompts,
    "edit": edit_prompts,
    "rag": rag_prompts,
    "json": json_prompts,
    "copy": copy_prompts,
}


class _Trace(NamedTuple):
    question: str
    steps: tuple[dict[str, str], ...]


def _react_trace(row: dict[str, Any], number: int) -> _Trace:
    """A line is {"Question: ...": [{"thought", "action", "observation"}, ...]}."""
    try:
        ((question, steps),) = row.items()
        return _Trace(
            question, tuple({key: step[key] for key in ("thought", "action", "observation")} for step in steps)
        )
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigError(
            f"{REACT_FILE}, line {number + 1}: expected one question with its list of steps (thought, action, "
            f"observation); {type(error).__name__}: {error}"
        ) from error


def _render_trace(trace: _Trace, steps: int) -> str:
    text = trace.question + "\n"
    for number, step in enumerate(trace.steps[:steps], 1):
        text += f"Thought {number}: {step['thought']}\nAction {number}: {step['action']}\n"
        text += f"Observation {number}: {step['observation'].strip()}\n"
    return text


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise ConfigError(f"--data: {path} cannot be read ({error.strerror}).") from error
    for number, line in enumerate(lines):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ConfigError(f"{path}, line {number + 1}: not JSON ({error}).") from error
        if not isinstance(row, dict):
            raise ConfigError(f"{path}, line {number + 1}: expected a JSON object, got {type(row).__name__}.")
        yield number, row


def _field(row: dict[str, Any], name: str, number: int, file: str) -> Any:
    if name not in row:
        raise ConfigError(f"{file}, line {number + 1}: the field {name!r} is missing.")
    return row[name]
