"""What begins a take and what ends it: Enter in this terminal, or a key held down anywhere."""

from __future__ import annotations

import sys
from typing import Protocol

from stoker.cli.dictation.keys import HotKey


class Trigger(Protocol):
    hint: str  # what the person has to do
    over: bool  # no take can be ended any more

    def wait_begin(self) -> None: ...

    def wait_end(self) -> None: ...

    def close(self) -> None: ...


class Enter:
    """A take begins at once and ends with the Enter key."""

    hint = "Speak; Enter ends the take."

    def __init__(self) -> None:
        self.over = False

    def wait_begin(self) -> None: ...

    def wait_end(self) -> None:
        self.over = not sys.stdin.readline()

    def close(self) -> None: ...


class Held:
    """A take lasts as long as a key is held down."""

    over = False

    def __init__(self, name: str) -> None:
        self._key = HotKey(name)
        self.hint = f"Hold {name} and speak."

    def wait_begin(self) -> None:
        self._key.wait_pressed()

    def wait_end(self) -> None:
        self._key.wait_released()

    def close(self) -> None:
        self._key.close()
