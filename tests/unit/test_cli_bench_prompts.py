"""Workloads from data files, on tiny synthetic files of the same shapes."""

from __future__ import annotations

import json

import pytest

from sgl_spec.cli.bench import ALL_WORKLOADS
from sgl_spec.cli.bench.constrained_prompts import character_regex
from sgl_spec.cli.bench.prompts import BUILDERS, build_prompts, list_lines
from sgl_spec.errors import ConfigError


def chat(message: str) -> str:
    return f"<user>{message}</user>"


def step(name: str) -> dict[str, str]:
    return {"thought": f"think {name}", "action": f"Search[{name}]", "observation": f"saw {name}\n"}


FILES = {
    "sglang_react_hotpotqa_100.jsonl": [
        {"Question: one?": [step("1a")]},
        {"Question: two?": [step("2a")]},
        {"Question: three?": [step("3a"), step("3b")]},
        {"Question: four?": [step("4a")]},
    ],
    "mt_bench.jsonl": [{"turns": ["first turn", "second turn"]}, {"turns": ["other"]}],
    "HumanEval.jsonl": [{"prompt": "def f():\n", "canonical_solution": "    return 1\n\n", "entry_point": "f"}],
    "spec_bench.jsonl": [
        {"category": "math", "turns": ["2 + 2"]},
        {"category": "rag", "turns": ["passages and a question"]},
    ],
    "bfcl_v4_simple_python.jsonl": [
        {"question": [[{"role": "user", "content": "area?"}]], "function": [{"name": "area", "parameters": {}}]}
    ],
    "sglang_json_jump_forward_names.txt": ["Luna Lovegood", "", " Dobby "],
}


@pytest.fixture
def data(tmp_path):
    for name, rows in FILES.items():
        lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
        (tmp_path / name).write_text("".join(line + "\n" for line in lines))
    return tmp_path


def test_react_shows_examples_and_the_trace_up_to_the_step(data):
    prompts = build_prompts("react", data, chat, 10)
    assert [prompt.id for prompt in prompts] == ["react-2-1", "react-2-2", "react-3-1"]
    first, second, _ = prompts
    assert first.text.startswith("Question: one?\nThought 1: think 1a\nAction 1: Search[1a]\nObservation 1: saw 1a\n")
    assert first.text.endswith("\nQuestion: three?\nThought 1:")
    assert second.text == first.text + " think 3a\nAction 1: Search[3a]\nObservation 1: saw 3a\nThought 2:"
    assert "3b" not in second.text, "the answer must not be in the prompt"
    assert "\nObservation" in second.stop


def test_chat_takes_first_turns(data):
    assert [prompt.text for prompt in build_prompts("chat", data, chat, 10)] == [chat("first turn"), chat("other")]


def test_edit_shows_the_solved_function(data):
    (prompt,) = build_prompts("edit", data, chat, 10)
    assert "```python\ndef f():\n    return 1\n```" in prompt.text
    assert "`f_v2`" in prompt.text


def test_rag_takes_its_category_only(data):
    assert [prompt.text for prompt in build_prompts("rag", data, chat, 10)] == [chat("passages and a question")]


def test_json_shows_functions_and_request(data):
    (prompt,) = build_prompts("json", data, chat, 10)
    assert '"name": "area"' in prompt.text
    assert prompt.text.endswith("Request: area?</user>")
    assert prompt.json_schema is None


def test_bfcl_asks_the_same_and_holds_the_answer_to_a_schema(data):
    (free,), (held,) = build_prompts("json", data, chat, 10), build_prompts("bfcl", data, chat, 10)
    assert held.text == free.text
    assert json.loads(held.json_schema)["properties"]["name"] == {"const": "area"}
    assert (held.program, held.slot) == ("bfcl", "call")
    assert (free.program, free.slot) == (None, None)


def test_character_has_a_prompt_per_name_in_one_slot(data):
    prompts = build_prompts("character", data, chat, 10)
    assert [prompt.text.partition(" is a")[0] for prompt in prompts] == ["Luna Lovegood", "Dobby"]
    assert all(prompt.text.endswith("information about this character.\n") for prompt in prompts)
    assert {(prompt.regex, prompt.program, prompt.slot) for prompt in prompts} == {
        (character_regex(), "character", "sheet")
    }


def test_copy_needs_no_files_and_is_the_same_everywhere():
    first, second = build_prompts("copy", None, chat, 2)
    lines = list_lines(0)
    assert len(set(lines)) == 300
    assert lines == list_lines(0)
    assert lines != list_lines(1)
    asked = first.text.splitlines()
    assert [asked.count(line) for line in lines] == [4] * 5 + [3] * 295
    assert asked[-5:] == lines[:5]
    assert second.text == first.text + "\n".join(lines[5:38]) + "\n"


@pytest.mark.parametrize("name", sorted(BUILDERS))
def test_limit_is_a_prefix(data, name):
    every = build_prompts(name, data, chat, 5)
    assert build_prompts(name, data, chat, 1) == every[:1]
    assert len({prompt.id for prompt in every}) == len(every)


def test_help_names_every_workload():
    assert ",".join(BUILDERS) == ALL_WORKLOADS


def test_unknown_workload_and_missing_folder_are_named(tmp_path):
    with pytest.raises(ConfigError, match="'poems'; known workloads are react"):
        build_prompts("poems", tmp_path, chat, 1)
    with pytest.raises(ConfigError, match="--data DIR"):
        build_prompts("chat", None, chat, 1)
    with pytest.raises(ConfigError, match=r"mt_bench\.jsonl cannot be read"):
        build_prompts("chat", tmp_path, chat, 1)


@pytest.mark.parametrize(
    ("name", "file", "line", "message"),
    [
        ("chat", "mt_bench.jsonl", "{", "line 1: not JSON"),
        ("chat", "mt_bench.jsonl", "[1]", "line 1: expected a JSON object, got list"),
        ("chat", "mt_bench.jsonl", '{"id": 1}', "line 1: the field 'turns' is missing"),
        ("react", "sglang_react_hotpotqa_100.jsonl", '{"Question: q": [{"thought": "t"}]}', "line 1: expected one"),
        ("rag", "spec_bench.jsonl", '{"category": "math"}', "has no prompt"),
        ("bfcl", "bfcl_v4_simple_python.jsonl", '{"question": []}', "line 1: the field 'function' is missing"),
        ("character", "sglang_json_jump_forward_names.txt", "", "has no prompt"),
    ],
)
def test_bad_data_is_named_by_file_and_line(tmp_path, name, file, line, message):
    (tmp_path / file).write_text(line + "\n")
    with pytest.raises(ConfigError, match=message):
        build_prompts(name, tmp_path, chat, 1)
