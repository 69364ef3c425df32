"""One file of the disk cache: a run of consecutive blocks of one history, in safetensors form.

The name says which: `<parent key>-<first key>-<last key>-<start>-<count>.v1.safetensors`, the keys
(keys.py) before the first block, after it, and at the end; `start` tokens come before and `count`
are held. The header's metadata repeats that with the tokens and the namespace's fingerprint, the
hash of each tensor, and a hash of the header itself. Nothing here knows of queues or indexes.

    header length u64 | JSON header | tensors, each [blocks, ...], in the layout's order
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from stoker.cache.disk.keys import KEY_BYTES, chain

VERSION = 1
FORMAT = "stoker-prefix"
MAX_HEADER_BYTES = 16 * 2**20
HASH_BYTES = 16
_HEX = f"[0-9a-f]{{{2 * KEY_BYTES}}}"
_NAME = re.compile(rf"({_HEX})-({_HEX})-({_HEX})-(\d{{1,12}})-(\d{{1,9}})\.v(\d{{1,6}})\.safetensors")


class BadSegment(Exception):
    """The file cannot be used; the message completes "<file>: ..."."""


@dataclass(frozen=True, slots=True)
class Segment:
    """What a file's name says."""

    parent: bytes
    first: bytes
    last: bytes
    start: int  # tokens before it
    count: int  # tokens in it

    @property
    def end(self) -> int:
        return self.start + self.count

    @property
    def name(self) -> str:
        keys = f"{self.parent.hex()}-{self.first.hex()}-{self.last.hex()}"
        return f"{keys}-{self.start}-{self.count}.v{VERSION}.safetensors"


def make_segment(parent: bytes, tokens: Sequence[int], start: int, block_size: int) -> Segment:
    keys = list(chain(parent, tokens, block_size))
    return Segment(parent, keys[0], keys[-1], start, len(tokens))


def parse_name(name: str) -> Segment | None:
    """None for a name that is not ours. Raises BadSegment for a version we do not know."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    parent, first, last, start, count, version = found.groups()
    if int(version) != VERSION:
        raise BadSegment(f"is of version {version}; this program reads {VERSION}")
    if int(count) < 1:
        return None
    return Segment(bytes.fromhex(parent), bytes.fromhex(first), bytes.fromhex(last), int(start), int(count))


class PartLike(Protocol):
    """kv.transfer.Part."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def block_bytes(self) -> int: ...


class Blocks(Protocol):
    """kv.transfer.BlockTransfer: bytes of blocks, out and in."""

    @property
    def parts(self) -> Sequence[PartLike]: ...
    @property
    def block_bytes(self) -> int: ...
    def export_blocks(self, part: int, blocks: Sequence[int], out: memoryview) -> None: ...
    def import_blocks(self, part: int, blocks: Sequence[int], data: memoryview) -> None: ...


@dataclass(frozen=True, slots=True)
class Frame:
    """What every file of one namespace has in common."""

    fingerprint: str
    block_size: int
    blocks: Blocks

    def num_blocks(self, count: int) -> int:
        return -(-count // self.block_size)


def write(
    out: Any,  # an unbuffered binary file, empty
    segment: Segment,
    tokens: Sequence[int],
    block_ids: Sequence[int],
    frame: Frame,
    *,
    pause: Callable[[], None] = lambda: None,
) -> int:
    """Writes the whole file and returns its size. `pause` is called between pieces. Raises OSError."""
    num_blocks = len(block_ids)
    hashes = ["0" * 2 * HASH_BYTES] * len(frame.blocks.parts)
    header = _header(segment, tokens, num_blocks, frame, hashes)
    _write_all(out, header)
    size = len(header)
    largest = max(part.block_bytes for part in frame.blocks.parts)
    buffer = memoryview(bytearray(largest * num_blocks))
    for index, part in enumerate(frame.blocks.parts):
        piece = buffer[: part.block_bytes * num_blocks]
        frame.blocks.export_blocks(index, block_ids, piece)
        hashes[index] = hash_of(piece)
        _write_all(out, piece)
        size += len(piece)
        pause()
    # The hashes are known only now; as they are of fixed length the header keeps its size.
    final = _header(segment, tokens, num_blocks, frame, hashes)
    assert len(final) == len(header)
    out.seek(0)
    _write_all(out, final)
    return size


@dataclass(frozen=True, slots=True)
class Opened:
    """A file whose header has been checked."""

    segment: Segment
    tokens: tuple[int, ...]
    offsets: tuple[int, ...]  # of each part in the file
    hashes: tuple[str, ...]  # of each part, whole
    num_blocks: int

    def read_part(
        self,
        file: int,
        part: int,
        block_ids: Sequence[int],
        frame: Frame,
        buffer: memoryview,  # of buffer_for
        *,
        skip: int,
        verify: bool,
    ) -> None:
        """Reads the part's blocks `skip`.. into these blocks. With `verify` the whole part is read and
        compared with its hash first. Raises BadSegment or OSError."""
        block_bytes = frame.blocks.parts[part].block_bytes
        if verify:
            whole = buffer[: block_bytes * self.num_blocks]
            _read_all(file, whole, self.offsets[part])
            if hash_of(whole) != self.hashes[part]:
                raise BadSegment(f"is damaged: {frame.blocks.parts[part].name} differs from its hash")
            wanted = whole[block_bytes * skip :][: block_bytes * len(block_ids)]
        else:
            wanted = buffer[: block_bytes * len(block_ids)]
            _read_all(file, wanted, self.offsets[part] + block_bytes * skip)
        frame.blocks.import_blocks(part, block_ids, wanted)


def read_header(file: int, segment: Segment, frame: Frame) -> Opened:
    """Checks everything but the tensors' bytes. Raises BadSegment or OSError."""
    size = os.fstat(file).st_size
    if size < 8:
        raise BadSegment("is too short to be one of ours")
    length = int.from_bytes(os.pread(file, 8, 0), "little")
    if not 2 <= length <= min(MAX_HEADER_BYTES, size - 8):
        raise BadSegment("is cut off or not a safetensors file")
    try:
        header = json.loads(os.pread(file, length, 8))
        meta = header.pop("__metadata__")
        claimed = meta.pop("header_hash")
        honest = _header_hash(header, meta) == claimed
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise BadSegment("has an unreadable header") from None
    if not honest:
        raise BadSegment("is damaged: the header differs from its hash")
    if (meta.get("format"), meta.get("version")) != (FORMAT, str(VERSION)):
        raise BadSegment(f"is of the format {meta.get('format')} {meta.get('version')}")
    if meta.get("fingerprint") != frame.fingerprint:
        raise BadSegment("belongs to another model or another way of computing")
    return _checked(header, meta, segment, frame, data_start=8 + length, size=size)


def _checked(
    header: dict[str, Any],
    meta: dict[str, str],
    segment: Segment,
    frame: Frame,
    *,
    data_start: int,
    size: int,
) -> Opened:
    """The header is as we wrote it; does it say what the name says, and is the file as long?"""
    try:
        tokens = tuple(map(int, meta["tokens"].split()))
        told = (meta["parent"], int(meta["start"]), int(meta["block_size"]))
        hashes = tuple(meta["hashes"].split())
    except (KeyError, ValueError):
        raise BadSegment("lacks what a header must say") from None
    if told != (segment.parent.hex(), segment.start, frame.block_size) or len(tokens) != segment.count:
        raise BadSegment("is not what its name says")
    if make_segment(segment.parent, tokens, segment.start, frame.block_size) != segment:
        raise BadSegment("holds other tokens than its name says")
    num_blocks = frame.num_blocks(len(tokens))
    if header != _tensors(num_blocks, frame) or len(hashes) != len(frame.blocks.parts):
        raise BadSegment("holds other tensors than this model's")
    offsets = tuple(data_start + entry["data_offsets"][0] for entry in header.values())
    if size != data_start + num_blocks * frame.blocks.block_bytes:
        raise BadSegment(f"is cut off or has grown: {size} bytes")
    return Opened(segment, tokens, offsets, hashes, num_blocks)


def buffer_for(frame: Frame, num_blocks: int) -> memoryview:
    """Large enough for any part of that many blocks."""
    return memoryview(bytearray(max(part.block_bytes for part in frame.blocks.parts) * num_blocks))


def hash_of(data: memoryview | bytes) -> str:
    return hashlib.blake2b(data, digest_size=HASH_BYTES).hexdigest()


def sync_folder(folder: Path) -> None:
    """Makes a rename in `folder` survive a power cut, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _tensors(num_blocks: int, frame: Frame) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    offset = 0
    for part in frame.blocks.parts:
        end = offset + part.block_bytes * num_blocks
        shape = [num_blocks, *part.shape]
        entries[part.name] = {"dtype": part.dtype, "shape": shape, "data_offsets": [offset, end]}
        offset = end
    return entries


def _header(
    segment: Segment, tokens: Sequence[int], num_blocks: int, frame: Frame, hashes: Sequence[str]
) -> bytes:
    tensors = _tensors(num_blocks, frame)
    meta = {
        "format": FORMAT,
        "version": str(VERSION),
        "fingerprint": frame.fingerprint,
        "block_size": str(frame.block_size),
        "parent": segment.parent.hex(),
        "start": str(segment.start),
        "tokens": " ".join(map(str, tokens)),
        "hashes": " ".join(hashes),
    }
    meta["header_hash"] = _header_hash(tensors, meta)
    text = json.dumps({"__metadata__": meta} | tensors, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # tensors begin aligned
    return len(text).to_bytes(8, "little") + text


def _header_hash(tensors: dict[str, Any], meta: dict[str, str]) -> str:
    text = json.dumps([tensors, meta], sort_keys=True, separators=(",", ":"))
    return hash_of(text.encode())


def _write_all(out: Any, data: bytes | memoryview) -> None:
    view = memoryview(data)
    while view:
        view = view[out.write(view) :]


def _read_all(file: int, out: memoryview, offset: int) -> None:
    while out:
        got = os.preadv(file, [out], offset)
        if got == 0:
            raise BadSegment("ends too early")
        out, offset = out[got:], offset + got
