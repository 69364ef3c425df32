"""Keys outside of this program's window: one that is held down while speaking, and typing for the person."""

from __future__ import annotations

import threading
import time
from typing import Any

from stoker.cli.output import fail

# X11 repeats a key that is held as releases and presses, some milliseconds apart.
_RELEASED_S = 0.15
_POLL_S = 0.5  # waits are cut so that Ctrl-C is heard on every system


class HotKey:
    """A key anywhere on the desktop, down or up."""

    def __init__(self, name: str) -> None:
        """Ends the program with a sentence for a key that is none, or a desktop that shows no keys."""
        keyboard = _keyboard()
        self._code = _code_of(keyboard, name)
        self._down = False
        self._changed = threading.Condition()
        self._listener = keyboard.Listener(
            on_press=lambda key: self._event(key, True), on_release=lambda key: self._event(key, False)
        )
        self._listener.start()

    def wait_pressed(self) -> None:
        with self._changed:
            while not self._down:
                self._changed.wait(_POLL_S)

    def wait_released(self) -> None:
        with self._changed:
            while self._down or self._changed.wait_for(lambda: self._down, _RELEASED_S):
                self._changed.wait(_POLL_S)

    def close(self) -> None:
        self._listener.stop()

    def _event(self, key: Any, down: bool) -> None:
        if _code(key) == self._code:
            with self._changed:
                self._down = down
                self._changed.notify_all()


class Typist:
    """Types into whatever window has the focus."""

    def __init__(self, delay_s: float) -> None:
        self._keys = _keyboard().Controller()
        self._delay_s = delay_s

    def type(self, text: str) -> None:
        if self._delay_s == 0:
            self._keys.type(text)
            return
        for character in text:
            self._keys.type(character)
            time.sleep(self._delay_s)


def _keyboard() -> Any:
    try:
        from pynput import keyboard  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ModuleNotFoundError:
        fail('keys need a keyboard library: pip install "stoker[keyboard]"')
    except ImportError as error:  # the library is there, a desktop is not
        fail(f"the keyboard cannot be used here: {str(error).strip().splitlines()[0]}")
    return keyboard


def _code_of(keyboard: Any, name: str) -> Any:
    """By the library's name of a key, by its character, or by the system's number for it."""
    if name.isdecimal():
        return int(name)
    if len(name) == 1:
        return name.lower()
    try:
        return _code(keyboard.Key[name.lower().replace("-", "_")])
    except KeyError:
        known = ", ".join(key.name for key in keyboard.Key)
        fail(f"--hotkey: no key is called {name}; a character, a key code, or one of {known}", 2)


def _code(key: Any) -> Any:
    """Characters by what they write; others by their number."""
    character = getattr(key, "char", None)
    return character.lower() if character else getattr(getattr(key, "value", key), "vk", None)
