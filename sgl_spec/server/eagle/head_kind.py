"""What `--speculative-draft-model-path` names: an EAGLE-3 head, an EAGLE head, or a whole small model.

Where it stands in a round: before all of them. SGLang asks the algorithm what it is in every process and many times, so
the answer is read from the model's config.json once.
"""

from __future__ import annotations

import enum
import functools
from typing import Any

from sglang.srt.runtime_context import get_spec
from transformers import PretrainedConfig

from sgl_spec.errors import ConfigError


class HeadKind(enum.Enum):
    """The kinds of draft model.

    EAGLE3 reads hidden states of three of the target's layers, EAGLE those after the last norm, MODEL none.
    """

    EAGLE3 = "eagle3"
    EAGLE = "eagle"
    MODEL = "model"

    @property
    def reads_hidden_states(self) -> bool:
        return self is not HeadKind.MODEL

    @property
    def layers(self) -> int:
        """Of so many of the target's layers it reads states."""
        return {HeadKind.EAGLE3: 3, HeadKind.EAGLE: 1, HeadKind.MODEL: 0}[self]


@functools.cache
def head_kind(path: str, revision: str | None = None) -> HeadKind:
    """The kind of the model at `path` (a folder, or a name on the hub), by the architecture its config.json names.

    Raises:
        ConfigError: there is no readable config.json, or it names no architecture.
    """
    try:
        config: dict[str, Any] = PretrainedConfig.get_config_dict(path, revision=revision)[0]
    except (OSError, ValueError) as error:
        raise ConfigError(f"--speculative-draft-model-path {path}: its config.json cannot be read: {error}") from error
    architecture = next(iter(config.get("architectures") or ()), "")
    if not architecture:
        raise ConfigError(
            f"--speculative-draft-model-path {path}: its config.json names no architecture; wanted one such as "
            "LlamaForCausalLMEagle3"
        )
    if "eagle3" in architecture.lower():
        return HeadKind.EAGLE3
    return HeadKind.EAGLE if "eagle" in architecture.lower() else HeadKind.MODEL


def served_kind() -> HeadKind | None:
    """The kind of the draft model of this process's server; None without one, or while no server is configured yet."""
    try:
        spec = get_spec()
    except ValueError:
        return None
    path = spec.speculative_draft_model_path
    return None if path is None else head_kind(path, spec.speculative_draft_model_revision)
