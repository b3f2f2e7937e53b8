"""What `/server_info` tells of our part of a server, for those who run it: a request is told only of itself.

Where it stands in a round: between two of them, when somebody asks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sgl_spec.server.algorithm import decodes_here
from sgl_spec.server.report import FIELD


def add_ours(original: Callable[..., Any], scheduler: Any, *given: Any) -> Any:
    """SGLang's answer with `sgl_spec` in its `internal_state`, on a server of ours. A hook: SGLang asks no worker."""
    answer = original(scheduler, *given)
    if decodes_here():
        answer.internal_state[FIELD] = scheduler.draft_worker.state()
    return answer
