"""Ctrl-C in the demo, or a client that goes away, leaves no process and no port behind."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import requests
from client import STORY, Server

from sgl_spec.frontend.process_tree import is_port_free

START_SECONDS = 300


def _read_until(log: Path, text: str, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + START_SECONDS
    while text not in log.read_text():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.5)
    return log.read_text()


def test_ctrl_c_in_the_demo_leaves_nothing(tmp_path: Path) -> None:
    log = tmp_path / "demo.log"
    with log.open("wb") as out:
        demo = subprocess.Popen(
            [sys.executable, "-m", "sgl_spec.cli", "demo"], stdout=out, stderr=out, start_new_session=True
        )
        text = _read_until(log, "3/4", demo)
    ports = [int(port) for port in re.findall(r"ready at http://127\.0\.0\.1:(\d+)", text)]
    family = psutil.Process(demo.pid).children(recursive=True)
    assert len(ports) == 2
    assert len(family) >= 4
    demo.send_signal(signal.SIGINT)
    assert demo.wait(60) == 130
    assert "Traceback" not in log.read_text()
    _, alive = psutil.wait_procs(family, timeout=10)
    assert not alive
    assert all(is_port_free(port) for port in ports)


def test_a_client_that_goes_away_frees_its_request(on: Server) -> None:
    body = {"text": STORY, "sampling_params": {"max_new_tokens": 4000, "ignore_eos": True}, "stream": True}
    with requests.post(f"{on.url}/generate", json=body, stream=True, timeout=60) as answer:
        next(answer.iter_lines())
    deadline = time.monotonic() + 30
    while requests.post(f"{on.url}/flush_cache", timeout=30).status_code != 200:  # refused while a request runs
        assert time.monotonic() < deadline, "the request still runs"
        time.sleep(0.5)
    assert on.generate(STORY)["meta_info"]["completion_tokens"] == 64
