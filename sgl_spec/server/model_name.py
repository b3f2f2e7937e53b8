"""Names the model a server serves, for what is kept on disk and true of that model alone; no part of a round."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def model_name(model_config: Any) -> str:
    """A digest of what the model is: its configuration and quantisation, not where it lies.

    Args:
        model_config: SGLang's ModelConfig.
    """
    shape = json.dumps(model_config.hf_config.to_dict(), sort_keys=True, default=str)
    return hashlib.blake2b(f"{shape} {model_config.quantization}".encode(), digest_size=12).hexdigest()
