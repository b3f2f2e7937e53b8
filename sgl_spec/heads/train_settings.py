"""What determines a training run, beside its data: with the same settings, the same loss curve on the same machine.

Stands before any round. A checkpoint holds its settings; going on with others is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from sgl_spec.errors import ConfigError

DTYPES = ("bfloat16", "float32")


@dataclass(frozen=True)
class TrainSettings:
    """How a head is trained.

    Attributes:
        steps: optimizer steps in all.
        seed: of the first weights and of the order of samples.
        tokens_per_step: rows of a packed batch, prompts included.
        draft_steps: steps that training-time test unrolls.
        step_decay: weight of each draft step's loss over that of the one before.
        learning_rate: its highest value; after `warmup_steps` it falls along a cosine to a thirtieth.
        warmup_steps: over which it rises from zero.
        clip: largest norm of a gradient.
        draft_vocabulary: tokens that can be drafted.
        inner: size of the head's feed-forward layer.
        dtype: of the arithmetic; weights are kept and updated in float32.
    """

    steps: int
    seed: int = 0
    tokens_per_step: int = 2048
    draft_steps: int = 4
    step_decay: float = 0.8
    learning_rate: float = 6e-4
    warmup_steps: int = 50
    clip: float = 0.5
    draft_vocabulary: int = 8192
    inner: int = 1536
    dtype: str = "bfloat16"

    def __post_init__(self) -> None:
        least = {
            "steps": 1,
            "tokens_per_step": 16,
            "draft_steps": 1,
            "warmup_steps": 0,
            "draft_vocabulary": 1,
            "inner": 1,
        }
        for name, bound in least.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < bound:
                raise ConfigError(f"{name} = {value!r}: wanted a whole number from {bound}")
        for name in ("step_decay", "learning_rate", "clip"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} = {getattr(self, name)!r}: wanted a positive number")
        if self.dtype not in DTYPES:
            raise ConfigError(f"dtype = {self.dtype!r}: wanted one of {', '.join(DTYPES)}")
