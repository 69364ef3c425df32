"""Compiles constraints, once each: a bounded cache of grammars, with limits on time and size.

Called from the threads that prepare requests, never from the engine's or the event loop's: a
large schema takes a second. Failures are kept too, so that a client which repeats one costs
nothing.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import replace
from functools import cached_property

import numpy as np
from llguidance import LLMatcher, LLParserLimits

from stoker.core import Constraint
from stoker.engine.grammar.budget import STACK_BYTES
from stoker.engine.grammar.matcher import Mask, RowMatcher
from stoker.engine.grammar.prelude import FreeMasks, Prelude
from stoker.engine.grammar.reasons import NO_TEXT, reason_in
from stoker.engine.grammar.sources import grammar_source
from stoker.engine.grammar.vocabulary import Vocabulary
from stoker.errors import GrammarError

_log = logging.getLogger(__name__)

MAX_SOURCE = 2**20  # characters
MAX_GRAMMARS = 32
# budget.py, the converters' own budgets and llguidance's limits, below, keep nearly everything under 3 s.
# For what they may have missed: a thread cannot be ended, so after so many that overran their time nothing
# new is compiled until one of them ends.
TIME_LIMIT_S = 10.0
MAX_COMPILING = 2  # at a time
MAX_OVERDUE = 2
REHEARSED_TOKENS = 6
# A lexer state takes 1 to 2 kB, so a grammar holds at most about 60 MB. Items are a step's work, at
# about 20 000 per millisecond.
_LIMITS = LLParserLimits(
    max_items_in_row=10_000, step_max_items=200_000, max_lexer_states=30_000, verbose_errors=False
)


class Grammar:
    """One compiled constraint, to be copied for each row."""

    def __init__(self, matcher: LLMatcher, first_mask: Mask) -> None:
        self._matcher = matcher
        self._first_mask = first_mask
        self._lock = threading.Lock()  # a matcher belongs to one thread at a time

    def start(self, eos_ids: Iterable[int], prelude: Prelude | None) -> RowMatcher:
        with self._lock:
            matcher = self._matcher.deep_copy()
        return RowMatcher(matcher, self._first_mask, eos_ids, prelude)


class GrammarCompiler:
    """Thread-safe. `make_vocabulary` is called when the first grammar is compiled."""

    def __init__(
        self, make_vocabulary: Callable[[], Vocabulary], *, time_limit_s: float = TIME_LIMIT_S
    ) -> None:
        self._make_vocabulary = make_vocabulary
        self._time_limit_s = time_limit_s
        self._lock = threading.Lock()
        self._grammars: OrderedDict[Constraint, Future[Grammar]] = OrderedDict()
        self._free_masks: dict[tuple[str, str | None], FreeMasks] = {}
        self._turns = threading.BoundedSemaphore(MAX_COMPILING)
        self._num_overdue = 0

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return self._make_vocabulary()

    def compile(self, constraint: Constraint) -> None:
        """Waits until the grammar is ready for `matcher`. Raises GrammarError with the reason when
        there can be none."""
        self._get(constraint)

    def matcher(self, constraint: Constraint, eos_ids: Iterable[int]) -> RowMatcher:
        """The matcher of a new row. At once after `compile`, unless 32 others came between."""
        eos_ids = tuple(i for i in eos_ids if i < self.vocabulary.size)
        grammar = self._get(constraint)
        return grammar.start(eos_ids, self._prelude(constraint, eos_ids))

    def _prelude(self, constraint: Constraint, eos_ids: tuple[int, ...]) -> Prelude | None:
        if not constraint.free_until:
            return None
        key = constraint.free_until, constraint.free_opener
        with self._lock:
            if key not in self._free_masks:
                self._free_masks[key] = FreeMasks(self.vocabulary, *key)
            return Prelude(self._free_masks[key], eos_ids)

    def _get(self, constraint: Constraint) -> Grammar:
        key = replace(constraint, free_until=None, free_opener=None)
        if len(key.source) > MAX_SOURCE:
            raise GrammarError(f"it has {len(key.source)} characters; the limit is {MAX_SOURCE}")
        with self._lock:
            future = self._grammars.get(key)
            if future is None:
                future = self._grammars[key] = self._start(key)
            self._grammars.move_to_end(key)
            while len(self._grammars) > MAX_GRAMMARS:
                self._grammars.popitem(last=False)
        try:
            return future.result(self._time_limit_s)
        except FutureTimeout:
            raise GrammarError(f"it took longer than {self._time_limit_s:g} s to compile") from None

    def _start(self, constraint: Constraint) -> Future[Grammar]:
        """Under the lock. The thread gets a larger stack; one that another part happens to start
        meanwhile gets it too, which costs nothing but address space. It is a daemon, so that a
        grammar that never ends does not keep the process from ending."""
        if self._num_overdue >= MAX_OVERDUE:
            raise GrammarError("the grammar compiler is busy with grammars that take too long")
        future: Future[Grammar] = Future()
        usual = threading.stack_size(STACK_BYTES)
        try:
            threading.Thread(
                target=self._run, args=(constraint, future), name="stoker-grammar", daemon=True
            ).start()
        finally:
            threading.stack_size(usual)
        return future

    def _run(self, constraint: Constraint, future: Future[Grammar]) -> None:
        with self._turns:
            done = threading.Event()
            watch = threading.Timer(self._time_limit_s, self._overdue, (done,))
            watch.daemon = True
            watch.start()
            try:
                future.set_result(self._compile(constraint))
            except GrammarError as error:
                future.set_exception(error)
            except BaseException as error:
                # A panic inside llguidance is no Exception. Whatever it is, the source is at fault.
                _log.warning("a grammar made its compiler fail: %r", error)
                future.set_exception(GrammarError("the grammar compiler failed on it"))
            finally:
                watch.cancel()
                with self._lock:
                    self._num_overdue -= done.is_set()
                    done.set()

    def _overdue(self, done: threading.Event) -> None:
        """Called when a compilation has had its time: it is counted until it ends, if it does."""
        with self._lock:
            if not done.is_set():
                done.set()
                self._num_overdue += 1

    def _compile(self, constraint: Constraint) -> Grammar:
        source = grammar_source(constraint)
        matcher = LLMatcher(self.vocabulary.tokenizer, source, log_level=0, limits=_LIMITS)
        _check(matcher)
        mask = np.frombuffer(matcher.compute_bitmask(), dtype=np.uint32).copy()
        _check(matcher)
        if not mask.any():
            raise GrammarError("no text can begin to match it")
        _rehearse(matcher.deep_copy(), mask)
        return Grammar(matcher, mask)


def _rehearse(matcher: LLMatcher, mask: Mask) -> None:
    """Follows one text for a few tokens: llguidance builds much of a grammar only when it is reached, and
    a grammar that goes past the limits there is better refused than begun."""
    for _ in range(REHEARSED_TOKENS):
        allowed = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))
        if matcher.is_stopped() or not len(allowed):
            break
        matcher.consume_token(int(allowed[len(allowed) // 2]))
        mask = np.frombuffer(matcher.compute_bitmask(), dtype=np.uint32)
        # Only limits count: where this text cannot be spelled to its end, another may.
        if matcher.is_error() and (reason := reason_in(matcher.get_error())) != NO_TEXT:
            raise GrammarError(reason)


def _check(matcher: LLMatcher) -> None:
    if matcher.is_error():
        raise GrammarError(reason_in(matcher.get_error()))
