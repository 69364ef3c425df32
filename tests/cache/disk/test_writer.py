"""The writer's queue: what a newer snapshot makes superfluous, and what may be dropped. No thread runs."""

from __future__ import annotations

import pytest

from stoker.cache.disk.checkpoint import Checkpoint
from stoker.cache.disk.writer import Snapshot, Writer

HISTORY = (1, 2, 3, 4)


def make_writer() -> Writer:
    return Writer(lambda snapshot, pause: 0, on_done=lambda snapshot, outcome: None, busy=lambda: False)


def checkpoint(identity: str = "a", tokens: tuple[int, ...] = (*HISTORY, 5)) -> Snapshot:
    return Snapshot(tokens, [0, 1], Checkpoint(identity, (5,), "00"))


@pytest.mark.parametrize(
    ("older", "newer", "is_superseded"),
    [
        (Snapshot(HISTORY, []), Snapshot((*HISTORY, 5), []), True),
        (Snapshot(HISTORY, []), Snapshot(HISTORY, []), True),
        (Snapshot((*HISTORY, 5), []), Snapshot(HISTORY, []), False),
        (Snapshot(HISTORY, []), Snapshot((9, *HISTORY), []), False),
        (checkpoint(), checkpoint(tokens=(*HISTORY, 5, 6)), True),
        (checkpoint(), checkpoint("b", (*HISTORY, 5, 6)), False),
        (checkpoint(), Snapshot((*HISTORY, 5, 6), []), False),
        (Snapshot(HISTORY, []), checkpoint(), False),
        (Snapshot((), [], finished="a"), Snapshot(HISTORY, []), False),
        (Snapshot(HISTORY, []), Snapshot((), [], finished="a"), False),
    ],
)
def test_what_a_newer_snapshot_makes_superfluous(
    older: Snapshot, newer: Snapshot, is_superseded: bool
) -> None:
    writer = make_writer()
    assert writer.add(older) == []
    assert writer.add(newer) == ([older] if is_superseded else [])
    assert writer.take_back() is (newer if is_superseded else older)


def test_dropping_checkpoints_leaves_the_histories_and_the_newest() -> None:
    """A history must reach the disk even when a checkpoint of its own generation was queued behind it."""
    writer = make_writer()
    history, first, second, third = Snapshot(HISTORY, [0]), *(checkpoint(name) for name in "abc")
    for snapshot in (history, first, second, third):
        writer.add(snapshot)
    assert writer.drop_checkpoints(max_blocks=4) == [first]
    assert writer.drop_checkpoints(max_blocks=0) == [second]
    assert writer.pending() == [history, third]
