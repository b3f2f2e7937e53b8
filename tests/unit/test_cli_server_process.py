"""Starting, awaiting and ending a server. A few lines of Python play the server and its stubborn children."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time

import psutil
import pytest

from sgl_spec.cli import server_process
from sgl_spec.cli.server_command import ServerCommand
from sgl_spec.cli.server_process import ServerProcess, running, tail
from sgl_spec.errors import ServerUnavailable
from sgl_spec.frontend.process_tree import free_port, is_port_free

# Answers 503 twice, then 200, and has a child that ignores SIGTERM.
SERVER = """
import http.server, subprocess, sys
deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", deaf])
print("child", child.pid, flush=True)
class Handler(http.server.BaseHTTPRequestHandler):
    asked = 0
    def do_GET(self):
        Handler.asked += 1
        self.send_response(503 if Handler.asked < 3 else 200)
        self.end_headers()
    def log_message(self, *args):
        pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
DYING = "import sys; print('loading'); sys.exit('no such model: xyz')"


def server(script: str, tmp_path, port: int | None = None) -> ServerProcess:
    port = port or free_port()
    argv = (sys.executable, "-c", script, str(port))
    return ServerProcess(ServerCommand(argv, {}, f"http://127.0.0.1:{port}", "m", None), tmp_path / "server.log")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(server_process, "POLL_S", 0.02)
    monkeypatch.setattr(server_process, "STOP_GRACE_S", 0.3)


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False


def child_of(log) -> int:
    return int(log.read_text().split()[1])


def test_waits_until_the_server_answers_and_ends_its_whole_tree(tmp_path):
    process = server(SERVER, tmp_path)
    polls = []
    with running(process):
        process.wait_ready(waiting=polls.append)
        child = child_of(tmp_path / "server.log")
        assert psutil.pid_exists(child)
        pid = process.pid
    assert len(polls) >= 2
    assert gone(pid)
    assert gone(child)
    assert is_port_free(int(process.command.argv[-1]))
    with pytest.raises(ServerUnavailable, match="not running"):
        _ = process.pid


def test_an_error_on_the_way_ends_it_too(tmp_path):
    process = server(SERVER, tmp_path)

    def work() -> None:
        with running(process):
            process.wait_ready()
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        work()
    assert gone(child_of(tmp_path / "server.log"))


def test_a_child_that_outlived_its_server_is_ended(tmp_path):
    process = server(SERVER, tmp_path)
    with running(process):
        process.wait_ready()
        child = child_of(tmp_path / "server.log")
        psutil.Process(process.pid).kill()
        assert process.wait() == 128 + signal.SIGKILL
    assert gone(child)


def test_a_server_that_dies_is_one_sentence_with_its_last_lines(tmp_path):
    process = server(DYING, tmp_path)
    with pytest.raises(ServerUnavailable) as caught, running(process):
        process.wait_ready()
    assert "stopped while starting (exit code 1)" in str(caught.value)
    assert "no such model: xyz" in str(caught.value)


def test_a_server_that_never_answers_times_out(tmp_path):
    process = server("import os, time; print(os.getpid(), flush=True); time.sleep(600)", tmp_path)

    def until_it_runs(waited: float) -> None:
        while not (tmp_path / "server.log").read_text():
            time.sleep(0.02)

    with pytest.raises(ServerUnavailable, match="did not answer within 0 s"), running(process):
        process.wait_ready(timeout_s=0.2, waiting=until_it_runs)
    assert gone(int((tmp_path / "server.log").read_text()))


def test_stopping_twice_and_stopping_what_never_started(tmp_path):
    process = server(SERVER, tmp_path)
    process.stop()
    with pytest.raises(ServerUnavailable, match="not started"):
        _ = process.pid
    process.start()
    process.stop()
    process.stop()
    assert is_port_free(int(process.command.argv[-1]))


def test_a_log_file_in_no_folder_is_named(tmp_path):
    process = ServerProcess(
        ServerCommand((sys.executable,), {}, "http://127.0.0.1:1", "m", None), tmp_path / "no" / "log"
    )
    with pytest.raises(ServerUnavailable, match="cannot be written"):
        process.start()


def test_tail_is_the_end(tmp_path):
    log = tmp_path / "log"
    log.write_text("\n".join(f"line {number}" for number in range(50)))
    assert tail(log, 2) == "  line 48\n  line 49"
    assert tail(tmp_path / "none") == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_serve_leaves_nothing_however_it_ends(tmp_path, number):
    """`_serve` in a process of its own, ended by a signal; even SIGKILL must take the server along."""
    port, log = free_port(), tmp_path / "server.log"
    script = f"""
    import sys
    from pathlib import Path
    from sgl_spec.cli import serve
    from sgl_spec.cli.server_command import ServerCommand
    from sgl_spec.cli.signals import raise_on_termination
    command = ServerCommand((sys.executable, "-c", {SERVER!r}, "{port}"), {{}}, "http://127.0.0.1:{port}", "m", None)
    with raise_on_termination():
        serve._serve(command, Path({str(log)!r}))
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        # A shell starts what runs behind it with Ctrl-C ignored, which children inherit.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as client:  # fmt: skip
        line = client.stdout.readline()
        assert line.startswith(f"sgl-spec ready http://127.0.0.1:{port} ")
        pid, child = int(line.split("pid=")[1]), child_of(log)
        client.send_signal(number)
        try:
            client.wait(20)
        finally:
            client.kill()  # else leaving the block would wait for it, for ever
    assert gone(pid)
    assert gone(child)
    assert is_port_free(port)
