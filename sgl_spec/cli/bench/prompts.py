"""Workloads built from public data files (`--data DIR`), as prompts for a model. Pure: no server, no tokenizer.

Each builder reads one file and yields prompts in the file's order, so that `--limit` takes a stable prefix and
neighbours share what an agent's neighbouring steps share (the radix cache then matters, as in real use).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from sgl_spec.cli.bench.constrained_prompts import bfcl_prompts, character_prompts
from sgl_spec.cli.bench.data_file import DataRow, read_rows
from sgl_spec.cli.bench.function_calls import call_requests
from sgl_spec.cli.bench.prompt import Builder, Chat, Prompt
from sgl_spec.cli.bench.word_list import WORDS
from sgl_spec.errors import ConfigError

REACT_FILE = "sglang_react_hotpotqa_100.jsonl"
REACT_EXAMPLES = 2  # traces shown before the question; the model imitates their form
LIST_COPIES = 3


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
    the thought and the action; the observation is the tool's, so there it stops. All steps are one slot, as an agent's
    loop would name it.
    """
    traces = [_react_trace(row) for row in read_rows(data / REACT_FILE)]
    examples = "\n".join(_render_trace(trace, len(trace.steps)) for trace in traces[:REACT_EXAMPLES])
    for number, trace in enumerate(traces[REACT_EXAMPLES:], REACT_EXAMPLES):
        for step in range(len(trace.steps)):
            text = f"{examples}\n{_render_trace(trace, step)}Thought {step + 1}:"
            yield Prompt(
                f"react-{number}-{step + 1}", text, stop=("\nObservation", "\nQuestion:"), program="react", slot="step"
            )


def chat_prompts(data: Path, chat: Chat) -> Iterator[Prompt]:
    """First turns of MT-Bench (Zheng et al., arXiv 2306.05685)."""
    for row in read_rows(data / "mt_bench.jsonl"):
        yield Prompt(f"chat-{row.line}", chat(row.field("turns")[0]))


def edit_prompts(data: Path, chat: Chat) -> Iterator[Prompt]:
    """Code edits made from HumanEval (Chen et al., arXiv 2107.03374): a solved function, rewritten with one change."""
    for row in read_rows(data / "HumanEval.jsonl"):
        code = row.field("prompt") + row.field("canonical_solution")
        entry = row.field("entry_point")
        ask = (
            f"Rename the function `{entry}` to `{entry}_v2` and add a docstring to it. Change nothing else. "
            f"Answer with the whole code.\n\n```python\n{code.rstrip()}\n```"
        )
        yield Prompt(f"edit-{row.line}", chat(ask))


def rag_prompts(data: Path, chat: Chat) -> Iterator[Prompt]:
    """Questions with retrieved passages, from Spec-Bench (Xia et al., arXiv 2401.07851), category "rag"."""
    for row in read_rows(data / "spec_bench.jsonl"):
        if row.content.get("category") == "rag":
            yield Prompt(f"rag-{row.line}", chat(row.field("turns")[0]))


def json_prompts(data: Path, chat: Chat) -> Iterator[Prompt]:
    """Function calls as JSON that nothing but the request asks for; `bfcl` holds the same ones to a schema."""
    for request in call_requests(data):
        yield Prompt(f"json-{request.line}", chat(request.message))


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
    "character": character_prompts,
    "bfcl": bfcl_prompts,
}


class _Trace(NamedTuple):
    question: str
    steps: tuple[dict[str, str], ...]


def _react_trace(row: DataRow) -> _Trace:
    """A line is {"Question: ...": [{"thought", "action", "observation"}, ...]}."""
    try:
        ((question, steps),) = row.content.items()
        return _Trace(
            question, tuple({key: step[key] for key in ("thought", "action", "observation")} for step in steps)
        )
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigError(
            f"{row.where}: expected one question with its list of steps (thought, action, "
            f"observation); {type(error).__name__}: {error}"
        ) from error


def _render_trace(trace: _Trace, steps: int) -> str:
    text = trace.question + "\n"
    for number, step in enumerate(trace.steps[:steps], 1):
        text += f"Thought {number}: {step['thought']}\nAction {number}: {step['action']}\n"
        text += f"Observation {number}: {step['observation'].strip()}\n"
    return text
