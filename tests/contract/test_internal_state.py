"""`/server_info` tells of our part on our servers, and stays SGLang's on others."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from sgl_spec.server import algorithm as algorithm_module
from sgl_spec.server.internal_state import add_ours

STATE = {"calibration": {"lookup": {"nodes": 3, "error": 0.1, "depths": {"1": 0.1}}}}


@pytest.mark.parametrize(("algorithm", "ours"), [("SGL_SPEC", {"sgl_spec": STATE}), ("EAGLE3", {}), (None, {})])
def test_our_servers_tell_of_their_drafts(
    algorithm: str | None, ours: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(algorithm_module, "get_spec", lambda: SimpleNamespace(speculative_algorithm=algorithm))
    scheduler = SimpleNamespace(draft_worker=SimpleNamespace(state=lambda: STATE))
    asked: list[Any] = []

    def sglangs(*given: Any) -> Any:
        asked.append(given)
        return SimpleNamespace(internal_state={"max_total_num_tokens": 8})

    answer = add_ours(sglangs, scheduler, "request")
    assert asked == [(scheduler, "request")]
    assert answer.internal_state == {"max_total_num_tokens": 8, **ours}
    json.dumps(answer.internal_state)
