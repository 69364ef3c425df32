"""The device lent to work that is not a row's: encoders, a transcription, something that must be alone.

A loan is called in pieces, one piece after a step, until it says that it is done, so that rows slow down
and never stall. Those that wait take turns. Engine thread only.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

log = logging.getLogger(__name__)

Piece = Callable[[float], bool]  # works for about so many seconds; True when nothing is left


@dataclass(slots=True, eq=False)
class Loan:
    piece: Piece
    abandon: Callable[[], Any] = field(default=lambda: None)  # called instead when the engine ends
    alone: bool = False  # no row may be running, and none is admitted while it waits


def once(work: Callable[[], Any], future: Future[Any], *, alone: bool = False) -> Loan:
    """One piece whose outcome goes into the future. Cancelling that takes it back while it waits."""

    def piece(_: float) -> bool:
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(work())
            except Exception as error:
                future.set_exception(error)
        return True

    return Loan(piece, future.cancel, alone)


class Loans:
    def __init__(self) -> None:
        self._beside: deque[Loan] = deque()
        self._alone: deque[Loan] = deque()

    def __bool__(self) -> bool:
        return bool(self._beside or self._alone)

    def add(self, loan: Loan) -> None:
        (self._alone if loan.alone else self._beside).append(loan)

    @property
    def admits_rows(self) -> bool:
        return not self._alone

    def due(self, *, rows_are_running: bool) -> bool:
        """Whether there is a piece that may run now."""
        return bool(self._beside or (self._alone and not rows_are_running))

    def run_piece(self, seconds: float, *, rows_are_running: bool) -> None:
        """The next piece of one of those due. One that fails is dropped: it is not the rows' fault."""
        waiting = self._beside if rows_are_running or not self._alone else self._alone
        loan = waiting.popleft()
        try:
            done = loan.piece(seconds)
        except Exception:
            log.exception("work between the engine's steps failed")
            return
        if not done:
            waiting.append(loan)

    def abandon(self) -> None:
        for loan in (*self._alone, *self._beside):
            loan.abandon()
