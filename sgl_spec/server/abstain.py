"""Which requests decode one token a round, and why.

Where it stands in a round: before drafting. A request comes here when the verifier cannot honour something it asked
for at every node of a tree; alone at the root, with exact semantics, it still can. Nothing is silently ignored.
"""

from __future__ import annotations

from typing import Any

LOGIT_PROCESSOR = "custom_logit_processor"
HIDDEN_STATES = "return_hidden_states"
SWITCHED_OFF = "off"


def reason(req: Any) -> str | None:
    """Why `req` (SGLang's Req) must decode singly, or None when it may speculate."""
    if req.custom_logit_processor:
        return LOGIT_PROCESSOR  # it may read the output so far
    if req.return_hidden_states:
        return HIDDEN_STATES  # rows of the tree are not rows of the output
    return None
