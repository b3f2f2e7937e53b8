"""Which drafters a server runs. Where it stands in a round: before all of them; the worker asks once, at start."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import NamedTuple, cast

from sgl_spec.config import SpecConfig
from sgl_spec.drafting.budget import DraftBudget
from sgl_spec.drafting.calibration.tables import Calibration
from sgl_spec.drafting.drafter import Drafter, DraftRequest
from sgl_spec.drafting.grammar.constraint_drafter import ConstraintDrafter
from sgl_spec.drafting.head.head_drafter import HeadDrafter
from sgl_spec.drafting.lookup.lookup_drafter import LookupDrafter
from sgl_spec.drafting.memory.memory_drafter import MemoryDrafter
from sgl_spec.drafting.memory.output_memory import OutputMemory
from sgl_spec.drafting.memory.slot_key import slot_key
from sgl_spec.drafting.planner import DraftPlanner
from sgl_spec.drafting.predict.predict_drafter import PredictDrafter
from sgl_spec.drafting.template.template_drafter import TemplateDrafter
from sgl_spec.errors import ConfigError
from sgl_spec.server.codec import ServerCodec

_LEAST_A = 1e-6


class Target(NamedTuple):
    """What drafting must know of the model.

    Attributes:
        vocab_size: token ids from here on bring a forward down, whatever the tokenizer or a drafter says.
        codec: None for a server without a tokenizer; then nothing that goes by text drafts.
    """

    vocab_size: int
    codec: ServerCodec | None


def make_planner(
    config: SpecConfig,
    target: Target,
    width: int,
    memory: OutputMemory | None,
    head: HeadDrafter | None = None,
    calibration: Calibration | None = None,
) -> DraftPlanner:
    """The planner of a server whose trees have `width` nodes. memory, calibration: None when the configuration keeps
    none; head: None without a draft model.

    Raises:
        ConfigError: a drafter named in the configuration cannot be loaded.
    """
    codec = target.codec
    min_a = max(config.min_gain, _LEAST_A)

    def past_outputs(request: DraftRequest) -> Sequence[Sequence[int]]:
        reads = memory is not None and request.hint.reads_memory
        return memory.outputs(slot_key(request)) if memory is not None and reads else ()

    def slot_of(request: DraftRequest) -> object:
        uses = memory is not None and request.hint.reads_memory and request.hint.writes_memory
        return slot_key(request) if uses else None

    drafters: list[Drafter] = [LookupDrafter(config.max_index_tokens, min_a=min_a)]
    if memory is not None:
        drafters.append(MemoryDrafter(memory, min_a))
    if codec is not None:
        drafters += [TemplateDrafter(codec, past_outputs, min_a), PredictDrafter(codec, min_a)]
    drafters += [load_drafter(name) for name in config.drafters]
    if head is not None:
        drafters.append(head)
    refiner = None if codec is None else ConstraintDrafter(codec, codec.vocabulary, past_outputs, slot_of, min_a)
    budget = DraftBudget(max_drafts=max(width - 1, 0), min_gain=config.min_gain)
    return DraftPlanner(drafters, budget, vocab_size=target.vocab_size, refiner=refiner, calibration=calibration)


def load_drafter(name: str) -> Drafter:
    """A drafter of the user's own, from `module:Class`.

    Raises:
        ConfigError: it cannot be imported or made, or lacks a drafter's methods; the message says which.
    """
    module, _, attribute = name.partition(":")
    try:
        drafter = getattr(importlib.import_module(module), attribute)()
    except Exception as error:  # whatever a user's module does while it is imported
        raise ConfigError(f"drafters: {name!r} cannot be made: {type(error).__name__}: {error}") from error
    wanted = ("origin", "start", "propose", "observe", "finish", "notes", "stop")
    missing = [method for method in wanted if not hasattr(drafter, method)]
    if missing:
        raise ConfigError(
            f"drafters: {name!r} has no {', '.join(missing)}; name sgl_spec.drafting.drafter.Drafter as its base"
        )
    return cast(Drafter, drafter)
