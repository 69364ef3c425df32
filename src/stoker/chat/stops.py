"""Stop strings, found in a stream of text pieces.

Works on text only; which tokens belong to a match is `reply.py`'s business.
"""

from __future__ import annotations

from collections.abc import Iterable


class StopMatcher:
    """Finds the first of several stop strings and holds back what may still become one.

    The occurrence that starts earliest in the text wins; of two that start together, the one that
    completes first (the shorter). So the result depends on the text alone, not on how it was cut
    into pieces: it equals `min` over `text.find(stop)`. A completed occurrence waits while one
    that started earlier may still complete.

        stops = "DEFG":   feed("abcDE") -> ("abc", None)   feed("Fx") -> ("DEFx", None)
                          feed("DEFGh") -> ("", "DEFG")
    """

    def __init__(self, stops: Iterable[str]) -> None:
        self._stops = tuple(dict.fromkeys(stop for stop in stops if stop))  # an empty stop never matches
        self._longest = max(map(len, self._stops), default=0)
        self._held = ""
        self.matched: str | None = None

    def feed(self, text: str) -> tuple[str, str | None]:
        """Text that is safe to send, and the stop string once it is certain.

        Everything from the match on is discarded, here and in later calls.
        """
        if self.matched is not None:
            return "", self.matched
        if not self._stops:
            return text, None
        self._held += text
        start, stop = self._first_match()
        candidate = self._first_candidate()
        if stop is not None and start <= candidate:
            return self._take(start), self._end(stop)
        return self._take(candidate), None

    def finish(self) -> tuple[str, str | None]:
        """At the end of generation: the text still held, and a match that was waiting for an
        earlier candidate."""
        if self.matched is not None:
            return "", self.matched
        start, stop = self._first_match()
        if stop is not None:
            return self._take(start), self._end(stop)
        return self._take(len(self._held)), None

    @property
    def num_held(self) -> int:
        """Characters held back, or from a match on discarded."""
        return len(self._held)

    def _first_match(self) -> tuple[int, str | None]:
        found = [(at, len(stop), stop) for stop in self._stops if (at := self._held.find(stop)) >= 0]
        if not found:
            return len(self._held), None
        at, _, stop = min(found)
        return at, stop

    def _first_candidate(self) -> int:
        """Where the longest suffix begins that is the beginning of a stop, not yet all of it."""
        size = len(self._held)
        for at in range(max(0, size - self._longest + 1), size):
            suffix = self._held[at:]
            if any(len(suffix) < len(stop) and stop.startswith(suffix) for stop in self._stops):
                return at
        return size

    def _take(self, count: int) -> str:
        taken, self._held = self._held[:count], self._held[count:]
        return taken

    def _end(self, stop: str) -> str:
        self.matched = stop  # what stays in `_held` is the discarded text, for `num_held`
        return stop
