"""The property all else rests on: a token verified in a tree has the bits it has when it is decoded alone.

For random pairs of a prefix (1 to 700 tokens) and a tree (up to 16 nodes) and for both data types, final hidden
state and logits at every node of a verify forward equal, bit for bit, those of decoding that node's path token by
token over the same prefix; also when four trees are verified in one batch. The model is the bundled one, in SGLang's
own ModelRunner; each data type runs in a process of its own (`bitwise_pairs.py`). `make test` tries 80 pairs, `make
bitwise` 200.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PAIRS = int(os.environ.get("SGLSPEC_BITWISE_PAIRS", "80"))
CONTROL_NODES = 4
_SCRIPT = Path(__file__).with_name("bitwise_pairs.py")
_MOST_SECONDS = 1200


@pytest.fixture(scope="session")
def bundled_model() -> str:
    """SGLSPEC_TEST_MODEL, or the bundled model, prepared now if it never was."""
    from sgl_spec.bundled_model import prepare

    return os.environ.get("SGLSPEC_TEST_MODEL") or str(prepare())


def _report(model: str, dtype: str) -> dict[str, Any]:
    command = [sys.executable, str(_SCRIPT), model, dtype, str(PAIRS)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_MOST_SECONDS, env={**os.environ, "OMP_WAIT_POLICY": "PASSIVE"}
    )
    assert done.returncode == 0, done.stderr[-3000:]
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_a_node_of_a_tree_has_the_bits_of_decoding_its_path_alone(bundled_model: str, dtype: str) -> None:
    report = _report(bundled_model, dtype)

    assert report["differences"] == []
    # What was compared is what was promised.
    assert report["pairs"] == PAIRS
    assert report["compared_alone"] == report["compared_together"] == report["nodes"] > 4 * PAIRS
    assert report["longest_prefix"] > 600
    assert report["deepest"] >= 10
    assert report["branching"] > PAIRS / 3
    assert report["prefill_rows"] > 0
    assert report["control_changed"] == CONTROL_NODES
