"""A plain HTTP client of /generate, and prompts that give drafts something to do."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

OFF = {"sgl_spec": {"version": 1, "off": True}}

# Three hundred lines of one word, each word once: what a model of this size can copy. (Of lines that share their
# words, such as "17. The red lamp is in room 203", it loses the thread, and nothing is copied.)
LICENCE = (Path(__file__).parents[2] / "LICENSE").read_text()
LIST = list(dict.fromkeys(re.findall(r"\b[a-z]{4,10}\b", LICENCE)))[:300]


def chat(text: str) -> str:
    return f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"


STORY = chat("Tell me a short story about a fox and a river.")
CODE = "def fib(n):\n    if n < 2:\n        return n\n    return fib(n - 1) + fib(n - 2)\n\ndef fib_memo(n, memo={}):\n"
PEOPLE = chat("Write a JSON array of five people with the fields name, age and city.")
QUOTE = chat(
    "A reader may borrow up to eight books at a time and keep each of them for three weeks. A loan can be renewed "
    "twice, unless another reader has asked for the same book.\n\nRepeat this text word for word."
)
PROMPTS = (STORY, CODE, PEOPLE, QUOTE)


@dataclass(frozen=True)
class Server:
    """One server, by its address."""

    url: str

    def generate(self, prompt: str, **params: Any) -> dict[str, Any]:
        """The whole answer of /generate. `request_` arguments go beside the sampling parameters."""
        beside = {name[8:]: params.pop(name) for name in list(params) if name.startswith("request_")}
        sampling = {"temperature": 0, "max_new_tokens": 64, **params}
        answer = requests.post(
            f"{self.url}/generate", json={"text": prompt, "sampling_params": sampling, **beside}, timeout=300
        )
        assert answer.status_code == 200, answer.text
        return answer.json()

    def generate_all(self, calls: list[dict[str, Any]], at_once: int = 8) -> list[dict[str, Any]]:
        with ThreadPoolExecutor(at_once) as pool:
            return list(pool.map(lambda call: self.generate(**call), calls))

    def stream(self, prompt: str, **params: Any) -> list[dict[str, Any]]:
        sampling = {"temperature": 0, "max_new_tokens": 64, **params}
        body = {"text": prompt, "sampling_params": sampling, "stream": True}
        chunks = []
        with requests.post(f"{self.url}/generate", json=body, stream=True, timeout=300) as answer:
            for line in answer.iter_lines():
                if line.startswith(b"data: ") and line != b"data: [DONE]":
                    chunks.append(json.loads(line[6:]))
        return chunks


def account(answer: dict[str, Any]) -> dict[str, Any]:
    """The request's own counts."""
    return answer["meta_info"]["sgl_spec"][-1]


def tokens_per_step(answer: dict[str, Any]) -> float:
    return account(answer)["tokens"] / account(answer)["rounds"]
