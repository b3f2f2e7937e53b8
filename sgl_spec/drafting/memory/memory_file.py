"""The memory of past outputs on disk. Read when the server starts, written now and then while it runs, see
memory_saver; no part of a round.

    magic line | version | size of the body | checksum | body, packed by zlib

    body: identity of the tokenizer, then each slot, the most recently used first:
          owner, program, slot | number of outputs | their lengths | their copies | their tokens, the oldest first

All numbers are little-endian, texts UTF-8 with their length before them. A file is data from outside: nothing of it is
believed before the checksum, every count is held against what is left of the file, and reading ends where the memory is
full.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from stat import S_ISREG
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sgl_spec.drafting.memory.output_memory import LEAST_SLOT_TOKENS, OutputMemory, RememberedOutput, RememberedSlot
from sgl_spec.drafting.memory.slot_key import SlotKey
from sgl_spec.drafting.whole_file import write_whole
from sgl_spec.errors import MemoryFileError

MAGIC = b"sgl_spec output memory\n"
VERSION = 1
_NUMBER = struct.Struct("<I")  # the version and all counts
_SIZE = struct.Struct("<Q")  # of the body
_CHECKSUM_BYTES = 32
_START_OF_BODY = len(MAGIC) + _NUMBER.size + _SIZE.size + _CHECKSUM_BYTES
# What a token that memory counts may take in the body. The most is a slot with one short output and long names.
_BODY_BYTES_PER_TOKEN = 32
_LEAST_BODY_BYTES = 1 << 16
_MOST_NAME_BYTES = 4096
_PACKING_LEVEL = 6


class MemoryIdentity(NamedTuple):
    """What gives the token ids of a memory their meaning.

    Attributes:
        tokenizer: names the tokenizer, best by a digest of its files; at most 4096 bytes.
        vocab_size: number of token ids.
    """

    tokenizer: str
    vocab_size: int


class _Refused(Exception):
    """Reading ends here; the argument is the cause."""


def save(memory: OutputMemory, path: str | Path, identity: MemoryIdentity) -> None:
    """Write all that is remembered at this moment to `path`, readable by this user only.

    The file appears whole or not at all, also when the machine stops meanwhile; another one there is replaced. May be
    called in any thread.

    Raises:
        MemoryFileError: it cannot be written, or the memory is of another identity.
    """
    try:
        write_whole(Path(path), _packed(memory.snapshot(), identity))
    except _Refused as cause:
        raise MemoryFileError(f"memory file {path}: cannot be written: the memory {cause}") from None
    except OSError as error:
        raise MemoryFileError(f"memory file {path}: cannot be written: {error.strerror or error}") from error


def load(path: str | Path, identity: MemoryIdentity, max_tokens: int, max_slot_tokens: int) -> OutputMemory:
    """A memory with these bounds and what the file at `path` holds, or as much of it as fits, the most recently used.

    Without a file there, but with its folder, the memory is empty: the first run has none.

    Raises:
        MemoryFileError: it cannot be read, is damaged, of another version, or of another identity.
        ConfigError: a bound is none, see OutputMemory.
    """
    memory = OutputMemory(max_tokens, max_slot_tokens)
    try:
        body = _body(Path(path), _LEAST_BODY_BYTES + _BODY_BYTES_PER_TOKEN * max_tokens)
        if body is not None:
            memory.restore(_fitting(_slots(body, identity, max_slot_tokens), max_tokens))
    except _Refused as cause:
        raise MemoryFileError(f"memory file {path}: {cause}") from None
    except OSError as error:
        raise MemoryFileError(f"memory file {path}: cannot be read: {error.strerror or error}") from error
    return memory


def _packed(slots: tuple[RememberedSlot, ...], identity: MemoryIdentity) -> bytes:
    parts = [_text(identity.tokenizer), _numbers(identity.vocab_size, len(slots))]
    for key, outputs in reversed(slots):
        tokens = [token for output in outputs for token in output.tokens]
        _check_tokens(max(tokens, default=0), identity.vocab_size)
        parts += [*map(_text, key), _numbers(len(outputs))]
        parts += [
            _numbers(*(len(output.tokens) for output in outputs)),
            _numbers(*(output.copies for output in outputs)),
        ]
        parts.append(_numbers(*tokens))
    body = b"".join(parts)
    told = _SIZE.pack(len(body))
    packed = zlib.compress(body, _PACKING_LEVEL)
    return MAGIC + _NUMBER.pack(VERSION) + told + _checksum(told, packed) + packed


def _text(text: str) -> bytes:
    encoded = text.encode("utf-8", "surrogatepass")
    _check_name(len(encoded))
    return _numbers(len(encoded)) + encoded


def _numbers(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)


def _check_name(size: int) -> None:
    if size > _MOST_NAME_BYTES:
        raise _Refused(f"holds a name of {size} bytes; the most is {_MOST_NAME_BYTES}")


def _check_tokens(largest: int, vocab_size: int) -> None:
    if largest >= vocab_size:
        raise _Refused(f"holds the token {largest}; the vocabulary has {vocab_size}")


def _checksum(told: bytes, packed: bytes) -> bytes:
    return blake2b(told + packed, digest_size=_CHECKSUM_BYTES, person=b"sgl_spec memory").digest()


def _body(path: Path, most_bytes: int) -> bytes | None:
    """The body of the file; None where there is no file."""
    if not path.parent.is_dir():
        raise _Refused(f"there is no folder {path.parent} to keep it in")
    if not path.exists():
        return None
    status = path.stat()
    if not S_ISREG(status.st_mode):
        raise _Refused("is no regular file")
    if status.st_size > _START_OF_BODY + most_bytes:
        raise _too_large(f"it has {status.st_size} bytes", most_bytes)
    return _unpacked(path.read_bytes(), most_bytes)


def _unpacked(data: bytes, most_bytes: int) -> bytes:
    if not data.startswith(MAGIC):
        raise _Refused(f"does not begin with the line {MAGIC.decode().strip()!r}; it is no memory file")
    if len(data) < _START_OF_BODY:
        raise _Refused(f"ends after {len(data)} bytes, before its body; it was cut")
    (version,) = _NUMBER.unpack_from(data, len(MAGIC))
    if version != VERSION:
        raise _Refused(f"has version {version} of the format; this sgl_spec reads version {VERSION}")
    told = data[len(MAGIC) + _NUMBER.size :][: _SIZE.size]
    packed = data[_START_OF_BODY:]
    if data[_START_OF_BODY - _CHECKSUM_BYTES : _START_OF_BODY] != _checksum(told, packed):
        raise _Refused("its checksum is wrong; it is damaged or was cut")
    (size,) = _SIZE.unpack(told)
    if size > most_bytes:
        raise _too_large(f"it unpacks to {size} bytes", most_bytes)
    return _inflated(packed, size)


def _inflated(packed: bytes, size: int) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        body = unpacker.decompress(packed, size + 1)
    except zlib.error as error:
        raise _Refused(f"its body cannot be unpacked: {error}") from None
    if len(body) != size or unpacker.unconsumed_tail or unpacker.unused_data:
        raise _Refused(f"its body is not of the {size} bytes it names")
    return body


def _too_large(what: str, most_bytes: int) -> _Refused:
    return _Refused(f"{what}, more than the {most_bytes} that memory_tokens allows; raise memory_tokens or remove it")


class _Reader:
    """Takes a body apart from its front; never past its end."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._place = 0

    @property
    def left(self) -> int:
        return len(self._body) - self._place

    def number(self) -> int:
        return int(self.numbers(1)[0])

    def numbers(self, count: int) -> NDArray[np.uint32]:
        return np.frombuffer(self._bytes(4 * count), "<u4")

    def text(self) -> str:
        size = self.number()
        _check_name(size)
        try:
            return self._bytes(size).decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise _Refused("holds a name that is not UTF-8") from None

    def _bytes(self, count: int) -> bytes:
        if count > self.left:
            raise _Refused(f"names {count} bytes where {self.left} are left")
        self._place += count
        return self._body[self._place - count : self._place]


def _slots(body: bytes, identity: MemoryIdentity, max_slot_tokens: int) -> Iterator[RememberedSlot]:
    """The slots in a body, the most recently used first."""
    reader = _Reader(body)
    found = MemoryIdentity(reader.text(), reader.number())
    if found.tokenizer != identity.tokenizer:
        raise _Refused(f"was written with the tokenizer {found.tokenizer!r}; this server has {identity.tokenizer!r}")
    if found.vocab_size != identity.vocab_size:
        raise _Refused(f"was written for {found.vocab_size} token ids; this server has {identity.vocab_size}")
    for _ in range(reader.number()):
        key = SlotKey(reader.text(), reader.text(), reader.text())
        yield RememberedSlot(key, _outputs(reader, identity.vocab_size, max_slot_tokens))
    if reader.left:
        raise _Refused(f"goes on for {reader.left} bytes after its last slot")


def _outputs(reader: _Reader, vocab_size: int, most_tokens: int) -> tuple[RememberedOutput, ...]:
    """A slot's outputs, the newest with at most `most_tokens` together."""
    count = reader.number()
    lengths, copies = reader.numbers(count).astype(np.int64), reader.numbers(count)
    if not (lengths.all() and copies.all()):
        raise _Refused("holds an output of no tokens or no copies")
    tokens = reader.numbers(int(lengths.sum()))
    _check_tokens(int(tokens.max(initial=0)), vocab_size)
    ends = lengths.cumsum()
    starts = ends - lengths
    # Plain ints are made only of what is kept: they take nine times the room.
    kept = range(int(np.searchsorted(starts, tokens.size - most_tokens)), count)
    return tuple(RememberedOutput(tuple(tokens[starts[n] : ends[n]].tolist()), int(copies[n])) for n in kept)


def _fitting(slots: Iterator[RememberedSlot], max_tokens: int) -> list[RememberedSlot]:
    """The slots that `max_tokens` have room for, the least recently used first; the rest is not even read."""
    taken: list[RememberedSlot] = []
    for slot in slots:
        taken.append(slot)
        max_tokens -= max(LEAST_SLOT_TOKENS, sum(len(output.tokens) for output in slot.outputs))
        if max_tokens <= 0:
            break
    return taken[::-1]
