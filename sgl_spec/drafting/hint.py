"""The hint a client sends inside its request: `custom_params["sgl_spec"]`. The only wire format, version 1.

    {"version": 1, "program": "judge", "slot": "verdict",                          who asks
     "predict": "...", "shape": ["Because ", null, ".\\n", ["Yes", "No"]],          what the output may be
     "examples": ["Because it rhymes.\\nYes"],
     "off": false, "origins": ["lookup", "memory"], "width": 8, "memory": "read"}   what drafting may do

Every field but the version may be left out. Read once, before a request's first round. A hint comes from anyone who
can reach the server, so whatever is wrong with it makes the server ignore it and say why; it never fails a request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from sgl_spec.errors import HintError

VERSION = 1
MAX_NAME_CHARS = 200
MAX_PREDICT_CHARS = 262_144
MAX_PARTS = 64
MAX_SHAPE_CHARS = 16_384
MAX_EXAMPLES = 16
MAX_EXAMPLE_CHARS = 65_536
MAX_ORIGINS = 32
MAX_WIDTH = 256
MEMORY_USES = ("read-write", "read", "write", "off")

# A part of a shape: text the output has there, None for free text, or several texts of which it has one.
ShapePart = str | None | tuple[str, ...]


class Hint(NamedTuple):
    """What a client says about a request.

    Attributes:
        version: of the wire format.
        program: name of the program that asks, 1 to 200 characters.
        slot: which `gen` of that program, 1 to 200 characters.
        predict: the output as the client expects it, at most 262,144 characters.
        shape: the output's parts in order, at most 64 with 16,384 characters.
        examples: outputs such as this slot gives, at most 16 with 65,536 characters.
        off: decode this request without drafts.
        origins: only drafts of these origins; None for all. "grammar" also stands for "grammar.text" and the like.
        width: most nodes of this request's tree, the root included; None for the server's width.
        memory: what of the memory of past outputs this request may use: one of MEMORY_USES.
    """

    version: int = VERSION
    program: str | None = None
    slot: str | None = None
    predict: str | None = None
    shape: tuple[ShapePart, ...] = ()
    examples: tuple[str, ...] = ()
    off: bool = False
    origins: frozenset[str] | None = None
    width: int | None = None
    memory: str = "read-write"

    @property
    def reads_memory(self) -> bool:
        return self.memory in ("read-write", "read")

    @property
    def writes_memory(self) -> bool:
        return self.memory in ("read-write", "write")

    def allows(self, origin: str) -> bool:
        """Whether drafts of `origin` may be used."""
        return self.origins is None or origin in self.origins or origin.partition(".")[0] in self.origins


_DEFAULT = Hint()


class HintRead(NamedTuple):
    """A hint as the server understood it: exactly one of the two is None.

    Attributes:
        hint: the hint.
        ignored: why there is none: "version", "malformed" or "oversized".
    """

    hint: Hint | None
    ignored: str | None


class _Ignored(Exception):
    """Reading ends here; the argument is the reason."""


def encode_hint(hint: Hint) -> dict[str, Any]:
    """The JSON value for `custom_params["sgl_spec"]`; fields with their default are left out.

    Raises:
        HintError: a field has a value that `decode_hint` would ignore.
    """
    wire: dict[str, Any] = {"version": hint.version}
    for name, value in hint._asdict().items():
        if name not in wire and value != getattr(_DEFAULT, name):
            wire[name] = _plain(value)
    ignored = decode_hint(wire).ignored
    if ignored is not None:
        raise HintError(f"the hint {_shortened(hint)} is {ignored}: {_WANTED}")
    return wire


_WANTED = (
    f"version must be {VERSION}; program and slot strings of 1 to {MAX_NAME_CHARS} characters; predict, shape and "
    f"examples texts within the bounds in sgl_spec.drafting.hint; off true or false; origins names; width 1 to "
    f"{MAX_WIDTH}; memory one of {', '.join(MEMORY_USES)}"
)


def _plain(value: Any) -> Any:
    if isinstance(value, frozenset):
        return sorted(value)
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def _shortened(hint: Hint) -> str:
    text = ascii({name: value for name, value in hint._asdict().items() if value != getattr(_DEFAULT, name)})
    return text if len(text) <= 120 else text[:117] + "..."


def decode_hint(obj: object) -> HintRead:
    """Read what a client sent. Never raises, and looks at no more of any input than the bounds above."""
    try:
        return HintRead(_decoded(obj), None)
    except _Ignored as reason:
        return HintRead(None, str(reason))


def _decoded(obj: object) -> Hint:
    if type(obj) is not dict:
        raise _Ignored("malformed")
    if len(obj) > len(_READERS) + 1:
        raise _Ignored("oversized")
    version = obj.get("version")
    if type(version) is not int:
        raise _Ignored("malformed")
    if version != VERSION:
        raise _Ignored("version")
    fields: dict[str, Any] = {}
    for name, value in obj.items():
        if name == "version":
            continue
        if name not in _READERS:
            raise _Ignored("malformed")
        if value is not None:
            fields[name] = _READERS[name](value)
    return Hint(**fields)


def _flag(value: object) -> bool:
    if type(value) is not bool:
        raise _Ignored("malformed")
    return value


def _text(value: object, most: int) -> str:
    if type(value) is not str:
        raise _Ignored("malformed")
    if len(value) > most:
        raise _Ignored("oversized")
    if not is_unicode(value):
        raise _Ignored("malformed")
    return value


def is_unicode(text: str) -> bool:
    """Whether `text` can be encoded: JSON can carry half a surrogate pair, which no tokenizer, log or metric could
    take."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _name(value: object) -> str:
    name = _text(value, MAX_NAME_CHARS)
    if not name:
        raise _Ignored("malformed")
    return name


def _predict(value: object) -> str | None:
    return _text(value, MAX_PREDICT_CHARS) or None


def _items(value: object, most: int) -> list[Any]:
    if type(value) is not list:
        raise _Ignored("malformed")
    if len(value) > most:
        raise _Ignored("oversized")
    return value


def _texts(values: list[Any], most_chars: int) -> tuple[str, ...]:
    texts = tuple(_text(one, most_chars) for one in values)
    if sum(map(len, texts)) > most_chars:
        raise _Ignored("oversized")
    return texts


def _examples(value: object) -> tuple[str, ...]:
    return _texts(_items(value, MAX_EXAMPLES), MAX_EXAMPLE_CHARS)


def _shape(value: object) -> tuple[ShapePart, ...]:
    parts: list[ShapePart] = []
    chars = 0
    for one in _items(value, MAX_PARTS):
        texts = _texts(_items(one, MAX_PARTS) if type(one) is list else [] if one is None else [one], MAX_SHAPE_CHARS)
        chars += sum(map(len, texts))
        if chars > MAX_SHAPE_CHARS:
            raise _Ignored("oversized")
        if one is not None and not all(texts):
            raise _Ignored("malformed")
        parts.append(texts if type(one) is list else one)
        if parts[-1] == ():
            raise _Ignored("malformed")
    return tuple(parts)


def _origins(value: object) -> frozenset[str]:
    return frozenset(_name(one) for one in _items(value, MAX_ORIGINS))


def _width(value: object) -> int:
    if type(value) is not int or not 1 <= value <= MAX_WIDTH:
        raise _Ignored("malformed")
    return value


def _memory(value: object) -> str:
    if type(value) is not str or value not in MEMORY_USES:
        raise _Ignored("malformed")
    return value


_READERS: dict[str, Callable[[object], Any]] = {
    "program": _name,
    "slot": _name,
    "predict": _predict,
    "shape": _shape,
    "examples": _examples,
    "off": _flag,
    "origins": _origins,
    "width": _width,
    "memory": _memory,
}
