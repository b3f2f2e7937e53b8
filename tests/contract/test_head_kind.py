"""What the server takes for an EAGLE-3 head, an EAGLE head or a small model, and what it then tells SGLang."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sgl_spec.errors import ConfigError
from sgl_spec.server import algorithm
from sgl_spec.server.algorithm import NAME, SglSpecAlgorithm
from sgl_spec.server.eagle import head_args
from sgl_spec.server.eagle.draft_model import check_vocabulary
from sgl_spec.server.eagle.head_kind import HeadKind, head_kind, served_kind


def _head(folder: Path, **config: Any) -> str:
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


@pytest.mark.parametrize(
    ("architecture", "kind"),
    [
        ("LlamaForCausalLMEagle3", HeadKind.EAGLE3),
        ("Eagle3LlamaForCausalLM", HeadKind.EAGLE3),
        ("LlamaForCausalLMEagle", HeadKind.EAGLE),
        ("LlamaForCausalLM", HeadKind.MODEL),
    ],
)
def test_the_architecture_says_which_kind(tmp_path: Path, architecture: str, kind: HeadKind) -> None:
    assert head_kind(_head(tmp_path, architectures=[architecture], model_type="llama")) is kind


def test_a_folder_that_is_no_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"speculative-draft-model-path .*no architecture"):
        head_kind(_head(tmp_path, model_type="llama"))
    with pytest.raises(ConfigError, match=r"speculative-draft-model-path .*cannot be read"):
        head_kind(str(tmp_path / "nowhere" / "at" / "all"))


def test_without_a_configured_server_there_is_no_head() -> None:
    assert served_kind() is None
    told = SglSpecAlgorithm(NAME, lambda _: object)
    assert told.is_ngram()
    assert not told.is_standalone()
    assert not told.is_eagle3()
    assert not told.has_draft_kv()


@pytest.mark.parametrize("kind", HeadKind)
def test_no_kind_looks_like_eagle(monkeypatch: pytest.MonkeyPatch, kind: HeadKind) -> None:
    monkeypatch.setattr(algorithm, "served_kind", lambda: kind)
    told = SglSpecAlgorithm(NAME, lambda _: object)
    assert told.is_standalone()
    assert told.is_eagle3() == (kind is HeadKind.EAGLE3)
    assert not told.is_eagle()
    assert told.has_draft_kv()


def _arguments(path: str, **given: Any) -> SimpleNamespace:
    fields = {
        "speculative_draft_model_path": path, "speculative_draft_model_revision": None, "page_size": 1, "device": "cpu",
        "speculative_eagle_topk": None, "speculative_num_steps": None, "speculative_draft_attention_backend": None,
        "enable_return_hidden_states": False,
    }  # fmt: skip
    return SimpleNamespace(**{**fields, **given})


def test_a_head_gets_branches_steps_and_a_backend_that_can_draft(tmp_path: Path) -> None:
    path = _head(tmp_path, architectures=["LlamaForCausalLMEagle3"])
    arguments = _arguments(path)
    head_args.fill_in(arguments)
    assert (arguments.speculative_eagle_topk, arguments.speculative_num_steps) == (4, 4)
    assert arguments.speculative_draft_attention_backend == "intel_amx"
    given = _arguments(path, speculative_eagle_topk=8, speculative_num_steps=2, device="cuda")
    head_args.fill_in(given)
    assert (given.speculative_eagle_topk, given.speculative_num_steps) == (8, 2)
    assert given.speculative_draft_attention_backend is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"speculative_eagle_topk": 1}, r"--speculative-eagle-topk 1: .* 2 to 16"),
        ({"speculative_num_steps": 99}, r"--speculative-num-steps 99: .* 1 to 16"),
        ({"page_size": 64}, r"--page-size 64: .* --page-size 1"),
    ],
)
def test_what_a_head_cannot_do_is_refused(tmp_path: Path, given: dict[str, Any], message: str) -> None:
    path = _head(tmp_path, architectures=["LlamaForCausalLMEagle3"])
    with pytest.raises(ConfigError, match=message):
        head_args.fill_in(_arguments(path, **given))


def test_states_for_clients_and_states_for_the_head_do_not_mix(tmp_path: Path) -> None:
    eagle3 = _head(tmp_path, architectures=["LlamaForCausalLMEagle3"])
    with pytest.raises(ConfigError, match="--enable-return-hidden-states: with an EAGLE-3 head"):
        head_args.fill_in(_arguments(eagle3, enable_return_hidden_states=True))
    captured = _arguments(eagle3, device="cuda")
    head_args.fill_in(captured)
    assert captured.enable_return_hidden_states


def test_a_small_model_knows_every_token_of_the_text() -> None:
    for tokenizer in (None, range(100), range(60)):
        check_vocabulary(100, tokenizer)
    with pytest.raises(ConfigError, match=r"has 100 token embeddings, the target's tokenizer 101 tokens"):
        check_vocabulary(100, range(101))
