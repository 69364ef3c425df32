"""The loop that every parser of markup shares: text in, a step at a time, until the markup ends.

What the steps are is the business of `json_blocks`, `headed`, `elements` and `blocks`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from stoker.chat.tools.base import CallBegin, CallEnd, CallText, NotACall, Toolbox, ToolEvent


class BlockMachine(ABC):
    """A CallParser by steps. `_step` takes what it can decide from the front of `_held` and says whether to
    go on; with `ended` no more text comes and it must decide. `_at_end` is for what is still open then.

    `_raw` is what goes back as text when there is no call in it: the text since the block's beginning, or
    since the last call's end.
    """

    def __init__(self, toolbox: Toolbox) -> None:
        self._toolbox = toolbox
        self._raw = ""
        self._held = ""
        self._events: list[ToolEvent] = []
        self.done = False
        self.rest = ""

    def feed(self, text: str) -> list[ToolEvent]:
        if self.done:
            self.rest += text
            return []
        self._raw += text
        self._held += text
        return self._run(ended=False)

    def finish(self) -> list[ToolEvent]:
        return self._run(ended=True)

    def _run(self, *, ended: bool) -> list[ToolEvent]:
        self._events = []
        while not self.done and self._step(ended):
            pass
        if ended and not self.done:
            self._at_end()
        return self._events

    @abstractmethod
    def _step(self, ended: bool) -> bool: ...

    def _at_end(self) -> None:
        self._give_up()

    def _begin(self, name: str) -> None:
        self._events.append(CallBegin(name))

    def _write(self, text: str) -> None:
        """More of the arguments' JSON; one event for what one `feed` brought."""
        if text and self._events and isinstance(self._events[-1], CallText):
            self._events[-1] = CallText(self._events[-1].text + text)
        elif text:
            self._events.append(CallText(text))

    def _end(self, *, is_cut: bool = False) -> None:
        self._events.append(CallEnd(is_cut))

    def _give_up(self) -> bool:
        self._events.append(NotACall(self._raw))
        return self._stop("")

    def _stop(self, rest: str) -> bool:
        self.done = True
        self.rest = rest
        self._held = ""
        return False
