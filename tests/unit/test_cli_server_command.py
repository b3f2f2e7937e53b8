"""Which command starts a server: our defaults, and that whatever the user says wins, once."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from sgl_spec import cli
from sgl_spec.cli import machine
from sgl_spec.cli.serve import ready_line
from sgl_spec.cli.server_command import (
    Flag,
    ServerRequest,
    build_server_command,
    cpu_server_defaults,
    has_flag,
    parse_flags,
)
from sgl_spec.errors import ConfigError
from sgl_spec.frontend.runtime import serve_command

REQUEST = ServerRequest("SGL_SPEC", 4000, (), "/models/m", on_cpu=True, cores=3)


def flags_of(command) -> dict[str, str | None]:
    """The flags after `python -m sglang.launch_server`; fails on a name given twice."""
    assert command.argv[:3] == (sys.executable, "-m", "sglang.launch_server")
    found = parse_flags(command.argv[3:])
    assert len({flag.name for flag in found}) == len(found), command.argv
    return {flag.name: flag.value for flag in found}


def build(*user: str, env: dict[str, str] | None = None, **changes):
    return build_server_command(REQUEST._replace(user_flags=user, **changes), env or {})


def test_defaults_on_a_cpu():
    command = build()
    flags = flags_of(command)
    assert flags["--model-path"] == command.model == "/models/m"
    assert flags["--speculative-algorithm"] == command.algorithm == "SGL_SPEC"
    assert (flags["--host"], flags["--port"], command.url) == ("127.0.0.1", "4000", "http://127.0.0.1:4000")
    assert flags["--device"] == "cpu"
    assert "--sleep-on-idle" in flags
    assert command.env == {"SGLANG_USE_CPU_ENGINE": "1", "OMP_NUM_THREADS": "3"}


def test_an_accelerator_needs_none_of_the_cpu_defaults():
    command = build(on_cpu=False)
    ours = {flag.name for flag in cpu_server_defaults(1).flags}
    assert ours.isdisjoint(flags_of(command))
    assert command.env == {}


@pytest.mark.parametrize(("device", "on_cpu", "engine"), [("cpu", False, True), ("cuda", True, False)])
def test_the_users_device_decides(device, on_cpu, engine):
    command = build("--device", device, on_cpu=on_cpu)
    assert flags_of(command)["--device"] == device
    assert ("SGLANG_USE_CPU_ENGINE" in command.env) is engine


def test_off_has_no_algorithm():
    command = build(algorithm=None)
    assert "--speculative-algorithm" not in flags_of(command)
    assert command.algorithm is None


def test_off_samples_as_speculation_does():
    """So that a seed means the same on both servers. SGLang's own sampler stays where another needs it."""
    assert flags_of(build(algorithm=None))["--sampling-backend"] == "sgl_spec"
    assert flags_of(build("--sampling-backend", "pytorch", algorithm=None))["--sampling-backend"] == "pytorch"
    beside = (("--enable-watermark",), ("--rl-on-policy-target", "fsdp"), ("--speculative-algorithm", "NGRAM"))
    assert all("--sampling-backend" not in flags_of(build(*words, algorithm=None)) for words in beside)
    assert "--sampling-backend" not in flags_of(build())


@pytest.mark.parametrize("words", [["--max-total-tokens", "77"], ["--max-total-tokens=77"]])
def test_a_users_flag_replaces_ours(words):
    assert flags_of(build(*words))["--max-total-tokens"] == "77"


def test_the_second_spelling_of_the_model_counts():
    command = build("--model", "other/model")
    assert flags_of(command)["--model-path"] == command.model == "other/model"
    assert has_flag(["--model=other/model"], "--model-path")


def test_users_algorithm_host_and_many_values_pass():
    command = build("--speculative-algorithm", "NGRAM", "--host", "0.0.0.0", "--cuda-graph-bs", "1", "2", "4")
    assert command.algorithm == "NGRAM"
    assert command.url == "http://127.0.0.1:4000"
    assert command.argv[-6:-2] == ("--cuda-graph-bs", "1", "2", "4")


def test_the_environment_keeps_its_own_settings():
    assert build(env={"OMP_NUM_THREADS": "1"}).env == {"SGLANG_USE_CPU_ENGINE": "1"}


def test_a_free_port_is_picked_and_named():
    command = build(port=None)
    assert command.url == f"http://127.0.0.1:{flags_of(command)['--port']}"


@pytest.mark.parametrize("port", [0, 65536, -1])
def test_an_impossible_port_is_named(port):
    with pytest.raises(ConfigError, match=f"--port is {port}"):
        build(port=port)


def test_a_config_file_is_the_users_word_too(tmp_path):
    file = tmp_path / "server.yaml"
    file.write_text("port: 5005\nmax_total_tokens: 99\nmodel-path: from/file\n")
    command = build("--config", str(file), port=None)
    flags = flags_of(command)
    assert command.url == "http://127.0.0.1:5005"
    assert command.model == "from/file"
    assert {"--port", "--max-total-tokens", "--model-path"}.isdisjoint(flags)
    assert flags_of(build("--config", str(file)))["--port"] == "4000"


@pytest.mark.parametrize("content", [None, "- a\n- b\n", "a: [b"])
def test_a_bad_config_file_is_named(tmp_path, content):
    file = tmp_path / "server.yaml"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ConfigError, match=r"server\.yaml"):
        build("--config", str(file))


def test_a_stray_word_is_named():
    with pytest.raises(ConfigError, match="'stray'"):
        parse_flags(["stray", "--off"])


def test_a_switch_has_no_value():
    assert Flag("--x", ("--x",)).value is None


def test_as_shell_can_be_pasted():
    command = build("--json-model-override-args", '{"a": "b c"}')
    words = shlex.split(command.as_shell())
    assert words[:3] == ["env", "OMP_NUM_THREADS=3", "SGLANG_USE_CPU_ENGINE=1"]
    assert words[-1] == "4000"
    assert '{"a": "b c"}' in words


def test_dry_run_prints_the_command_and_prepares_nothing(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(machine, "accelerator_name", lambda: None)
    monkeypatch.setenv("SGLSPEC_CACHE", str(tmp_path))
    assert cli.main(["serve", "--dry-run", "--port", "4100", "--mem-fraction-static", "0.5", "--", "--tp=2"]) == 0
    captured = capsys.readouterr()
    words = shlex.split(captured.out)
    assert words[words.index("--mem-fraction-static") + 1] == "0.5"
    assert {"--tp=2", "4100", "SGL_SPEC", "SGLANG_USE_CPU_ENGINE=1"} <= set(words)
    assert any(word.startswith(str(tmp_path)) for word in words)
    assert "not prepared yet" in captured.err
    assert list(tmp_path.iterdir()) == []


def test_dry_run_with_a_model_says_nothing_of_the_bundled_one(monkeypatch, capsys):
    monkeypatch.setattr(machine, "accelerator_name", lambda: "cuda")
    assert cli.main(["serve", "--off", "--dry-run", "--model-path", "a/b"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert "SGL_SPEC" not in captured.out
    assert "--model-path a/b" in captured.out


@pytest.mark.parametrize(
    "argv",
    [
        ["--off", "--algorithm", "NGRAM"],
        ["--off", "--speculative-algorithm", "NGRAM"],
        ["--algorithm", "EAGLE3", "--speculative-algorithm=NGRAM"],
    ],
)
def test_contradictions_are_refused(argv, capsys):
    assert cli.main(["serve", "--dry-run", *argv]) == 2
    assert "contradict" in capsys.readouterr().err


def test_ready_line():
    line = ready_line(build(algorithm=None), 17)
    assert line == "sgl-spec ready http://127.0.0.1:4000 model=/models/m speculation=off pid=17"
    assert "speculation=on" in ready_line(build(), 17)


def config_of(command) -> dict[str, object]:
    return json.loads(command.env["SGLSPEC_CONFIG"])


def test_a_memory_file_reaches_the_servers_settings_as_an_absolute_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert config_of(build(memory=Path("m.bin")))["memory_file"] == str(tmp_path / "m.bin")
    assert "SGLSPEC_CONFIG" not in build().env


@pytest.mark.parametrize("as_file", [False, True])
def test_a_memory_file_joins_the_users_settings_and_wins_over_theirs(tmp_path, as_file):
    text = '{"width": 7}'
    if as_file:
        (tmp_path / "config.json").write_text(text)
        text = str(tmp_path / "config.json")
    config = config_of(build(env={"SGLSPEC_CONFIG": text}, memory=tmp_path / "m.bin"))
    assert (config["width"], config["memory_file"]) == (7, str(tmp_path / "m.bin"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [('{"widht": 7}', "unknown setting 'widht'"), ('{"memory_tokens": 0}', "memory_tokens = 0 remembers nothing")],
)
def test_settings_that_are_wrong_are_named_before_a_server_starts(tmp_path, settings, message):
    with pytest.raises(ConfigError, match=message):
        build(env={"SGLSPEC_CONFIG": settings}, memory=tmp_path / "m.bin")


def test_a_memory_file_that_cannot_be_one_is_named(tmp_path):
    with pytest.raises(ConfigError, match=rf"there is no folder {tmp_path}/nowhere; make it first"):
        build(memory=tmp_path / "nowhere" / "m.bin")
    with pytest.raises(ConfigError, match="is a folder; name a file"):
        build(memory=tmp_path)


@pytest.mark.parametrize(
    ("words", "algorithm", "reason"),
    [
        ((), None, "with --off: only SGL_SPEC has a memory"),
        ((), "NGRAM", "with --speculative-algorithm NGRAM: only SGL_SPEC has a memory"),
        (("--speculative-algorithm", "EAGLE3"), "SGL_SPEC", "with --speculative-algorithm EAGLE3"),
    ],
)
def test_a_memory_without_our_algorithm_is_refused(tmp_path, words, algorithm, reason):
    with pytest.raises(ConfigError, match=reason):
        build(*words, algorithm=algorithm, memory=tmp_path / "m.bin")


def test_serve_and_runtime_take_a_memory_file(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(machine, "accelerator_name", lambda: None)
    monkeypatch.delenv("SGLSPEC_CONFIG", raising=False)
    typed = serve_command(4100, off=False, server_args={"memory": tmp_path / "m.bin", "model_path": "a/b"})[3:]
    assert cli.main([*typed, "--dry-run"]) == 0
    (setting,) = [word for word in shlex.split(capsys.readouterr().out) if word.startswith("SGLSPEC_CONFIG=")]
    assert json.loads(setting.partition("=")[2])["memory_file"] == str(tmp_path / "m.bin")
    assert cli.main([*typed, "--dry-run", "--off"]) == 2
    assert "only SGL_SPEC has a memory" in capsys.readouterr().err
