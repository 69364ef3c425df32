"""Parser of the formats that are read once the whole block is there: calls written as Python."""

from __future__ import annotations

from collections.abc import Callable

from stoker.chat.lenient_json import partial_suffix
from stoker.chat.tools.base import Toolbox
from stoker.chat.tools.machine import BlockMachine

# A block's text without its markers -> name and arguments of each call, or None.
ReadBody = Callable[[str, Toolbox], list[tuple[str, str]] | None]


class WholeBlock(BlockMachine):
    """From `opener` to the first `closer`; a text that ends before it is read as far as it goes."""

    def __init__(self, toolbox: Toolbox, opener: str, read_body: ReadBody, closer: str) -> None:
        super().__init__(toolbox)
        self._read_body = read_body
        self._closer = closer
        self._start = len(opener)
        self._searched = self._start

    def _step(self, ended: bool) -> bool:
        end = self._held.find(self._closer, self._searched)
        if end >= 0:
            return self._read(end, end + len(self._closer), is_cut=False)
        self._searched = max(self._start, len(self._held) - len(self._closer) + 1)
        if ended:
            size = len(self._held)
            return self._read(size - partial_suffix(self._held, (self._closer,)), size, is_cut=True)
        return False

    def _read(self, end: int, end_with_closer: int, *, is_cut: bool) -> bool:
        calls = self._read_body(self._held[self._start : end], self._toolbox)
        if not calls or any(name not in self._toolbox for name, _ in calls):
            return self._give_up()
        for name, arguments in calls:
            self._begin(name)
            self._write(arguments)
            self._end(is_cut=is_cut)
        return self._stop(self._held[end_with_closer:])
