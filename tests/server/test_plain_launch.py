"""`sglang serve` as SGLang documents it, with nothing of ours on the command line but the algorithm's name: the CPU
platform activates by itself. Also the tier's tight corner: pages of 16 tokens, a pool too small for the batch, and
requests that are taken back and resumed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from client import CODE, OFF, PROMPTS, Server, account

from sgl_spec.bundled_model import prepare
from sgl_spec.frontend.process_tree import end_tree, free_port

START_SECONDS = 300
# SGLang's own switch for tests: the scheduler takes running requests back every few steps, as when memory runs out.
RETRACTING = {**os.environ, "SGLANG_TEST_RETRACT": "1", "SGLANG_TEST_RETRACT_INTERVAL": "10"}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    log: Path = tmp_path_factory.mktemp("plain") / "server.log"
    port = free_port()
    flags = "--speculative-algorithm SGL_SPEC --page-size 16 --max-total-tokens 960 --chunked-prefill-size 64"
    main = "import sys; from sglang.cli.main import main; sys.exit(main())"  # what the command `sglang` runs
    command = [sys.executable, "-c", main, "serve", "--model-path", str(prepare()), "--port", str(port)]
    with log.open("wb") as out:
        server = subprocess.Popen([*command, *flags.split(), "--sleep-on-idle"], stdout=out, stderr=out, env=RETRACTING)
    url = f"http://127.0.0.1:{port}"
    try:
        _wait(url, server, log)
        assert "sgl_spec CPU platform active" in log.read_text()
        yield Server(url)
        assert "Traceback" not in log.read_text()
    finally:
        end_tree(server.pid, grace=5.0)
        server.wait(30)


def _wait(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            if requests.get(f"{url}/health", timeout=5).status_code == 200:
                return
        except requests.ConnectionError:
            pass
        assert server.poll() is None, log.read_text()[-3000:]
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(1)


def test_it_speculates_and_is_exact(plain: Server) -> None:
    drafted, alone = plain.generate(CODE), plain.generate(CODE, custom_params=OFF)
    assert drafted["output_ids"] == alone["output_ids"]
    assert account(drafted)["accepted"]["all"] > 0


def test_requests_that_are_retracted_and_resumed_are_exact(plain: Server) -> None:
    calls = [
        {
            "prompt": prompt, "max_new_tokens": 100, "ignore_eos": True, "temperature": t, "sampling_seed": 3,
            # What a request said before it was taken back counts when it goes on.
            "repetition_penalty": 1.2 if prompt is CODE else 1.0, "frequency_penalty": 0.3 if prompt is CODE else 0.0,
        }
        for prompt in PROMPTS
        for t in (0.0, 0.8)
    ]  # fmt: skip
    together = plain.generate_all(calls)
    alone = [plain.generate(custom_params=OFF, **call) for call in calls]
    assert [a["output_ids"] for a in together] == [a["output_ids"] for a in alone]
    assert sum(a["meta_info"].get("num_retractions", 0) for a in together) > 0, "nothing was retracted"
