"""The chat template follows from the model's own files first, its name second, its tokenizer last, and else warns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sgl_spec.frontend.template_choice import choose_template, read_chat_template, template_for_source

CHATML = "{% for m in messages %}{{'<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>'}}{% endfor %}"


def by_path(path: str) -> str:
    return "qwen" if "qwen" in path else "default"


def no_tokens(text: str) -> bool:
    return False


def must_not_ask(text: str) -> bool:
    raise AssertionError(f"asked the server about {text!r} though the files say it")


def folder(path: Path, **config: object) -> dict[str, str]:
    path.mkdir(exist_ok=True)
    (path / "tokenizer_config.json").write_text(json.dumps(config))
    return {"model_path": "elsewhere", "tokenizer_path": str(path)}


@pytest.mark.parametrize(
    ("source", "template"),
    [
        (CHATML, "chatml"),
        ("<|start_header_id|>user<|end_header_id|>", "llama-3-instruct"),
        ("<start_of_turn>user", "gemma-it"),
        ("<\uff5cUser\uff5c>hello", "deepseek-v3"),
        ("[INST] <<SYS>>", "llama-2-chat"),
        ("<|user|>\nhello", None),
    ],
)
def test_markers(source: str, template: str | None) -> None:
    assert template_for_source(source) == template


def test_the_models_own_files_decide(tmp_path: Path) -> None:
    choice = choose_template(folder(tmp_path, chat_template=CHATML), by_path, must_not_ask)
    assert (choice.name, choice.warning) == ("chatml", None)


def test_a_jinja_file_wins_over_the_config(tmp_path: Path) -> None:
    info = folder(tmp_path, chat_template=CHATML)
    (tmp_path / "chat_template.jinja").write_text("<start_of_turn>")
    assert choose_template(info, by_path, must_not_ask).name == "gemma-it"


def test_several_named_templates_in_one_config(tmp_path: Path) -> None:
    info = folder(tmp_path, chat_template=[{"name": "default", "template": CHATML}])
    assert choose_template(info, by_path, must_not_ask).name == "chatml"


def test_a_family_with_the_same_markers_keeps_its_name(tmp_path: Path) -> None:
    assert choose_template(folder(tmp_path / "qwen", chat_template=CHATML), by_path, must_not_ask).name == "qwen"


def test_a_base_model_without_template_gets_default_without_a_warning(tmp_path: Path) -> None:
    choice = choose_template(folder(tmp_path), by_path, must_not_ask)
    assert (choice.name, choice.warning) == ("default", None)


def test_elsewhere_the_name_decides_then_the_tokenizer() -> None:
    assert choose_template({"model_path": "hub/qwen-x"}, by_path, must_not_ask).name == "qwen"
    choice = choose_template({"model_path": "hub/x"}, by_path, lambda text: text == "<|header_start|>")
    assert (choice.name, choice.warning) == ("llama-4", None)


@pytest.mark.parametrize("info", [{"model_path": "hub/x"}, {}, {"model_path": None}])
def test_unknown_warns_and_tells_the_way_out(info: dict[str, str]) -> None:
    choice = choose_template(info, by_path, no_tokens)
    assert choice.name == "default"
    assert 'chat_template="chatml"' in (choice.warning or "")


def test_a_local_model_of_an_unknown_shape_warns(tmp_path: Path) -> None:
    choice = choose_template(folder(tmp_path, chat_template="<|user|>"), by_path, must_not_ask)
    assert choice.name == "default"
    assert str(tmp_path) in (choice.warning or "")


@pytest.mark.parametrize("broken", ["{", "[]", "\xff\xfe"])
def test_a_broken_config_is_no_evidence(tmp_path: Path, broken: str) -> None:
    (tmp_path / "tokenizer_config.json").write_bytes(broken.encode("latin-1"))
    assert read_chat_template(tmp_path) is None
