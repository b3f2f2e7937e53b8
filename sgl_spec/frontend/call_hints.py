"""What an endpoint says about a call: the hint, from the program, the expression and the text written so far.

Stands before the round: drafting on the server reads it. Examples of a slot's output are looked for in the prompt
itself, so that even the first call ever of a slot has a shape to draft.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from sgl_spec.drafting.hint import MAX_NAME_CHARS, Hint, ShapePart, encode_hint, is_unicode
from sgl_spec.errors import ConfigError, HintError
from sgl_spec.frontend.expect import shape_of
from sgl_spec.frontend.predict import prediction_of
from sgl_spec.frontend.run_identity import SlotCall
from sgl_spec.program.graph import ProgramGraph
from sgl_spec.program.templates import find_examples
from sgl_spec.program.text_walk import RoleTexts

# Of a hole no graph is known for: the line it stands in, as far as it is written, tells it from others.
_MOST_BEFORE = 200


@dataclass(frozen=True)
class DraftOptions:
    """What of drafting an endpoint asks for; see `Hint`."""

    speculate: bool = True
    origins: frozenset[str] | None = None
    width: int | None = None
    memory: str = "read-write"

    @classmethod
    def checked(cls, speculate: bool, origins: Collection[str] | None, width: int | None, memory: str) -> DraftOptions:
        """The options, as the server would take them.

        Raises:
            ConfigError: it would not; the message says which and why.
        """
        if isinstance(origins, str):  # its letters would be taken for names
            raise ConfigError(f"Endpoint: origins is {origins!r}; give a set of names, such as {{{origins!r}}}")
        options = cls(speculate, None if origins is None else frozenset(origins), width, memory)
        try:
            encode_hint(Hint(origins=options.origins, width=width, memory=memory))
        except HintError as error:
            raise ConfigError(f"Endpoint: {error}") from error
        return options


class CallHints:
    """Makes the hints of one endpoint's calls."""

    def __init__(self, options: DraftOptions, roles: RoleTexts) -> None:
        self._options = options
        self._roles = roles
        self._graphs: dict[str, ProgramGraph] = {}

    def use(self, graph: ProgramGraph) -> None:
        """Look for the examples of `graph`'s holes where it says they are."""
        self._graphs[graph.program] = graph

    def make(self, program: str | None, call: SlotCall, text: str, stops: Iterable[str]) -> Hint:
        """The hint of a call that goes on from `text` and ends at one of `stops`."""
        options = self._options
        names = Hint(program=wire_name(program), slot=wire_name(call.slot))
        if not options.speculate:
            return names._replace(off=True)
        graph = self._graphs.get(program or "")
        template = graph.template(call.slot, self._roles, text) if graph is not None else None
        before, after = (template.before, template.after) if template else (_line_before(text), "")
        examples = find_examples(text, before, after, tuple(stops)) or find_examples(text, before, after, ("\n",))
        return names._replace(
            predict=prediction_of(call.expression),
            shape=_wire_shape(shape_of(call.expression) or ()),
            examples=tuple(filter(is_unicode, examples)),
            origins=options.origins,
            width=options.width,
            memory=options.memory,
        )


def _line_before(text: str) -> str:
    """The line that `text` ends in, with the line feed before it; in a chat, the header of the turn."""
    start = text.rstrip("\n").rfind("\n")
    return text[max(start, len(text) - _MOST_BEFORE, 0) :]


def _wire_shape(shape: tuple[Any, ...]) -> tuple[ShapePart, ...]:
    return tuple(None if part is ... else part for part in shape)


def wire_name(name: str | None) -> str | None:
    """The name itself, or, where a hint cannot carry it, a legible part of it with a digest of all of it."""
    if name is None or (len(name) <= MAX_NAME_CHARS and is_unicode(name)):
        return name
    plain = name.encode("utf-8", "backslashreplace")
    digest = hashlib.sha256(plain).hexdigest()[:16]
    return f"{plain.decode('utf-8')[: MAX_NAME_CHARS - 17]}~{digest}"
