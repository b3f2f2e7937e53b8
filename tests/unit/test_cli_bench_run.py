"""`sgl-spec bench` and `sgl-spec demo` from end to end, against fake servers that speak SGLang's /generate."""

from __future__ import annotations

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from sgl_spec import bundled_model, cli
from sgl_spec.cli import machine, program_tasks
from sgl_spec.cli.bench import fleet
from sgl_spec.cli.bench.measure import Task, Workload
from sgl_spec.cli.bench.modes import MODES
from sgl_spec.cli.bench.prompt import Prompt
from sgl_spec.cli.server_command import ServerCommand
from sgl_spec.errors import ConfigError


class FakeServer:
    """Answers /generate with ten tokens: 0..9, or others where `wrong`; remembers what it was asked."""

    def __init__(self, mode: str) -> None:
        self.mode, self.wrong, self.fail = mode, False, False
        self.log: list[str] = []
        self.bodies: list[dict] = []
        handler = type("Handler", (BaseHTTPRequestHandler,), {"do_POST": self._post(), "log_message": lambda *a: None})
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_address[1]}"

    def _post(self):
        def do_post(handler):
            body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
            self.log.append(handler.path.partition("?")[0])
            if handler.path == "/generate":
                self.bodies.append(json.loads(body))
            answer = {"error": {"message": "out of memory"}} if self.fail else self.answer()
            handler.send_response(500 if self.fail else 200)
            handler.end_headers()
            handler.wfile.write(json.dumps(answer).encode())

        return do_post

    def answer(self) -> dict:
        ids = list(range(10))
        if self.wrong:
            ids[7] = 99
        meta = {"prompt_tokens": 3, "completion_tokens": 10, "cached_tokens": 0, "finish_reason": {"type": "stop"}}
        if self.mode == "full":
            stats = {"rounds": 3, "drafted": {"lookup": 12}, "reached": {"lookup": 8}, "accepted": {"lookup": 6}}
            meta |= {"spec_verify_ct": 3, "sgl_spec": [{"rounds": 1}, stats]}
        return {"text": " ".join(map(str, ids)), "output_ids": ids, "meta_info": meta}


@pytest.fixture
def fakes(monkeypatch, tmp_path):
    """Fake servers by name, put in the place of a real fleet."""
    servers: dict[str, FakeServer] = {name: FakeServer(name) for name in ("off", "ngram", "full")}

    @contextlib.contextmanager
    def open_fleet(modes, plan):
        yield tuple(
            fleet.Server(mode, ServerCommand(("x",), {}, servers[mode.server].url, plan.model, mode.algorithm))
            for mode in modes
        )

    monkeypatch.setattr(fleet, "open_fleet", open_fleet)
    monkeypatch.setattr(machine, "accelerator_name", lambda: None)
    monkeypatch.setattr(bundled_model, "prepare", lambda progress=None: tmp_path)
    yield servers
    for server in servers.values():
        server.http.shutdown()
        server.http.server_close()


BENCH = ["bench", "--programs", "", "--workloads", "copy", "--limit", "2", "--rounds", "2"]


def test_bench_measures_compares_and_writes_everything(fakes, tmp_path, capsys):
    out = tmp_path / "result.json"
    assert cli.main([*BENCH, "--max-new-tokens", "33", "--out", str(out)]) == 0
    table = capsys.readouterr().out
    row = next(line.split() for line in table.splitlines() if line.startswith("copy      full"))
    assert row[-1] == "4/4"
    assert row[-5:-1] == ["3.00", "-", "0.0", "%"]
    assert "copy      full  lookup       48       32        24            75.0 %" in table

    result = json.loads(out.read_text())
    assert (result["schema"], result["kind"]) == (1, "sgl_spec.bench")
    assert result["machine"]["device"] == "cpu"
    assert result["settings"]["limit"] == 2
    assert [mode["name"] for mode in result["modes"]] == ["off", "ngram", "full"]
    assert len(result["samples"]) == 2 * 2 * 3
    assert result["samples"][0]["calls"][0]["output_ids"] == list(range(10))
    assert {row["mode"]: row["tokens_per_step"] for row in result["summary"]} == {"off": 1.0, "ngram": 1.0, "full": 3.0}
    asked = fakes["full"].bodies[-1]["sampling_params"]
    assert (asked["temperature"], asked["max_new_tokens"]) == (0.0, 33)


def test_every_server_gets_the_same_and_is_flushed_before_each_pass(fakes):
    assert cli.main(BENCH) == 0
    expected = ["/generate", *(["/flush_cache", "/generate", "/generate"] * 2)]
    assert all(server.log == expected for server in fakes.values())
    keys = {name: [body.pop("extra_key") for body in server.bodies] for name, server in fakes.items()}
    assert fakes["off"].bodies == fakes["ngram"].bodies == fakes["full"].bodies
    nonce = keys["full"][0].removeprefix("bench-full-copy-warmup-")
    rounds = ["warmup", "1", "1", "2", "2"]
    assert keys == {mode: [f"bench-{mode}-copy-{part}-{nonce}" for part in rounds] for mode in keys}


def test_batches_are_measured_apart(fakes, tmp_path, capsys):
    out = tmp_path / "result.json"
    assert cli.main([*BENCH, "--batch", "1,2", "--modes", "off,full", "--out", str(out)]) == 0
    table = capsys.readouterr().out
    assert "copy x2" in table
    result = json.loads(out.read_text())
    assert [(row["workload"], row["batch"], row["tasks"], row["calls"]) for row in result["summary"]] == [
        ("copy", 1, 2, 4), ("copy", 1, 2, 4), ("copy x2", 2, 1, 4), ("copy x2", 2, 1, 4),
    ]  # fmt: skip
    assert [sample["batch"] for sample in result["samples"][-2:]] == [2, 2]
    assert not any(" " in body["extra_key"] for body in fakes["full"].bodies)


def test_modes_of_one_server_differ_by_hint_and_key_and_flush_it_once(fakes, tmp_path, capsys):
    out = tmp_path / "result.json"
    modes = ["--modes", "off,full,cold,lookup,memory", "--rounds", "1", "--out", str(out)]
    assert cli.main([*BENCH, *modes]) == 0
    assert fakes["full"].log == ["/generate"] * 4 + ["/flush_cache"] + ["/generate"] * 8
    hints = {}
    for body in fakes["full"].bodies[4:]:
        hints.setdefault(body["extra_key"].split("-")[1], []).append(body["sampling_params"].get("custom_params"))
    assert hints == {
        "full": [None, None],
        "cold": [{"sgl_spec": {"version": 1, "memory": "off"}}] * 2,
        "lookup": [{"sgl_spec": {"version": 1, "origins": ["lookup"]}}] * 2,
        "memory": [{"sgl_spec": {"version": 1, "origins": ["memory"]}}] * 2,
    }
    assert len({body["extra_key"] for body in fakes["full"].bodies}) == 8, "a warm-up fills nobody's memory"
    merged = next(line for line in capsys.readouterr().out.splitlines() if line.endswith("yes"))
    assert merged.split() == ["copy", "3.00", "3.00", "3.00", "lookup", "+0.000", "yes"]

    result = json.loads(out.read_text())
    assert {mode["name"]: mode["server"] for mode in result["modes"]} == {
        "off": "off", "full": "full", "cold": "full", "lookup": "full", "memory": "full",
    }  # fmt: skip
    assert {mode["name"]: mode["hint"] for mode in result["modes"]}["lookup"] == {"version": 1, "origins": ["lookup"]}
    (merged,) = result["merged"]
    assert merged["singles"] == {"lookup": 3.0, "memory": 3.0}
    assert (merged["full"], merged["best"], merged["margin"], merged["holds"]) == (3.0, "lookup", 0.0, True)
    assert {sample["extra_key"] for sample in result["samples"]} >= {
        body["extra_key"] for body in fakes["full"].bodies[4:]
    }
    row = next(row for row in result["summary"] if row["mode"] == "full")
    assert row["drafts"] == [{"origin": "lookup", "drafted": 24, "accepted": 12, "reached": 16}]
    assert (row["filled_tokens_per_step"], row["forced_share"]) == (None, 0.0)


def test_our_difference_fails_and_a_rivals_is_shown(fakes, capsys):
    fakes["ngram"].wrong = True
    assert cli.main(BENCH) == 0
    assert "'ngram' differs" in capsys.readouterr().out
    fakes["full"].wrong = True
    assert cli.main(BENCH) == 1
    assert "4 outputs of modes that promise" in capsys.readouterr().out


def test_a_failing_server_is_named(fakes, capsys):
    fakes["full"].fail = True
    assert cli.main(BENCH) == 2
    err = capsys.readouterr().err
    assert "server 'full' (mode 'full')" in err
    assert "out of memory" in err


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--modes", "full"], "must contain 'off'"),
        (["--port", "80"], "--port is 80"),
        (["--out", "/nonexistent/x.json"], "--out is /nonexistent/x.json"),
        (["--workloads", ""], "nothing to measure"),
        (["--programs", "nope.py"], "nope.py"),
    ],
)
def test_mistakes_are_refused_before_any_server_starts(fakes, capsys, extra, message):
    assert cli.main([*BENCH, *extra]) == 2
    assert message in capsys.readouterr().err
    assert all(server.log == [] for server in fakes.values())


@pytest.fixture
def demo_workloads(monkeypatch):
    from sgl_spec.cli.bench.measure import prompt_task

    def workload(spec: str, limit: int | None = None) -> Workload:
        return Workload(spec, (prompt_task(Prompt(f"{spec}-0", "text"), 10),))

    monkeypatch.setattr(program_tasks, "default_programs", lambda: ("one", "two", "three"))
    monkeypatch.setattr(program_tasks, "program_workload", workload)


def test_demo_prints_a_line_per_program(fakes, demo_workloads, capsys):
    assert cli.main(["demo"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2:]] == ["one", "two", "three"]
    assert all(line.endswith("yes") for line in lines[2:])
    assert fakes["ngram"].log == []


def test_demo_fails_when_an_output_differs(fakes, demo_workloads, capsys):
    fakes["full"].wrong = True
    assert cli.main(["demo"]) == 1
    out = capsys.readouterr().out
    assert "NO (1 of 1 differ)" in out
    assert "'full' differs from 'off' at character 14" in out


def test_demo_outside_a_clone_says_so(monkeypatch, tmp_path):
    import sgl_spec

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sgl_spec, "__file__", str(tmp_path / "site" / "sgl_spec" / "__init__.py"))
    with pytest.raises(ConfigError, match="in a clone of the repository"):
        program_tasks.default_programs()


def test_the_demos_programs_are_in_the_repository():
    assert len(program_tasks.default_programs()) == 3


def test_a_program_is_one_task_per_input(monkeypatch):
    from sgl_spec.frontend import program_main
    from sgl_spec.frontend.program_file import LoadedProgram

    seen = []
    loaded = LoadedProgram("p", object(), [{"n": number} for number in range(5)])
    monkeypatch.setattr(program_tasks, "load_program", lambda spec: loaded)
    monkeypatch.setattr(program_tasks, "_endpoint", lambda url, key, hint, seat: (url, key, hint, seat))

    def run_inputs(loaded, endpoint):
        seen.append((loaded.inputs, endpoint))
        return [program_main.RunResult(0, "", None, ())]

    monkeypatch.setattr(program_main, "run_inputs", run_inputs)
    workload = program_tasks.program_workload("p.py", 3)
    assert [task.id for task in workload.tasks] == ["p-0", "p-1", "p-2"]
    task: Task = workload.tasks[2]
    run = task.prepare(fleet.Server(MODES["cold"], ServerCommand((), {}, "http://x:1", "m", None)), "key")
    assert seen == [], "preparing runs nothing"
    assert run() == ()
    assert seen == [([{"n": 2}], ("http://x:1", "key", MODES["cold"].hint, 2))]
