"""Who gets the device next, without an engine."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from stoker.engine.loans import Loan, Loans, once


def run_all(loans: Loans, *, rows_are_running: bool = False) -> None:
    while loans.due(rows_are_running=rows_are_running):
        loans.run_piece(0.5, rows_are_running=rows_are_running)


def pieces(name: str, count: int, order: list[str]) -> Loan:
    left = iter(range(count - 1, -1, -1))

    def piece(seconds: float) -> bool:
        assert seconds == 0.5
        order.append(name)
        return next(left) == 0

    return Loan(piece)


def test_those_that_wait_take_turns() -> None:
    loans, order = Loans(), []
    loans.add(pieces("a", 3, order))
    loans.add(pieces("b", 2, order))
    single: Future[None] = Future()
    loans.add(once(lambda: order.append("once"), single))
    run_all(loans)
    assert order == ["a", "b", "once", "a", "b", "a"]
    assert single.done()
    assert not loans


def test_work_that_must_be_alone_waits_for_the_rows_and_keeps_others_out() -> None:
    loans, order = Loans(), []
    future: Future[int] = Future()
    loans.add(once(lambda: order.append("alone") or 5, future, alone=True))
    assert not loans.admits_rows
    assert not loans.due(rows_are_running=True)
    loans.add(pieces("beside", 2, order))
    assert loans.due(rows_are_running=True)
    loans.run_piece(0.5, rows_are_running=True)
    assert not future.done()
    run_all(loans)
    assert order == ["beside", "alone", "beside"]
    assert future.result(0) == 5
    assert loans.admits_rows


def test_an_error_reaches_the_future_and_nobody_else() -> None:
    loans, order = Loans(), []
    future: Future[int] = Future()
    loans.add(once(lambda: int("x"), future))

    def broken(seconds: float) -> bool:
        raise RuntimeError("broken")

    loans.add(Loan(broken))
    loans.add(pieces("a", 1, order))
    run_all(loans)
    with pytest.raises(ValueError, match="invalid literal"):
        future.result(0)
    assert order == ["a"]


def test_what_was_taken_back_does_not_run() -> None:
    loans, order = Loans(), []
    future: Future[None] = Future()
    loans.add(once(lambda: order.append("ran"), future))
    assert future.cancel()
    run_all(loans)
    assert order == []


@pytest.mark.parametrize("alone", [False, True])
def test_the_engines_end_cancels_what_waits(alone: bool) -> None:
    loans = Loans()
    future: Future[int] = Future()
    loans.add(once(lambda: 1, future, alone=alone))
    loans.add(Loan(lambda seconds: True))
    loans.abandon()
    assert future.cancelled()
