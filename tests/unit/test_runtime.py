"""`Runtime` starts, waits for, and thoroughly ends a server. A small script plays the server and its children."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from sgl_spec.errors import ConfigError, ServerUnavailable
from sgl_spec.frontend import runtime as runtime_module
from sgl_spec.frontend.process_tree import free_port, is_port_free
from sgl_spec.frontend.runtime import Runtime, serve_command

# Listens, starts a child that ignores SIGTERM and whose own parent is gone, writes both pids down, says it is ready.
SERVER = """
import os, signal, socket, subprocess, sys, time
port, pids = int(sys.argv[1]), sys.argv[2]
stubborn = "import os, signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
stubborn += "open(sys.argv[1], 'a').write(f'{os.getpid()} '); time.sleep(600)"
orphaning = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {stubborn!r}, sys.argv[1]])"
subprocess.run([sys.executable, "-c", orphaning, pids], check=True)
while not os.path.exists(pids) or not open(pids).read().endswith(" "):
    time.sleep(0.02)
open(pids, "a").write(f"{os.getpid()} ")
listening = socket.create_server(("127.0.0.1", port))
print("loading the model", file=sys.stderr, flush=True)
print(f"sgl-spec ready http://127.0.0.1:{port} model=x", flush=True)
time.sleep(600)
"""
DYING = "import sys; print('reading weights'); sys.exit('no such model: xyz')"
SILENT = "import time; print('still loading', flush=True); time.sleep(600)"


@pytest.fixture
def pids_file(tmp_path: Path) -> Path:
    return tmp_path / "pids"


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch, pids_file: Path):
    def play(script: str) -> None:
        def command(port: int, **options: object) -> list[str]:
            return [sys.executable, "-c", script, str(port), str(pids_file)]

        monkeypatch.setattr(runtime_module, "serve_command", command)

    return play


def started(pids_file: Path) -> list[int]:
    return [int(pid) for pid in pids_file.read_text().split()]


def wait_until_gone(pids: list[int], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while left := [pid for pid in pids if psutil.pid_exists(pid)]:
        assert time.monotonic() < deadline, f"still running: {left}"
        time.sleep(0.05)


def test_start_and_stop_leave_no_process_port_or_log(play, pids_file: Path) -> None:
    play(SERVER)
    with Runtime() as server:
        assert server.url == f"http://127.0.0.1:{server.port}"
        assert not is_port_free(server.port)
        log = server.log_path
        assert log.exists()
    assert len(started(pids_file)) == 2
    wait_until_gone(started(pids_file), 0.5)
    assert is_port_free(server.port)
    assert not log.exists()
    server.stop()


def test_a_given_log_is_kept_and_holds_both_streams(play, tmp_path: Path) -> None:
    play(SERVER)
    Runtime(log_path=tmp_path / "log").stop()
    log = (tmp_path / "log").read_text()
    assert "loading the model" in log
    assert "sgl-spec ready" in log


def test_a_server_that_dies_is_quoted(play) -> None:
    play(DYING)
    with pytest.raises(ServerUnavailable, match=r"ended with status 1 [\s\S]*no such model: xyz") as caught:
        Runtime()
    assert "reading weights" in str(caught.value)


def test_a_server_that_is_never_ready_is_ended(play) -> None:
    play(SILENT)
    seen = []
    with pytest.raises(ServerUnavailable, match=r"not ready after 2\.5 s[\s\S]*still loading"):
        Runtime(start_timeout=2.5, progress=seen.append)
    assert seen[0].seconds >= 2
    assert seen[0].last_line == "still loading"
    wait_until_gone([child.pid for child in psutil.Process().children()], 0.5)


@pytest.mark.parametrize("death", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_server_dies_with_its_parent_however_that_dies(pids_file: Path, tmp_path: Path, death: int) -> None:
    parent = textwrap.dedent(
        f"""
        import sys, time
        from sgl_spec.frontend import runtime
        def command(port, **options):
            return [sys.executable, "-c", {SERVER!r}, str(port), {str(pids_file)!r}]
        runtime.serve_command = command
        server = runtime.Runtime(log_path={str(tmp_path / "log")!r})
        print(server.port, flush=True)
        time.sleep(600)
        """
    )
    process = subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    port = int(process.stdout.readline())
    process.send_signal(death)
    process.wait(20)
    process.stdout.close()
    wait_until_gone(started(pids_file))
    assert is_port_free(port)


def test_a_port_is_ours_only_when_free() -> None:
    port = free_port()
    assert is_port_free(port)


def test_the_command_line() -> None:
    command = serve_command(
        1234,
        off=True,
        server_args={
            "model_path": "m",
            "disable_radix_cache": True,
            "skip_server_warmup": False,
            "dtype": None,
            "tp_size": 2,
            "lora_paths": ["a", "b"],
            "json_model_override_args": {"x": 1},
        },
    )
    assert command == [
        sys.executable, "-m", "sgl_spec.cli", "serve", "--port", "1234", "--off", "--model-path", "m",
        "--disable-radix-cache", "--tp-size", "2", "--lora-paths", "a", "b", "--json-model-override-args", '{"x": 1}',
    ]  # fmt: skip
    with pytest.raises(ConfigError, match=r"^dtype: <object .* cannot be written as a server flag"):
        serve_command(1, off=False, server_args={"dtype": object()})
