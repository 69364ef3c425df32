"""The disk tier as the engine sees it: what is published goes to disk, what disk knows comes back.

Owned by the engine thread, which calls everything here that is not marked otherwise. Copying, hashing,
writing and reading happen on three threads of the tier's own (set-up and upkeep, writer, reader); they
answer by posting to the engine thread. Trouble with the disk never reaches a request: the worst outcome
is that a prefix is computed again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from pathlib import Path

from stoker.cache.disk.checkpoint import Checkpoint
from stoker.cache.disk.keys import Namespace
from stoker.cache.disk.reader import Reader
from stoker.cache.disk.restore import Restores, Ticket
from stoker.cache.disk.segment import Blocks, Frame
from stoker.cache.disk.stats import DiskStats, FlushReport
from stoker.cache.disk.store import Store
from stoker.cache.disk.writer import Outcome, Snapshot, Writer
from stoker.cache.node import Node
from stoker.cache.prefix import PrefixIndex
from stoker.kv.blocks import BLOCK_SIZE, BlockPool

log = logging.getLogger(__name__)

UPKEEP_EVERY_S = 5.0
WRITE_WAIT_S = 0.25  # how long a row that needs memory waits for the writer,
STUCK_S = 10.0  # and how long no row waits any more once that was in vain
_MAX_REMEMBERED = 256  # histories that could not be written


@dataclass(frozen=True, slots=True)
class DiskConfig:
    dir: Path
    namespace: Callable[[], Namespace]  # may read whole weight files; called on the tier's thread
    max_bytes: int = 0  # cap on everything stoker wrote into the folder; 0 = none
    verify: bool = False  # check every tensor against its hash when it is read
    demote_idle_s: float = 0.0  # memory is given back after so long without use; 0 = never
    write_behind: bool = True  # False writes only what leaves memory
    max_queued_bytes: int = 2 * 2**30  # of generation checkpoints that wait to be written
    prefetch: bool = True  # False reads in the engine thread


class DiskTier:
    def __init__(
        self,
        config: DiskConfig,
        pool: BlockPool,
        prefixes: PrefixIndex,
        blocks: Blocks,
        *,
        post: Callable[[Callable[[], None]], None],
        busy: Callable[[], bool],
    ) -> None:
        self.config = config
        self._pool = pool
        self._prefixes = prefixes
        self._blocks = blocks
        self._post = post if config.prefetch else lambda work: work()
        self._post_always = post
        self._store: Store | None = None
        self._restores: Restores | None = None
        self._reader = Reader(threaded=config.prefetch)
        self._writer = Writer(self._write, on_done=self._on_written, busy=busy)
        self._publishing_restored = False
        self._demotions = self._dropped = 0
        self._writer_stuck_until = 0.0
        # Shared by the threads.
        self._written: deque[Snapshot] = deque()  # by the writer, their blocks still held
        self._lock = threading.Lock()
        self._spills = self._failed = 0
        self._unwritten: dict[tuple[int, ...], None] = {}  # histories that failed to reach the disk
        self._ready = threading.Event()  # the folder has been looked through
        self._stopping = threading.Event()
        self._upkeep = threading.Thread(target=self._run_upkeep, name="stoker-disk", daemon=True)
        prefixes.listener = self

    def start(self) -> None:
        self._upkeep.start()

    def wait_until_ready(self, timeout_s: float) -> bool:
        """Any thread. Whether the folder has been looked through in time."""
        return self._ready.wait(timeout_s)

    # What the prefix index reports (cache.prefix.Listener).

    def published(self, path: Sequence[Node], tokens: Sequence[int], blocks: Sequence[int]) -> None:
        """`blocks` hold `tokens`, now known to the index as `path`."""
        if self._publishing_restored:
            for node in path:
                node.saved = True
        elif self.config.write_behind and not all(node.saved for node in path):
            for node in path:
                node.saved = True
            self._schedule(tokens, blocks)

    def evicting(self, node: Node) -> None:
        """The node leaves memory. What is not on its way to disk yet is kept until it is written."""
        if not node.saved and not self._writer.suspended:
            self._schedule_path(node)

    def release_pending(self) -> bool:
        """Memory is needed for running rows, and only snapshots hold some that could be had: waits a moment
        for the writer, and gives a snapshot up when that takes too long."""
        if self._await_written():
            return True
        snapshot = self._writer.take_back()
        if snapshot is None:
            return False
        if snapshot.checkpoint is None and not snapshot.finished:
            self._remember(snapshot.tokens)
        self._pool.release(snapshot.blocks)
        return True

    def _await_written(self) -> bool:
        """Memory of snapshots that are written, after a short wait if need be. False when there is none."""
        if self._release_written():
            return True
        if time.monotonic() < self._writer_stuck_until or not self._ready.is_set():
            return False
        with self._writer.in_haste():
            if not self._writer.pending():
                return self._release_written()
            if not self._writer.wait_for_one(WRITE_WAIT_S):
                self._writer_stuck_until = time.monotonic() + STUCK_S
        return self._release_written()

    # Restoring.

    def stage(self, tokens: Sequence[int], ready: Callable[[], None]) -> Ticket | None:
        """Brings in what disk knows of `tokens` and memory does not. None when there is nothing to wait
        for; else `ready` is called later, on the engine thread, unless the ticket is cancelled."""
        if self._restores is None or self._store is None or not len(self._store.index):
            return None
        called: list[bool] = []
        ticket = Ticket(tuple(tokens), lambda: called.append(True))
        if not self._restores.request(ticket):
            return None
        if called:  # it was read at once
            return None
        ticket.ready = ready
        return ticket

    # Checkpoints of generations.

    def find_checkpoint(self, identity: str) -> Checkpoint | None:
        return self._store.find_checkpoint(identity) if self._store is not None else None

    def save_checkpoint(self, checkpoint: Checkpoint, tokens: Sequence[int], blocks: Sequence[int]) -> None:
        """`blocks` hold `tokens`, all of the generation but its last token."""
        if self._writer.suspended:
            return
        self._schedule(tokens, blocks, checkpoint)
        for dropped in self._writer.drop_checkpoints(
            self.config.max_queued_bytes // self._blocks.block_bytes
        ):
            self._pool.release(dropped.blocks)
            self._dropped += 1

    def forget_checkpoint(self, identity: str) -> None:
        """The generation is complete."""
        self._writer.add(Snapshot((), [], finished=identity))

    # Writing.

    def _schedule(
        self, tokens: Sequence[int], blocks: Sequence[int], checkpoint: Checkpoint | None = None
    ) -> None:
        snapshot = Snapshot(tuple(tokens), list(blocks[: -(-len(tokens) // BLOCK_SIZE)]), checkpoint)
        self._pool.retain(snapshot.blocks)
        for superfluous in self._writer.add(snapshot):
            self._pool.release(superfluous.blocks)
            self._dropped += superfluous.checkpoint is not None

    def _schedule_path(self, node: Node | None) -> None:
        path: list[Node] = []
        while node is not None and node.parent is not None:
            node.saved = True
            path.append(node)
            node = node.parent
        path.reverse()
        self._schedule([token for node in path for token in node.tokens], [node.block for node in path])

    def _write(self, snapshot: Snapshot, pause: Callable[[], None]) -> int:
        """On the writer's thread."""
        assert self._store is not None
        if snapshot.finished:
            self._store.remove_checkpoint(snapshot.finished)
            return 0
        written = self._store.write(snapshot.tokens, snapshot.blocks, pause=pause)
        if snapshot.checkpoint is not None:  # after what it needs
            self._store.write_checkpoint(snapshot.checkpoint)
        return written

    def _on_written(self, snapshot: Snapshot, outcome: Outcome) -> None:
        """On the writer's thread."""
        if snapshot.finished:
            return
        with self._lock:
            self._spills += outcome == "written"
            self._failed += outcome == "failed"
            if outcome != "failed":
                self._unwritten.pop(snapshot.tokens, None)
        if outcome == "failed" and snapshot.checkpoint is None:
            self._remember(snapshot.tokens)
        self._written.append(snapshot)
        self._post_always(self._collect)

    def _collect(self) -> None:
        self._release_written()

    def _release_written(self) -> bool:
        """Gives back the memory of snapshots that are done; False when there are none."""
        if not self._written:
            return False
        while self._written:
            self._pool.release(self._written.popleft().blocks)
        return True

    def _remember(self, tokens: tuple[int, ...]) -> None:
        with self._lock:
            self._unwritten[tokens] = None
            while len(self._unwritten) > _MAX_REMEMBERED:
                del self._unwritten[next(iter(self._unwritten))]

    def _schedule_rest(self) -> int:
        """Queues everything that should be on disk and is not; returns how many histories are in neither
        memory nor folder any more."""
        missing = 0
        with self._lock:
            unwritten = list(self._unwritten)
        for tokens in unwritten:
            hit = self._prefixes.find(tokens)
            if hit.num_tokens == len(tokens):
                with self._lock:
                    del self._unwritten[tokens]
                self._schedule(tokens, hit.blocks)
            elif self._store is not None and self._store.index.probe(tokens) == len(tokens):
                with self._lock:
                    del self._unwritten[tokens]
            else:
                missing += 1
        for leaf in self._prefixes.unsaved_leaves():
            self._schedule_path(leaf)
        return missing

    def _retry(self) -> None:
        self._schedule_rest()

    # Flushing and the end.

    def flush(self, timeout_s: float) -> FlushReport:
        """Any thread but the engine's; waits. Everything published so far reaches the disk."""
        return self._flush(timeout_s, lambda left_s: self._on_engine(self._schedule_rest, left_s))

    def close(self, timeout_s: float) -> FlushReport:
        """After the engine thread has ended: writes what is left for at most `timeout_s`, and stops."""
        report = self._flush(timeout_s, lambda left_s: self._schedule_rest())
        if not report.durable:
            log.warning(
                "disk cache: %d prefixes could not be written before the end", report.pending_snapshots
            )
        self._stopping.set()
        self._writer.stop()
        self._reader.stop()
        return report

    def _flush(self, timeout_s: float, schedule: Callable[[float], int]) -> FlushReport:
        started = time.monotonic()

        def left_s() -> float:
            return max(0.0, timeout_s - (time.monotonic() - started))

        with self._lock:
            spills, failed = self._spills, self._failed
        ready = self.wait_until_ready(left_s())
        missing = 0
        with self._writer.in_haste():
            try:
                missing = schedule(left_s())
            except FutureTimeout:
                ready = False
            if ready:
                self._writer.wait(left_s())
        stats = self.stats()
        return FlushReport(
            durable=ready and not stats.pending_snapshots and stats.failed_spills == failed,
            flushed_snapshots=stats.spills - spills,
            missing_snapshots=missing,
            pending_snapshots=stats.pending_snapshots,
            pending_spills=stats.pending_spills,
            pending_spill_bytes=stats.pending_spill_bytes,
            dropped_spills=stats.dropped_spills,
            failed_spills=stats.failed_spills,
            elapsed_ms=round((time.monotonic() - started) * 1000),
            entries=stats.entries,
            longest_durable_prefix_tokens=stats.longest_durable_prefix_tokens,
        )

    def _on_engine(self, work: Callable[[], int], timeout_s: float) -> int:
        future: Future[int] = Future()

        def run() -> None:
            try:
                future.set_result(work())
            except Exception as error:
                future.set_exception(error)

        self._post_always(run)
        return future.result(timeout_s)

    def stats(self) -> DiskStats:
        """Any thread."""
        store, restores = self._store, self._restores
        pending = self._writer.pending()
        with self._lock:
            spills, failed, unwritten = self._spills, self._failed, len(self._unwritten)
        return DiskStats(
            dir=str(self.config.dir),
            entries=len(store.index) if store else 0,
            bytes=store.index.num_bytes if store else 0,
            max_bytes=self.config.max_bytes,
            restores=restores.num_restores if restores else 0,
            spills=spills,
            restore_ms_last=restores.last_ms if restores else 0,
            demotions=self._demotions,
            pending_snapshots=len(pending) + unwritten,
            pending_spills=len(pending),
            pending_spill_bytes=sum(len(snapshot.blocks) for snapshot in pending) * self._blocks.block_bytes,
            dropped_spills=self._dropped,
            failed_spills=failed,
            longest_durable_prefix_tokens=store.index.longest if store else 0,
            folder_bytes=store.folder_bytes if store else 0,
            skipped_files=store.num_skipped if store else 0,
            writing=store is not None and not self._writer.suspended,
        )

    # Upkeep, on a thread of its own.

    def _run_upkeep(self) -> None:
        self._set_up()
        idle = self.config.demote_idle_s
        every = min(UPKEEP_EVERY_S, idle / 4) if idle else UPKEEP_EVERY_S
        while not self._stopping.wait(max(every, 0.05)):
            try:
                if self._store is None:
                    self._set_up()
                else:
                    self._store.refresh()
            except OSError as error:
                log.debug("disk cache: the folder cannot be read: %s", error)
            if idle:
                self._post_always(self._demote)
            if self._unwritten and not self._writer.suspended:
                self._post_always(self._retry)

    def _set_up(self) -> None:
        frame = Frame("", BLOCK_SIZE, self._blocks)
        try:
            namespace = self.config.namespace()
            frame = Frame(namespace.fingerprint, BLOCK_SIZE, self._blocks)
            store = Store(
                self.config.dir,
                namespace,
                frame,
                max_bytes=self.config.max_bytes,
                verify=self.config.verify,
            )
            store.scan()
            store.remove_orphans()
        except OSError as error:
            if not self._stopping.is_set() and self._store is None and not self._ready.is_set():
                log.warning("disk cache: %s cannot be used: %s", self.config.dir, error)
            return
        self._store = store
        self._restores = Restores(
            store,
            self._reader,
            self._prefixes,
            self._pool,
            block_size=BLOCK_SIZE,
            post=self._post,
            publish=self._publish_restored,
            release_written=self._await_written,
        )
        self._writer.start()
        self._reader.start()
        self._ready.set()

    def _publish_restored(self, tokens: Sequence[int], blocks: Sequence[int]) -> None:
        self._publishing_restored = True
        try:
            self._prefixes.publish(tokens, blocks)
        finally:
            self._publishing_restored = False

    def _demote(self) -> None:
        """Gives back the memory of prefixes that nobody has used for a while."""
        if self._store is None or self._writer.suspended or self._unwritten:
            return  # what is not on disk stays in memory
        self._demotions += self._prefixes.demote(time.monotonic() - self.config.demote_idle_s)
