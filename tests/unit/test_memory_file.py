"""The memory on disk: it comes back as it was, and whatever else the file holds is refused by name and cause."""

from __future__ import annotations

import errno
import os
import stat
import struct
import tracemalloc
import zlib
from hashlib import blake2b
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgl_spec import ConfigError, MemoryFileError
from sgl_spec.drafting.drafter import DraftRequest
from sgl_spec.drafting.memory.memory_file import MAGIC, MemoryIdentity, load, save
from sgl_spec.drafting.memory.output_memory import OutputMemory
from sgl_spec.drafting.memory.slot_key import SlotKey, slot_key

IDENTITY = MemoryIdentity("SmolLM2 6f3a", 50_000)
BOUNDS = (4_000, 800)
KEY = SlotKey("owner", "judge", "verdict")
names = st.text(max_size=8)
keys = st.builds(SlotKey, names, st.sampled_from(["", "p", "é"]), names.filter(bool))
outputs = st.lists(st.integers(0, 49_999), max_size=30)
memories = st.lists(st.tuples(keys, outputs), max_size=20)


def filled(steps) -> OutputMemory:
    memory = OutputMemory(*BOUNDS)
    for key, output in steps:
        memory.remember(key, output)
    return memory


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("memory")


@pytest.fixture(scope="module")
def written(folder) -> bytes:
    path = folder / "written"
    save(filled([(KEY, range(20)), (KEY, [1, 2]), (KEY, [1, 2]), (KEY._replace(slot="reason"), [3])]), path, IDENTITY)
    return path.read_bytes()


def refused(path: Path, data: bytes | None = None, identity: MemoryIdentity = IDENTITY) -> str:
    """The message with which the file (after writing `data`) is refused."""
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(MemoryFileError) as caught:
        load(path, identity, *BOUNDS)
    assert str(caught.value).startswith(f"memory file {path}: ")
    return str(caught.value)


def around(packed: bytes, size: int, version: int = 1) -> bytes:
    """A file of a packed body as the module's docstring describes it, with a good checksum."""
    told = struct.pack("<Q", size)
    checksum = blake2b(told + packed, digest_size=32, person=b"sgl_spec memory").digest()
    return MAGIC + struct.pack("<I", version) + told + checksum + packed


def envelope(body: bytes) -> bytes:
    return around(zlib.compress(body), len(body))


def numbers(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)


def text(value: str) -> bytes:
    return numbers(len(value.encode())) + value.encode()


HEAD = text(IDENTITY.tokenizer) + numbers(IDENTITY.vocab_size)
ONE_KEY = text("owner") + text("judge") + text("verdict")


@settings(deadline=None)
@given(memories)
def test_it_comes_back_as_it_was(folder, steps):
    memory = filled(steps)
    save(memory, folder / "round", IDENTITY)
    again = load(folder / "round", IDENTITY, *BOUNDS)
    assert again.snapshot() == memory.snapshot()
    assert again.tokens_held <= again.max_tokens
    for key, output in steps[:3]:
        memory.remember(key, output)
        again.remember(key, output)
    assert again.snapshot() == memory.snapshot(), "and goes on as it would have"


def test_the_format_is_the_one_described(folder, written):
    body = HEAD + numbers(1) + ONE_KEY + numbers(2) + numbers(3, 1) + numbers(2, 1) + numbers(7, 8, 9, 4)
    (folder / "made").write_bytes(envelope(body))
    memory = load(folder / "made", IDENTITY, *BOUNDS)
    assert memory.outputs(KEY) == ((4,), (7, 8, 9))
    save(memory, folder / "saved", IDENTITY)
    assert (folder / "saved").read_bytes() == envelope(body)


def test_only_its_user_can_read_it_and_nothing_is_left_beside_it(tmp_path):
    path = tmp_path / "memory.bin"
    path.write_bytes(b"what was there before, for all to see")
    path.chmod(0o666)
    save(filled([(KEY, [1])]), path, IDENTITY)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_an_owners_salt_is_not_in_the_file(tmp_path):
    key = slot_key(DraftRequest("r", [1], program="judge", slot="verdict", owner="secret-salt"))
    save(filled([(key, [1])]), tmp_path / "m", IDENTITY)
    packed = (tmp_path / "m").read_bytes()[len(MAGIC) + 4 + 8 + 32 :]
    assert b"verdict" in zlib.decompress(packed)
    assert b"secret-salt" not in zlib.decompress(packed)


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_save_that_fails_leaves_what_was_there(tmp_path, monkeypatch, step):
    path = tmp_path / "m"
    save(filled([(KEY, [1])]), path, IDENTITY)
    before = path.read_bytes()

    def full_disk(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, step, full_disk)
    with pytest.raises(MemoryFileError, match=f"memory file {path}: cannot be written: No space left on device"):
        save(filled([(KEY, [2])]), path, IDENTITY)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_what_could_not_be_loaded_again_is_not_saved(tmp_path):
    with pytest.raises(
        MemoryFileError, match="cannot be written: the memory holds the token 50000; the vocabulary has"
    ):
        save(filled([(KEY, [50_000])]), tmp_path / "m", IDENTITY)
    with pytest.raises(MemoryFileError, match="cannot be written: the memory holds a name of 5000 bytes"):
        save(filled([(KEY, [1])]), tmp_path / "m", MemoryIdentity("n" * 5_000, 50_000))
    assert list(tmp_path.iterdir()) == []


def test_the_first_run_has_no_file(tmp_path):
    assert len(load(tmp_path / "none yet", IDENTITY, *BOUNDS)) == 0
    with pytest.raises(ConfigError, match="max_slot_tokens"):
        load(tmp_path / "none yet", IDENTITY, 100, 100)


def test_what_is_no_readable_file_is_refused(tmp_path, monkeypatch):
    assert "there is no folder" in refused(tmp_path / "no" / "folder")
    assert "is no regular file" in refused(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert "is no regular file" in refused(tmp_path / "pipe")

    def unreadable(path: Path) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", unreadable)
    assert "cannot be read: Permission denied" in refused(tmp_path / "m", b"x")


def test_another_identity_or_version_is_refused(folder, written):
    path = folder / "other"
    assert "tokenizer 'SmolLM2 6f3a'; this server has 'Qwen'" in refused(path, written, MemoryIdentity("Qwen", 50_000))
    assert "for 50000 token ids; this server has 9" in refused(path, written, IDENTITY._replace(vocab_size=9))
    assert "has version 2 of the format; this sgl_spec reads version 1" in refused(path, around(b"", 0, version=2))


def test_damage_is_named(folder, written):
    path = folder / "damaged"
    assert "it is no memory file" in refused(path, b"")
    assert "it is no memory file" in refused(path, b"\x80\x04\x95pickle")
    assert "it was cut" in refused(path, written[: len(MAGIC) + 5])
    assert "checksum is wrong" in refused(path, written[:-1])
    assert "checksum is wrong" in refused(path, written + b"\0")


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_no_cut_and_no_flipped_bit_goes_unseen(folder, written, data):
    path = folder / "flipped"
    refused(path, written[: data.draw(st.integers(0, len(written) - 1))])
    flipped = bytearray(written)
    for _ in range(data.draw(st.integers(1, 3))):
        bit = data.draw(st.integers(0, 8 * len(written) - 1))
        flipped[bit // 8] ^= 1 << bit % 8
    if bytes(flipped) != written:
        refused(path, bytes(flipped))


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        (b"", "names 4 bytes where 0 are left"),
        (HEAD + numbers(1), "names 4 bytes where 0 are left"),
        (HEAD + numbers(1 << 31), "names 4 bytes where 0 are left"),
        (HEAD + numbers(1, 1 << 31), "a name of 2147483648 bytes; the most is 4096"),
        (HEAD + numbers(1, 2) + b"\xff\xff", "a name that is not UTF-8"),
        (HEAD + numbers(1) + ONE_KEY + numbers(1 << 31), "names 8589934592 bytes where 0 are left"),
        (HEAD + numbers(1) + ONE_KEY + numbers(2, *[(1 << 32) - 1] * 4), "names 34359738360 bytes where 0"),
        (HEAD + numbers(1) + ONE_KEY + numbers(1, 9, 1, 7), "names 36 bytes where 4 are left"),
        (HEAD + numbers(1) + ONE_KEY + numbers(1, 1, 0, 7), "an output of no tokens or no copies"),
        (HEAD + numbers(1) + ONE_KEY + numbers(1, 0, 1), "an output of no tokens or no copies"),
        (HEAD + numbers(1) + ONE_KEY + numbers(1, 1, 1, 50_000), "the token 50000; the vocabulary has 50000"),
        (HEAD + numbers(0) + b"more", "goes on for 4 bytes after its last slot"),
    ],
)
def test_a_hostile_file_with_a_good_checksum_is_refused(folder, body, cause):
    assert cause in refused(folder / "hostile", envelope(body))


@settings(deadline=None, max_examples=300)
@given(
    st.lists(
        st.one_of(
            st.integers(0, 9).map(numbers),
            st.integers(0, (1 << 32) - 1).map(numbers),
            st.binary(max_size=20),
            st.sampled_from([ONE_KEY, text(""), numbers(1, 1, 1, 7)]),
        ),
        max_size=12,
    )
)
def test_any_body_is_refused_or_fits_the_bounds(folder, parts):
    (folder / "any").write_bytes(envelope(HEAD + b"".join(parts)))
    try:
        memory = load(folder / "any", IDENTITY, *BOUNDS)
    except MemoryFileError:
        return
    assert memory.tokens_held <= memory.max_tokens


def test_a_bomb_does_not_go_off(folder):
    bomb = zlib.compress(bytes(50_000_000))
    tracemalloc.start()
    assert "unpacks to 50000000 bytes, more than the" in refused(folder / "bomb", around(bomb, 50_000_000))
    assert "is not of the 10 bytes it names" in refused(folder / "bomb", around(bomb, 10))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000


def test_sizes_are_checked(folder):
    packed = zlib.compress(HEAD)
    assert "is not of the 9 bytes it names" in refused(folder / "size", around(packed, 9))
    assert "is not of the 99 bytes it names" in refused(folder / "size", around(packed, 99))
    assert f"is not of the {len(HEAD)} bytes" in refused(folder / "size", around(packed + b"more", len(HEAD)))
    assert "cannot be unpacked" in refused(folder / "size", around(b"no zlib stream", 9))
    assert "it has 10000000 bytes, more than the" in refused(folder / "size", MAGIC + bytes(10_000_000 - len(MAGIC)))


def test_reading_ends_where_the_memory_is_full(folder):
    """So that what a file can cost is bounded by the memory's settings, not by the file."""
    fills = text("owner") + text("") + text("slot") + numbers(4, *[100] * 4, *[1] * 4, *range(400))
    slots = [fills.replace(b"slot", b"s%03d" % number) for number in range(10)]
    (folder / "long").write_bytes(envelope(HEAD + numbers(1_000) + b"".join(slots) + b"not looked at"))
    kept = [slot.key.slot for slot in load(folder / "long", IDENTITY, *BOUNDS).snapshot()]
    assert kept == ["s005", "s004", "s003", "s002", "s001", "s000"], "with markers and all, no more fit"
    assert "a name of" in refused(
        folder / "short", envelope(HEAD + numbers(1_000) + b"".join(slots[:9]) + b"looked at")
    )


def test_under_smaller_bounds_the_most_recently_used_come_back(tmp_path):
    memory = OutputMemory(100_000, 10_000)
    for number in range(60):
        memory.remember(KEY._replace(slot=str(number)), range(number, number + 50))
    save(memory, tmp_path / "m", IDENTITY)
    again = load(tmp_path / "m", IDENTITY, 1_000, 400)
    assert again.tokens_held <= 1_000
    kept = [slot.key.slot for slot in again.snapshot()]
    assert kept[-2:] == ["59", ""], "the last slot and its program"
    assert len(kept) > 4
    assert again.outputs(KEY._replace(slot="59")) == (tuple(range(59, 104)),), "cut to what now fits"
