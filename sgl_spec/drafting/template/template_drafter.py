"""Drafts what is known of a slot's form: the shape a client declares, examples it gives, and what the slot's past
outputs have in common. Asked by the planner at the start of a round.

Each source that a request has is followed by a cursor of its own, and its chains carry its origin:

    template.shape     the hint's `shape`
    template.example   the hint's `examples`
    memory.template    the newest outputs of the slot

Several outputs make a template (template_learning). One alone is followed as a prediction of little trust instead:
nothing in it shows which parts are constant, and a prediction expects edits anywhere.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from sgl_spec.drafting.drafter import Drafter, DraftRequest
from sgl_spec.drafting.memory.slot_key import slot_key
from sgl_spec.drafting.predict.predict_drafter import tokens_after
from sgl_spec.drafting.predict.prediction import Prediction
from sgl_spec.drafting.predict.prediction_cursor import PredictionCursor
from sgl_spec.drafting.template.declared_shape import DeclaredShape
from sgl_spec.drafting.template.shape_cursor import ShapeCursor
from sgl_spec.drafting.template.template_cursor import TemplateCursor
from sgl_spec.drafting.template.template_learning import MAX_OUTPUTS, learn
from sgl_spec.drafting.template.template_search import TemplateSearch
from sgl_spec.drafting.text_codec import TAIL_TOKENS, TextCodec
from sgl_spec.drafting.tree import Chain, DraftError

SHAPE = "template.shape"
EXAMPLE = "template.example"
MEMORY = "memory.template"
# Of a slot's one past output so much comes again, where it was followed so far: the keys but not the values.
SINGLE_TRUST = 0.75
# A template is not learned anew while it was learned from so much of the slot's outputs: that takes a millisecond or
# two, and what was searched in the old one is lost.
SAME_OUTPUTS = 0.75
MAX_KEPT = 64

PastOutputs = Callable[[DraftRequest], Sequence[Sequence[int]]]
_Kept = TypeVar("_Kept")


class SlotCursor(Protocol):
    """Follows one output along one source."""

    def extend(self, tokens: Iterable[int]) -> None: ...

    def propose(self, max_tokens: int) -> list[Chain]: ...


class _Learned(NamedTuple):
    """What several outputs came to: a template; for one output a prediction; None if they have nothing in common.
    `outputs` are their hashes."""

    source: TemplateSearch | Prediction | None
    outputs: frozenset[int]


class _Newest(Generic[_Kept]):
    """Keeps what was used last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()

    def get(self, key: Hashable) -> _Kept | None:
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def put(self, key: Hashable, value: _Kept) -> _Kept:
        self._kept[key] = value
        self._kept.move_to_end(key)
        if len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)
        return value


class TemplateDrafter(Drafter):
    """Drafts from shapes, examples and past outputs.

    Args:
        codec: of the target's tokenizer.
        past_outputs: the newest outputs of a request's slot, the newest first; may be empty. Only asked for requests
            that read the memory.
        min_a: nodes less likely to be accepted are not drafted.

    Raises:
        DraftError: min_a is no probability.
    """

    origin = "template"

    def __init__(self, codec: TextCodec, past_outputs: PastOutputs, min_a: float = 0.04) -> None:
        if not 0.0 <= min_a <= 1.0:
            raise DraftError(f"min_a is {min_a}; it is a probability, from 0 to 1")
        self._codec = codec
        self._past_outputs = past_outputs
        self._min_a = min_a
        self._cursors: dict[str, list[SlotCursor]] = {}
        self._shapes = _Newest[DeclaredShape]()
        self._examples = _Newest[_Learned]()
        self._memory = _Newest[_Learned]()

    def start(self, request: DraftRequest) -> None:
        """Find what is known of the request's output. What was made for another such request is used again."""
        self._cursors[request.rid] = list(self._sources(request))

    def _sources(self, request: DraftRequest) -> Iterator[SlotCursor]:
        hint = request.hint
        before = tuple(request.prompt[-TAIL_TOKENS:])
        if hint.shape and hint.allows(SHAPE):
            shape = self._shapes.get(hint.shape) or self._shapes.put(hint.shape, DeclaredShape(hint.shape, self._codec))
            yield ShapeCursor(shape, SHAPE, self._min_a, before)
        if hint.examples and hint.allows(EXAMPLE):
            yield from self._cursor(self._from_examples(hint.examples, before), EXAMPLE)
        if hint.reads_memory and hint.allows(MEMORY):
            yield from self._cursor(self._from_memory(request), MEMORY)

    def _cursor(self, learned: _Learned | None, origin: str) -> Iterator[SlotCursor]:
        if learned is None or learned.source is None:
            return
        if isinstance(learned.source, Prediction):
            yield PredictionCursor(learned.source, origin, self._min_a, SINGLE_TRUST)
        else:
            yield TemplateCursor(learned.source)

    def _from_examples(self, examples: tuple[str, ...], before: tuple[int, ...]) -> _Learned:
        key = (before, examples)
        known = self._examples.get(key)
        if known is None:
            outputs = [tuple(tokens_after(self._codec, before, text)) for text in examples[:MAX_OUTPUTS]]
            known = self._examples.put(key, self._learned(outputs, EXAMPLE))
        return known

    def _from_memory(self, request: DraftRequest) -> _Learned | None:
        outputs = [tuple(output) for output in self._past_outputs(request)[:MAX_OUTPUTS] if output]
        if not outputs:
            return None
        key = slot_key(request)  # has the owner in it: what one's outputs came to is never used for another
        known = self._memory.get(key)
        if known is None or len(known.outputs.intersection(map(hash, outputs))) < SAME_OUTPUTS * len(outputs):
            known = self._memory.put(key, self._learned(outputs, MEMORY))
        return known

    def _learned(self, outputs: Sequence[tuple[int, ...]], origin: str) -> _Learned:
        hashes = frozenset(map(hash, outputs))
        if len(outputs) == 1:
            return _Learned(Prediction(outputs[0]), hashes)
        template = learn(outputs)
        return _Learned(None if template is None else TemplateSearch(template, origin, self._min_a), hashes)

    def propose(self, rid: str, max_tokens: int) -> list[Chain]:
        """What each source says comes next, about `max_tokens` nodes each.

        Raises:
            DraftError: the request never started.
        """
        cursors = self._of(rid)
        if len(cursors) == 1:
            return cursors[0].propose(max_tokens)
        return [chain for cursor in cursors for chain in cursor.propose(max_tokens)]

    def observe(self, rid: str, tokens: Sequence[int]) -> None:
        """Follow committed tokens.

        Raises:
            DraftError: the request never started.
        """
        for cursor in self._of(rid):
            cursor.extend(tokens)

    def stop(self, rid: str) -> None:
        """Forget the request, not what was learned."""
        self._cursors.pop(rid, None)

    def _of(self, rid: str) -> list[SlotCursor]:
        try:
            return self._cursors[rid]
        except KeyError:
            raise DraftError(f"rid {rid!r} is not among the {len(self._cursors)} started requests") from None
