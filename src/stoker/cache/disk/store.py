"""Histories in the folder: written as segments, found again, read back into blocks.

Blocking calls, for the tier's own threads. A file that cannot be trusted is reported once, forgotten,
and replaced when its contents are written anew.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from stoker.cache.disk import checkpoint as checkpoints
from stoker.cache.disk import folder as folders
from stoker.cache.disk import segment as segments
from stoker.cache.disk.checkpoint import Checkpoint
from stoker.cache.disk.index import Piece, SegmentIndex
from stoker.cache.disk.keys import Namespace, chain
from stoker.cache.disk.segment import BadSegment, Frame, Opened, Segment, make_segment

log = logging.getLogger(__name__)

SEGMENT_BYTES = 32 * 2**20  # a file holds as many blocks as stay below this,
SEGMENT_BLOCKS = 32  # and at most so many
FREE_RESERVE_BYTES = 64 * 2**20  # of the file system, left to others
_RESCAN_WRITES = 16  # how often the writer looks at what other processes added, when there is a cap


class Store:
    """One namespace of one folder."""

    def __init__(
        self, root: Path, namespace: Namespace, frame: Frame, *, max_bytes: int = 0, verify: bool = False
    ) -> None:
        self.root = root
        self.folder = folders.namespace_folder(root, namespace)
        self.max_bytes = max_bytes
        self.num_skipped = 0
        self.folder_bytes = 0
        self.index = SegmentIndex(namespace.root, frame.block_size)
        self._namespace = namespace
        self._frame = frame
        self._verify = verify
        self._blocks_per_file = max(1, min(SEGMENT_BLOCKS, SEGMENT_BYTES // frame.blocks.block_bytes))
        self._checkpoints: set[str] = set()  # identities
        self._reported: set[str] = set()  # names not to be trusted
        self._scanned: tuple[int, int] | None = None
        self._writes_since_look = 0
        self._lock = threading.Lock()  # one scan at a time

    def scan(self) -> None:
        """Brings the index up to what the folder holds now. Raises OSError when it cannot be made."""
        with self._lock:
            folders.prepare(self.root, self._namespace)
            self._enforce_cap()
            state = self._state()
            present = {}
            for file in sorted(os.scandir(self.folder), key=lambda entry: entry.name):
                if file.name.startswith(".") or file.name == folders.FACTS_NAME:
                    continue
                try:
                    segment = segments.parse_name(file.name)
                    if segment is None:
                        identity = checkpoints.parse_name(file.name)
                        if identity is None:
                            raise BadSegment("is not a file of this cache")
                        self._checkpoints.add(identity)
                        continue
                    if not file.is_file(follow_symlinks=False):
                        raise BadSegment("is not a file")
                    if file.name not in self._reported:
                        present[segment] = file.stat().st_size
                except BadSegment as bad:
                    self._report(file.name, bad)
                except OSError:
                    continue  # gone in the meantime
            for segment, size in present.items():
                self.index.add(segment, size)
            for segment in self.index.segments():
                if segment not in present and not (self.folder / segment.name).exists():
                    self.index.discard(segment)
            self._scanned = state
            self.folder_bytes = sum(file.num_bytes for file in folders.files_of(self.root))

    def refresh(self) -> None:
        """Scans again if another process changed the folder."""
        if self._state() != self._scanned:
            self.scan()

    def remove_orphans(self) -> None:
        removed = folders.remove_orphans(self.root)
        if removed:
            log.info("disk cache: %d unfinished files of an earlier run removed", removed)

    def write(
        self,
        tokens: Sequence[int],
        block_ids: Sequence[int],
        *,
        pause: Callable[[], None] = lambda: None,
    ) -> int:
        """Writes what is not there yet of a history that these blocks hold; returns how many files that took.
        Raises OSError, with everything complete so far kept."""
        size = self._frame.block_size
        pieces = self.find(tokens)
        self._touch([piece.segment for piece in pieces])
        covered = sum(piece.count for piece in pieces if piece.segment in self.index)
        parent, start, kept = self._namespace.root, 0, []
        if covered < len(tokens):
            start = covered - covered % size
            for key in chain(parent, tokens[:start], size):
                parent = key
        written = 0
        while covered < len(tokens) and start < len(tokens):
            part = tuple(tokens[start : start + self._blocks_per_file * size])
            segment = make_segment(parent, part, start, size)
            ids = block_ids[start // size :][: self._frame.num_blocks(len(part))]
            self._write_file(segment, part, ids, pause)
            kept.append(segment)
            parent, start, written = segment.last, start + len(part), written + 1
        if written:
            self._touch([piece.segment for piece in pieces] + kept)
            self._after_writes(written)
        return written

    def write_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Replaces an earlier one of the same generation. Raises OSError."""
        with folders.writing(self.folder, checkpoint.name) as out:
            out.write(checkpoints.encode(checkpoint))
        self._checkpoints.add(checkpoint.identity)

    def remove_checkpoint(self, identity: str) -> None:
        self._checkpoints.discard(identity)
        with contextlib.suppress(OSError):
            (self.folder / f"{identity}{checkpoints.SUFFIX}").unlink(missing_ok=True)

    def find_checkpoint(self, identity: str) -> Checkpoint | None:
        """Reads one small file, if there is one."""
        if identity not in self._checkpoints:
            return None
        name = f"{identity}{checkpoints.SUFFIX}"
        try:
            with (self.folder / name).open("rb") as file:
                return checkpoints.decode(file.read(checkpoints.MAX_BYTES), identity)
        except FileNotFoundError:
            pass
        except (BadSegment, OSError) as error:
            self._report(name, error)
        self._checkpoints.discard(identity)
        return None

    def find(self, tokens: Sequence[int]) -> list[Piece]:
        """The longest prefix that can be read; opens files to see how far they match."""
        return self.index.find(tokens, self._load)

    def read(
        self, pieces: Sequence[Piece], first: int, block_ids: Sequence[int], cancelled: Callable[[], bool]
    ) -> int:
        """Reads the blocks `first`.. of a match into these blocks, piece by piece. Returns how many tokens of
        the match are good: less than all when a file turned out to be bad or the request went away."""
        size, at = self._frame.block_size, 0
        used: list[Segment] = []
        for piece in pieces:
            num_blocks = self._frame.num_blocks(piece.count)
            skip = max(0, first - at // size)
            if skip < num_blocks:
                ids = block_ids[at // size + skip - first :][: num_blocks - skip]
                if not self._read_piece(piece, skip, ids, cancelled):
                    break
            used.append(piece.segment)
            at += piece.count
        self._touch(used)
        return at

    def _read_piece(self, piece: Piece, skip: int, ids: Sequence[int], cancelled: Callable[[], bool]) -> bool:
        """Blocks `skip`.. of the piece into `ids`. False when the file is bad or the reader is not wanted."""
        segment = piece.segment
        try:
            file = os.open(self.folder / segment.name, os.O_RDONLY)
            try:
                opened = segments.read_header(file, segment, self._frame)
                buffer = segments.buffer_for(self._frame, opened.num_blocks)
                for part in range(len(self._frame.blocks.parts)):
                    if cancelled():
                        return False
                    opened.read_part(file, part, ids, self._frame, buffer, skip=skip, verify=self._verify)
            finally:
                os.close(file)
        except (BadSegment, OSError) as error:
            self._distrust(segment, error)
            return False
        return True

    def _write_file(
        self, segment: Segment, tokens: tuple[int, ...], ids: Sequence[int], pause: Callable[[], None]
    ) -> None:
        path = self.folder / segment.name
        if segment.name not in self._reported and path.is_file():  # another process was quicker
            self.index.add(segment, path.stat().st_size)
            return
        wanted = len(ids) * self._frame.blocks.block_bytes
        stat = os.statvfs(self.folder)
        free = stat.f_bavail * stat.f_frsize
        if free < wanted + FREE_RESERVE_BYTES:
            raise no_space(self.folder, wanted, free)
        with folders.writing(self.folder, segment.name) as out:
            size = segments.write(out, segment, tokens, ids, self._frame, pause=pause)
        self._reported.discard(segment.name)
        self.index.add(segment, size, tokens)
        self.folder_bytes += size

    def _after_writes(self, written: int) -> None:
        if not self.max_bytes:
            return
        self._writes_since_look += written
        if self.folder_bytes > self.max_bytes or self._writes_since_look >= _RESCAN_WRITES:
            self._writes_since_look = 0
            with self._lock:
                self._enforce_cap()

    def _enforce_cap(self) -> None:
        if self.max_bytes:
            removed = folders.enforce_cap(self.root, self.max_bytes)
            for file in removed:
                if file.path.parent == self.folder and (segment := _segment_of(file.path.name)):
                    self.index.discard(segment)
            if removed:
                log.info("disk cache: %d stale files removed to stay below the cap", len(removed))
            self.folder_bytes = sum(file.num_bytes for file in folders.files_of(self.root))

    def _touch(self, history: Sequence[Segment]) -> None:
        """Marks a history as used. Beginnings stay fresher than what follows them, so that the cap never
        removes a beginning before its continuations."""
        now = time.time()
        for distance, segment in enumerate(history):
            if not folders.touch(self.folder / segment.name, now - distance * 1e-3):
                self.index.discard(segment)  # another process removed it

    def _load(self, segment: Segment) -> tuple[int, ...] | None:
        opened = self._open(segment)
        if opened is None:
            return None
        self.index.learn(segment, opened.tokens)
        return opened.tokens

    def _open(self, segment: Segment) -> Opened | None:
        try:
            file = os.open(self.folder / segment.name, os.O_RDONLY)
            try:
                return segments.read_header(file, segment, self._frame)
            finally:
                os.close(file)
        except (BadSegment, OSError) as error:
            self._distrust(segment, error)
            return None

    def _distrust(self, segment: Segment, error: Exception) -> None:
        self.index.discard(segment)
        if not isinstance(error, FileNotFoundError):  # that one was only removed
            self._report(segment.name, error)

    def _report(self, name: str, error: Exception) -> None:
        if name not in self._reported:
            self._reported.add(name)
            self.num_skipped += 1
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            log.warning("disk cache: %s is not used: it %s", self.folder / name, _as_clause(error, reason))

    def _state(self) -> tuple[int, int]:
        """Changes when a file is added to or removed from the folder."""
        stat = self.folder.stat()
        return stat.st_mtime_ns, stat.st_ino


def no_space(folder: Path, wanted: int, free: int) -> OSError:
    return OSError(errno.ENOSPC, f"no space left ({wanted} bytes to write, {free} free)", str(folder))


def _segment_of(name: str) -> Segment | None:
    try:
        return segments.parse_name(name)
    except BadSegment:
        return None


def _as_clause(error: Exception, reason: object) -> str:
    return f"cannot be read ({reason})" if isinstance(error, OSError) else str(reason)
