"""Modes that share a server: what each asks of it, in prompts and in programs, and how many servers a fleet starts."""

from __future__ import annotations

import contextlib
import sys
from types import ModuleType

import pytest

from sgl_spec.cli import program_tasks
from sgl_spec.cli.bench import fleet
from sgl_spec.cli.bench.measure import request_body
from sgl_spec.cli.bench.modes import MERGED, MODES, SINGLE_ORIGINS, parse_modes, with_head
from sgl_spec.cli.bench.prompt import Prompt
from sgl_spec.drafting.hint import Hint, decode_hint
from sgl_spec.errors import ConfigError

PLAN = fleet.FleetPlan("/models/m", on_cpu=True, cores=2)


def test_modes_of_one_server_can_share_it():
    assert all(MODES[mode.server].server == mode.server for mode in MODES.values())
    for mode in MODES.values():
        host = MODES[mode.server]
        assert (mode.algorithm, mode.flags) == (host.algorithm, host.flags)
    asked = [mode.hint for mode in MODES.values() if mode.server == MERGED]
    assert len(set(asked)) == len(asked), "two modes that ask the same measure the same"


def test_each_mode_allows_what_its_name_says():
    assert all(MODES[MERGED].hint.allows(origin) for origin in ("lookup", "grammar.forced", "memory", "predict"))
    assert MODES[MERGED].hint.reads_memory
    assert not MODES["cold"].hint.reads_memory
    assert not MODES["cold"].hint.writes_memory
    assert MODES["cold"].hint.origins is None
    reported = {
        "lookup": {"lookup"},
        "memory": {"memory", "memory.template"},
        "template": {"template.shape", "template.example"},
        "grammar": {"grammar.forced", "grammar.text", "grammar.edge", "grammar.branch"},
        "eagle": {"eagle"},
    }
    everything = set().union(*reported.values())
    for origin in SINGLE_ORIGINS:
        assert {one for one in everything if MODES[origin].hint.allows(one)} == reported[origin]
        assert MODES[origin].hint.reads_memory
    assert {one for one in everything if MODES["no-head"].hint.allows(one)} == everything - {"eagle"}


def test_a_prompts_constraint_names_and_mode_are_sent_and_the_server_can_read_them():
    prompt = Prompt("id", "text", json_schema="{}", program="bfcl", slot="call", max_new_tokens=9, stop=("x",))
    body = request_body(prompt, 50, MODES["cold"].hint, "key")
    assert (body["text"], body["extra_key"]) == ("text", "key")
    params = body["sampling_params"]
    read = decode_hint(params.pop("custom_params")["sgl_spec"])
    assert read.hint == Hint(program="bfcl", slot="call", memory="off")
    assert params == {"temperature": 0.0, "max_new_tokens": 9, "stop": ["x"], "json_schema": "{}"}


@pytest.mark.parametrize("name", ["json_schema", "regex", "ebnf"])
def test_only_the_constraint_that_is_set_is_sent(name):
    params = request_body(Prompt("id", "text", **{name: "held"}), 50, Hint(), "key")["sampling_params"]
    assert {key: params[key] for key in ("json_schema", "regex", "ebnf") if key in params} == {name: "held"}


def test_a_prompt_without_names_sends_no_hint_in_a_mode_that_asks_nothing():
    assert "custom_params" not in request_body(Prompt("id", "text"), 50, MODES[MERGED].hint, "key")["sampling_params"]


def test_programs_ask_the_same_through_their_endpoint(monkeypatch):
    made = []
    module = ModuleType("sgl_spec.frontend.endpoint")
    module.Endpoint = lambda url, **options: made.append((url, options)) or object()
    monkeypatch.setitem(sys.modules, module.__name__, module)
    program_tasks._endpoint.cache_clear()
    try:
        first = program_tasks._endpoint("http://x:1", "key", MODES["grammar"].hint, 0)
        assert program_tasks._endpoint("http://x:1", "key", MODES["grammar"].hint, 0) is first
        assert program_tasks._endpoint("http://x:1", "key", MODES["grammar"].hint, 1) is not first, "side by side"
        assert program_tasks._endpoint("http://x:1", "other", MODES["cold"].hint, 0) is not first
    finally:
        program_tasks._endpoint.cache_clear()
    options = {"keep_output_ids": True, "speculate": True, "width": None}
    grammar = ("http://x:1", {**options, "extra_key": "key", "origins": frozenset({"grammar"}), "memory": "read-write"})
    assert made == [
        grammar,
        grammar,
        ("http://x:1", {**options, "extra_key": "other", "origins": None, "memory": "off"}),
    ]


def test_a_fleet_starts_one_server_for_all_modes_that_share_it(monkeypatch, capsys):
    started = []

    class Process:
        def __init__(self, command, log):
            self.command, self.name = command, log.name

        def wait_ready(self, waiting):
            waiting(11.0)

    @contextlib.contextmanager
    def running(process):
        started.append(process)
        yield process

    monkeypatch.setattr(fleet, "ServerProcess", Process)
    monkeypatch.setattr(fleet, "running", running)
    modes = parse_modes("cold,off,ngram,lookup")
    with fleet.open_fleet(modes, PLAN) as servers:
        assert [process.name for process in started] == ["off.log", "full.log", "ngram.log"]
        assert [server.mode for server in servers] == list(modes)
        off, cold, ngram, lookup = servers
        assert cold.command is lookup.command
        assert len({off.url, cold.url, ngram.url}) == 3
        assert cold.command.algorithm == MODES[MERGED].algorithm
    assert f"server 'full' is ready at {cold.url}" in capsys.readouterr().err


def test_a_mode_that_needs_a_head_gets_it(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    plain, eagle = with_head(parse_modes("off,eagle3"), tmp_path, on_cpu=True)
    assert plain == MODES["off"]
    flags = dict(zip(eagle.flags[::2], eagle.flags[1::2], strict=True))
    assert flags["--speculative-draft-model-path"] == str(tmp_path)
    assert flags["--speculative-draft-attention-backend"] == "intel_amx"
    assert with_head(parse_modes("off,full,eagle"), tmp_path, on_cpu=True)[1:] == tuple(
        MODES[name]._replace(flags=("--speculative-draft-model-path", str(tmp_path))) for name in ("full", "eagle")
    )
    (on_gpu,) = (m for m in with_head(parse_modes("off,eagle3"), tmp_path, on_cpu=False) if m.name == "eagle3")
    assert "--speculative-draft-attention-backend" not in on_gpu.flags


def test_a_missing_head_is_named_before_any_server_starts(tmp_path):
    with pytest.raises(ConfigError, match="'eagle3', which needs a draft head"):
        with_head(parse_modes("off,eagle3"), None, on_cpu=True)
    with pytest.raises(ConfigError, match="'eagle', which needs a draft head"):
        with_head(parse_modes("off,full,eagle"), None, on_cpu=True)
    with pytest.raises(ConfigError, match=r"config\.json"):
        with_head(parse_modes("off,full"), tmp_path, on_cpu=True)
    assert with_head(parse_modes("off,full"), None, on_cpu=True) == parse_modes("off,full")
