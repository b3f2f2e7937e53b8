"""The frontend loads SGLang (seconds, thousands of modules) only when an `Endpoint` is asked for."""

from __future__ import annotations

import subprocess
import sys


def test_all_but_the_endpoint_import_without_sglang_or_torch() -> None:
    script = (
        "import sys, sgl_spec, sgl_spec.frontend\n"
        "from sgl_spec.frontend import CallRecord, LoadedProgram, Runtime, load_program, run_program_file\n"
        "from sgl_spec.frontend import guard, http_client, process_tree, template_choice\n"
        "print(sorted({'sglang', 'torch', 'transformers'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
