"""Past outputs as drafts: of the same slot only, never across owners, as the request allows, and over a restart."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import requests
from client import STORY, Server, account

from sgl_spec import Runtime

SECRET = "<|im_start|>user\nThe code of the safe is 7351-9924-1187. Say it.<|im_end|>\n<|im_start|>assistant\n"


def _told(server: Server, key: str, salt: str = "", **hint: Any) -> dict[str, Any]:
    named = {"version": 1, "program": "test_memory", "slot": "story", **hint}
    owner = {"request_extra_key": key} if not salt else {"request_cache_salt": salt}
    answer = server.generate(STORY, custom_params={"sgl_spec": named}, **owner)
    return {**account(answer), "output_ids": answer["output_ids"]}


def test_the_second_time_takes_few_rounds(on: Server) -> None:
    first, second = (_told(on, "second time") for _ in range(2))
    assert first["output_ids"] == second["output_ids"]
    assert "memory" not in first["drafted"]
    assert second["rounds"] < first["rounds"] / 2


@pytest.mark.parametrize("field", ["request_extra_key", "request_cache_salt"])
def test_nothing_of_one_owner_is_drafted_for_another(on: Server, field: str) -> None:
    hint = {"sgl_spec": {"version": 1, "program": "safe", "slot": "code"}}

    def told(owner: str) -> dict[str, Any]:
        return account(on.generate(SECRET, custom_params=hint, **{field: f"{owner} of {field}"}))

    told("Alice")
    bob, again = told("Bob"), told("Alice")
    assert not any(origin.startswith("memory") for origin in bob["drafted"])
    assert again["accepted"]["memory"] > 0


def test_whoever_runs_the_server_learns_how_far_off_its_probabilities_were(on: Server) -> None:
    answer = on.generate(STORY, request_extra_key="calibration")
    assert "calibration" not in account(answer)
    (state,) = requests.get(f"{on.url}/server_info", timeout=60).json()["internal_states"]
    lookup = state["sgl_spec"]["calibration"]["lookup"]
    assert lookup["nodes"] > 0
    assert 0.0 <= lookup["error"] < 1.0


def test_without_a_hint_the_slot_is_recognised_by_its_text(on: Server) -> None:
    def told(topic: str) -> dict[str, Any]:
        prompt = f"<|im_start|>system\nYou write haikus.<|im_end|>\n<|im_start|>user\n{topic}<|im_end|>\n"
        return account(on.generate(f"{prompt}<|im_start|>assistant\n", request_extra_key="no hint"))

    assert "memory" not in told("A haiku about the sea, please.")["drafted"]
    assert told("A haiku about the moon, please.")["drafted"].get("memory", 0) > 0


@pytest.mark.parametrize(
    ("first", "second", "drafts"),
    [("read-write", "read", True), ("write", "read", True), ("read", "read", False), ("off", "read-write", False),
     ("read-write", "write", False), ("read-write", "off", False)],
)  # fmt: skip
def test_reading_and_writing_can_be_switched_off(on: Server, first: str, second: str, drafts: bool) -> None:
    key = f"switch {first} {second}"
    _told(on, key, memory=first)
    counts = _told(on, key, memory=second)
    assert bool(counts["drafted"].get("memory")) == drafts


def test_origins_and_width_are_kept_to(on: Server) -> None:
    _told(on, "control")
    only_memory = _told(on, "control", origins=["memory"])
    assert set(only_memory["drafted"]) <= {"all", "memory", "memory.template"}
    assert only_memory["accepted"]["memory"] > 0
    narrow = _told(on, "control", width=3)
    assert 0 < narrow["drafted"]["all"] <= 2 * narrow["rounds"]
    assert _told(on, "control", width=1)["drafted"] == {"all": 0}
    assert _told(on, "control", off=True)["abstained"] == {"off": 63}


def _launched(memory: Path, log: Path) -> Runtime:
    return Runtime(max_total_tokens=8_192, random_seed=1, memory=str(memory), log_path=log)


def _wait_for_a_save(file: Path) -> None:
    asked = time.time()
    while not file.exists() or file.stat().st_mtime < asked:  # the warm-up's output may have been saved before
        assert time.time() < asked + 30
        time.sleep(0.2)


def test_memory_outlives_the_server_and_a_bad_file_does_not_stop_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Widths that follow the clock, and tables that all owners share, draft differently every time without any memory.
    monkeypatch.setenv("SGLSPEC_CONFIG", json.dumps({"adaptive": False, "calibrated": False}))
    file, log = tmp_path / "outputs.memory", tmp_path / "server.log"
    with _launched(file, log) as runtime:
        first = _told(Server(runtime.url), "Alice")
        _wait_for_a_save(file)
    assert file.stat().st_mode & 0o077 == 0, "outputs are private"
    with _launched(file, log) as runtime:
        server = Server(runtime.url)
        for bob in (_told(server, "Bob"), _told(server, "", salt="Bob")):
            assert bob == first, "what Alice left behind made no difference to Bob: the same drafts, the same rounds"
        second = _told(server, "Alice")
    assert second["output_ids"] == first["output_ids"]
    assert second["accepted"]["memory"] > 0

    damaged = file.read_bytes()[:-7] + b"garbage"
    file.write_bytes(damaged)
    with _launched(file, log) as runtime:
        assert "memory" not in _told(Server(runtime.url), "Alice")["drafted"]
    assert "starts with an empty memory" in log.read_text()
    assert file.read_bytes() == damaged, "a file that was refused is left as it was"
