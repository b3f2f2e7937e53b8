"""The README's program runs as it is printed: with a server of its own, and its counts at the end."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_the_program_in_the_readme(tmp_path: Path) -> None:
    block = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert block is not None
    script = tmp_path / "readme_program.py"
    script.write_text(block[1])
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    assert "A loan can be renewed twice." in done.stdout
    assert "quote copy" in done.stdout
    assert "'rounds':" in done.stdout
