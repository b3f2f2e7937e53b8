"""Which requests decode one token a round, and why.

Where it stands in a round: before drafting. A request comes here when the verifier cannot honour something it asked
for at every node of a tree; alone at the root, with exact semantics, it still can. Nothing is silently ignored.
"""

from __future__ import annotations

from typing import Any

PENALTY = "penalty"
MIN_NEW_TOKENS = "min_new_tokens"
LOGIT_PROCESSOR = "custom_logit_processor"
HIDDEN_STATES = "return_hidden_states"
SWITCHED_OFF = "off"


def reason(req: Any) -> str | None:
    """Why `req` (SGLang's Req) must decode singly, or None when it may speculate."""
    params = req.sampling_params
    if params.frequency_penalty or params.presence_penalty or params.repetition_penalty != 1.0:
        return PENALTY  # they count the tokens of the path to a node
    if params.min_new_tokens > len(req.output_ids):
        return MIN_NEW_TOKENS  # likewise, until enough are out
    if req.custom_logit_processor:
        return LOGIT_PROCESSOR  # it may read the output so far
    if req.return_hidden_states:
        return HIDDEN_STATES  # rows of the tree are not rows of the output
    return None
