"""The hint a client sends inside its request: `custom_params["sgl_spec"]`. The only wire format, version 1.

    {"version": 1, "program": "quote_document", "slot": "answer", "off": false}

Read once, before a request's first round. A hint comes from anyone who can reach the server, so whatever is
wrong with it makes the server ignore it and say why; it never fails a request.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sgl_spec.errors import HintError

VERSION = 1
MAX_NAME_CHARS = 200
_FIELDS = frozenset(("version", "program", "slot", "off"))


class Hint(NamedTuple):
    """What a client says about a request.

    Attributes:
        version: of the wire format.
        program: name of the program that asks, 1 to 200 characters.
        slot: which `gen` of that program, 1 to 200 characters.
        off: decode this request without drafts.
    """

    version: int = VERSION
    program: str | None = None
    slot: str | None = None
    off: bool = False


class HintRead(NamedTuple):
    """A hint as the server understood it: exactly one of the two is None.

    Attributes:
        hint: the hint.
        ignored: why there is none: "version", "malformed" or "oversized".
    """

    hint: Hint | None
    ignored: str | None


def encode_hint(hint: Hint) -> dict[str, Any]:
    """The JSON value for `custom_params["sgl_spec"]`; names that are None are left out.

    Raises:
        HintError: a field has a value that `decode_hint` would ignore.
    """
    wire = {name: value for name, value in hint._asdict().items() if value is not None}
    ignored = decode_hint(wire).ignored
    if ignored is not None:
        raise HintError(
            f"the hint {_shortened(hint)} is {ignored}: version must be {VERSION}, off true or false, "
            f"program and slot strings of 1 to {MAX_NAME_CHARS} characters or None"
        )
    return wire


def _shortened(hint: Hint) -> str:
    text = ascii(tuple(hint))
    return text if len(text) <= 120 else text[:117] + "..."


def decode_hint(obj: object) -> HintRead:
    """Read what a client sent. Never raises, and looks at no more than a few fields of any input."""
    if type(obj) is not dict:
        return HintRead(None, "malformed")
    if len(obj) > len(_FIELDS):
        return HintRead(None, "oversized")
    version = obj.get("version")
    if type(version) is not int:
        return HintRead(None, "malformed")
    if version != VERSION:
        return HintRead(None, "version")
    return _decode_version_1(obj)


def _decode_version_1(obj: dict[Any, Any]) -> HintRead:
    off = obj.get("off", False)
    if type(off) is not bool or not obj.keys() <= _FIELDS:
        return HintRead(None, "malformed")
    names = (obj.get("program"), obj.get("slot"))
    for name in names:
        fault = _name_fault(name)
        if fault is not None:
            return HintRead(None, fault)
    return HintRead(Hint(VERSION, names[0], names[1], off), None)


def _name_fault(name: object) -> str | None:
    if name is None:
        return None
    if type(name) is not str or not name:
        return "malformed"
    if len(name) > MAX_NAME_CHARS:
        return "oversized"
    # JSON can carry half a surrogate pair, which no log or metric could write.
    return "malformed" if any("\ud800" <= char <= "\udfff" for char in name) else None
