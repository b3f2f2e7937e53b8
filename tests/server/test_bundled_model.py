"""The real conversion of the real package: bytes in, a folder that loads, speaks and splits text as it was trained."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sgl_spec import bundled_model


@pytest.fixture(scope="module")
def converted(tmp_path_factory) -> subprocess.CompletedProcess[str]:
    """`sgl-spec model` with an empty cache; some twenty seconds."""
    env = {**os.environ, "SGLSPEC_CACHE": str(tmp_path_factory.mktemp("cache"))}
    command = [sys.executable, "-m", "sgl_spec.cli", "model"]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)


@pytest.fixture(scope="module")
def folder(converted) -> Path:
    return Path(converted.stdout.strip())


def test_it_prints_the_folder_and_nothing_but_our_bar(converted):
    assert converted.returncode == 0, converted.stderr
    assert Path(converted.stdout.strip()).is_dir()
    lines = [line for line in converted.stderr.splitlines() if line.strip()]
    assert all(line.startswith("bundled model: ") or line.lstrip().startswith("|") for line in lines), lines
    assert "100 %" in lines[-1]


def test_it_is_plain_bfloat16(folder):
    from safetensors import safe_open

    config = json.loads((folder / "config.json").read_text())
    assert config["dtype"] == "bfloat16"
    assert "quantization_config" not in config
    with safe_open(folder / "model.safetensors", "pt") as weights:
        kinds = {weights.get_slice(name).get_dtype() for name in weights.keys()}  # noqa: SIM118
    assert kinds == {"BF16"}


def test_a_later_start_is_quick(folder):
    began = time.perf_counter()
    assert bundled_model.folder_is_sound(folder)
    assert time.perf_counter() - began < 0.1


def test_it_says_what_the_capital_of_france_is(folder):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert model.dtype == torch.bfloat16
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert text.endswith("<|im_start|>assistant\n")
    prompt = tokenizer(text, return_tensors="pt")
    output = model.generate(**prompt, max_new_tokens=16, do_sample=False)
    assert "Paris" in tokenizer.decode(output[0, prompt["input_ids"].shape[1] :])


def test_the_tokenizer_splits_digits_as_the_model_was_trained(folder):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.tokenize("x\n    25") == ["x", "ĊĠĠĠĠ", "2", "5"]
    text = "Total:  1984,\n\t7 items — naïve"
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    assert tokenizer.convert_ids_to_tokens([1, 2]) == ["<|im_start|>", "<|im_end|>"]
