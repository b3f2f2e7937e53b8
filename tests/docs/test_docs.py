"""A page of docs is executed, generated, or deleted: what the pages name exists, and what they show can be run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
IDS = [page.name for page in PAGES]

FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)#:]+)\)")
# Words in code style that are names of our own: CamelCase types, dotted module members.
TYPE = re.compile(r"^[A-Z][a-z]+(?:[A-Z][a-z]+)+$")
FOREIGN = {
    "RuntimeEndpoint", "BaseSpecWorker", "HookRegistry", "SpeculativeAlgorithm", "TypeError", "EagleDraftInput",
    "EagleVerifyInput", "EagleDraftWorker", "StandaloneDraftWorker", "TpModelWorker",
}  # fmt: skip


def _spans(page: Path) -> list[str]:
    return CODE.findall(FENCE.sub("", page.read_text()))


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_files_and_links_exist(page: Path) -> None:
    named = [s for s in _spans(page) if re.match(r"^(sgl_spec|tests|docs|programs)/[\w./]+$", s)]
    links = [page.parent / target for target in LINK.findall(page.read_text())]
    missing = [s for s in named if not (ROOT / s).exists()] + [str(p) for p in links if not p.exists()]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_types_exist(page: Path) -> None:
    source = "\n".join(p.read_text() for p in (ROOT / "sgl_spec").rglob("*.py"))
    named = {s.split(".")[0].split("(")[0] for s in _spans(page)}
    missing = [n for n in named if TYPE.match(n) and n not in FOREIGN and f"class {n}" not in source]
    assert not missing


def _commands() -> list[str]:
    shown = []
    for page in PAGES:
        for language, block in FENCE.findall(page.read_text()):
            if language in ("sh", "bash"):
                lines = (re.sub(r"^\w+='[^']*' ", "", line) for line in block.splitlines())
                shown += [line for line in lines if line.startswith("sgl-spec ")]
    return sorted(set(shown))


def test_there_are_commands_to_check() -> None:
    assert len(_commands()) >= 3


@pytest.mark.parametrize("command", _commands())
def test_commands_are_accepted(command: str) -> None:
    words = shlex.split(command, comments=True)[1:]
    if words[0] == "serve":
        words.append("--dry-run")
    elif words[0] != "doctor":
        words.append("--help")  # shows that the subcommand exists; its flags are checked below
    done = subprocess.run([sys.executable, "-m", "sgl_spec.cli", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    if words[0] not in ("serve", "doctor"):
        flags = [word for word in words if word.startswith("--") and word != "--help"]
        assert all(flag in done.stdout for flag in flags)


def _python_blocks() -> list[str]:
    return [block for page in PAGES for language, block in FENCE.findall(page.read_text()) if language == "python"]


@pytest.mark.parametrize("block", _python_blocks())
def test_python_blocks_compile_and_import(block: str) -> None:
    """Blocks that need a server are run by the server tier's programs; here they must compile and import."""
    compile(block, "docs", "exec")
    imports = "\n".join(line for line in block.splitlines() if re.match(r"(from|import) ", line))
    subprocess.run([sys.executable, "-c", imports], check=True)


RUN = re.compile(r"<!-- run -->\n```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", [page for page in PAGES if "<!-- run -->" in page.read_text()], ids=lambda p: p.name)
def test_blocks_marked_to_run_do(page: Path) -> None:
    """One after the other, as a reader would: later blocks use what earlier ones made."""
    code = "\n".join(RUN.findall(page.read_text()))
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_a_drafter_is_written_in_40_lines() -> None:
    block = RUN.findall((ROOT / "docs" / "write-a-drafter.md").read_text())[0]
    assert "class GlossaryDrafter" in block
    assert len([line for line in block.splitlines() if line.strip()]) <= 40


def test_the_readme_shows_a_demo_that_was_run() -> None:
    shown = re.search(r"<!-- demo -->(.*?)<!-- /demo -->", (ROOT / "README.md").read_text(), re.DOTALL)
    assert shown is not None
    for program in ("json_record", "quote_document", "react_agent"):
        assert re.search(rf"{program} .*x .* yes", shown[1])
