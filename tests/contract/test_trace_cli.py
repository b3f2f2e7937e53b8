"""`sgl-spec trace`: the drawing of a program that can be read, the refusal of one that cannot, and recording it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_sglang_server import FakeServer, answer, serving

from sgl_spec import cli

ROOT = Path(__file__).parents[2]
RECORD, REACT = str(ROOT / "programs" / "json_record.py"), str(ROOT / "programs" / "react_agent.py")
PAGE = ROOT / "docs" / "tracing.md"


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with serving(FakeServer(special_tokens=("<|im_start|>",))) as one:
        one.generate = lambda body: answer(" I know.\nAction: Finish[x]")
        yield one


def trace(*argv: str) -> int:
    return cli.main(["trace", *argv])


def test_a_program_is_drawn_with_its_template(capsys: pytest.CaptureFixture[str]) -> None:
    assert trace(RECORD) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("json_record.json_record: 21 nodes, 1 holes, traced\n")
    assert r'| before "<|im_end|>\n<|im_start|>assistant\n"' in out
    assert trace(RECORD, "--chat-template", "llama-3-instruct") == 0
    assert "<|start_header_id|>assistant" in capsys.readouterr().out


def test_a_program_that_cannot_be_read_says_where_and_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert trace(REACT) == 1
    out, err = capsys.readouterr()
    assert out == ""
    first, second = err.splitlines()
    assert re.fullmatch(
        r"sgl-spec trace: react_agent cannot be read without running it: the program uses `\.rpartition` of the value "
        r"of `step` at react_agent\.py:\d+",
        first,
    )
    assert "--record --url" in second


def test_it_is_recorded_instead(server: FakeServer, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "react.html"
    assert trace(REACT, "--record", "--url", server.url, "--limit", "2", "--format", "html", "--out", str(file)) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "Recording 2 runs" in err
    assert err.endswith(f"wrote {file}\n")
    assert len(server.requests) == 2
    page = file.read_text(encoding="utf-8")
    assert "react_agent.react: 3 nodes, 1 holes, recorded over 2 runs" in page
    assert "<svg" in page


def test_a_program_that_can_be_read_is_not_run(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert trace(RECORD, "--record", "--url", server.url, "--format", "mermaid") == 0
    assert "flowchart TD" in capsys.readouterr().out
    assert server.requests == []


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([RECORD, "--record"], "--record runs the program: give it a server"),
        ([RECORD, "--chat-template", "nonsense"], "--chat-template: SGLang has none called 'nonsense'; it has "),
        ([RECORD, "--out", "/nowhere/at/all"], "--out: cannot write '/nowhere/at/all'"),
        (["nothing.py"], "'nothing.py' is not a Python file"),
        ([RECORD + ":other"], "has no 'other'"),
    ],
)
def test_a_mistake_is_one_sentence(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert trace(*argv) == 2
    err = capsys.readouterr().err
    assert err.startswith("sgl-spec trace: ")
    assert message in err
    assert err.count("\n") == 1


def test_help_is_light_and_lists_the_command() -> None:
    script = (
        "import sys\nfrom sgl_spec.cli import main\n"
        "try:\n    main(['trace', '--help'])\nexcept SystemExit:\n    pass\n"
        "print([name for name in ('torch', 'sglang', 'networkx') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "--record" in done.stdout
    assert done.stdout.endswith("[]\n")


def shown(name: str) -> str:
    """The block of the page under the comment `<!-- NAME -->`."""
    found = re.search(rf"<!-- {name} -->\n```\w*\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def test_the_page_shows_what_the_command_prints(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "judge.py").write_text(shown("program"), encoding="utf-8")
    (tmp_path / "refused.py").write_text(shown("refused program"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert trace("judge.py") == 0
    assert capsys.readouterr().out == shown("drawing")
    assert trace("refused.py") == 1
    assert capsys.readouterr().err == shown("refusal")
