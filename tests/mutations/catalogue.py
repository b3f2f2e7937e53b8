"""All mutations."""

from __future__ import annotations

import ending_mutations
import logits_mutations
import sampling_mutations
import worker_mutations

MUTATIONS = (
    *logits_mutations.MUTATIONS,
    *sampling_mutations.MUTATIONS,
    *ending_mutations.MUTATIONS,
    *worker_mutations.MUTATIONS,
)
