"""Settings: unknown names, wrong types and ranges are refused with the field, the value and what would be right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sgl_spec import ConfigError, SpecConfig


def test_defaults_when_the_environment_says_nothing() -> None:
    assert SpecConfig.from_environment({}) == SpecConfig()


def test_reads_json_from_the_variable_and_from_a_file(tmp_path: Path) -> None:
    wanted = SpecConfig(width=8, min_gain=0.1)
    assert SpecConfig.from_environment({"SGLSPEC_CONFIG": wanted.to_json()}) == wanted
    file = tmp_path / "spec.json"
    file.write_text(json.dumps({"width": 8, "min_gain": 0.1}))
    assert SpecConfig.from_environment({"SGLSPEC_CONFIG": str(file)}) == wanted


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"widht": 8}, "unknown setting 'widht'; the settings are width, min_gain"),
        ({"width": 0}, "width = 0: wanted a whole number from 1 to 256"),
        ({"width": 2.5}, "width = 2.5"),
        ({"width": True}, "width = True"),
        ({"min_gain": 1.0}, "min_gain = 1.0"),
        ({"min_gain": "high"}, "min_gain = 'high'"),
        ({"adaptive": 1}, "adaptive = 1: wanted true or false"),
        ({"explore": 1.0}, "explore = 1.0: wanted a number from 0 up to"),
        ({"head_prior": "high"}, "head_prior = 'high'"),
        ({"calibrated": "no"}, "calibrated = 'no': wanted true or false"),
        ({"calibration_file": ""}, "calibration_file = '': wanted the path of a file"),
        ({"calibration_file": "c", "calibrated": False}, "wanted null, since calibrated = false learns nothing"),
        ({"max_index_tokens": 1}, "max_index_tokens = 1"),
        ({"memory_tokens": -1}, "memory_tokens = -1: wanted a whole number from 0 to 100000000"),
        ({"memory_tokens": "many"}, "memory_tokens = 'many'"),
        ({"memory_slot_tokens": 63}, "memory_slot_tokens = 63: wanted a whole number from 64"),
        (
            {"memory_tokens": 1000, "memory_slot_tokens": 501},
            "memory_slot_tokens = 501: wanted at most half of .* 1000",
        ),
        ({"memory_file": ""}, "memory_file = '': wanted the path of a file"),
        ({"memory_file": 7}, "memory_file = 7: wanted the path of a file"),
        ({"memory_tokens": 0, "memory_file": "m"}, "memory_file = 'm': wanted null, since memory_tokens = 0"),
    ],
)
def test_refuses(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SpecConfig.from_dict(values)


@pytest.mark.parametrize(
    ("text", "message"),
    [("{nonsense", "does not hold JSON"), ("/no/such/file.json", "cannot be read")],
)
def test_refuses_what_it_cannot_read(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SpecConfig.from_environment({"SGLSPEC_CONFIG": text})


def test_memory_can_be_turned_off_and_be_as_small_as_one_slot_with_its_program() -> None:
    assert SpecConfig(memory_tokens=0).memory_file is None
    assert SpecConfig(memory_tokens=128, memory_slot_tokens=64, memory_file="m.bin").memory_slot_tokens == 64


def test_refuses_a_list(tmp_path: Path) -> None:
    file = tmp_path / "list.json"
    file.write_text("[1]")
    with pytest.raises(ConfigError, match="holds a JSON list"):
        SpecConfig.from_environment({"SGLSPEC_CONFIG": str(file)})


def test_drafters_are_named_by_module_and_class() -> None:
    config = SpecConfig.from_dict({"drafters": ["mine.drafters:Parrot"]})
    assert config.drafters == ("mine.drafters:Parrot",)
    assert SpecConfig.from_dict(json.loads(config.to_json())) == config
    for wrong in ("mine:Parrot", [5], ["Parrot"], ["mine.Parrot"], ["mine:Parrot()"]):
        with pytest.raises(ConfigError, match="drafters"):
            SpecConfig.from_dict({"drafters": wrong})
