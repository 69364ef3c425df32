"""The person's end of `stoker chat`: lines in with editing and history, text out.

Prompts and remarks appear only when standard input is a terminal, so that a script reads
answers alone.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

from stoker.cli.output import write_dim

HISTORY_LINES = 1000


class Terminal:
    """Reads lines and writes text. `history` is the file that keeps typed lines over sessions."""

    def __init__(self, history: Path) -> None:
        self.interactive = sys.stdin.isatty() and sys.stdout.isatty()
        if self.interactive:
            self._enable_editing(history)

    def read(self, prompt: str = "> ") -> str | None:
        """One line; None at the end of input. A line that ends in a backslash continues on the
        next. Raises KeyboardInterrupt for Ctrl-C."""
        lines: list[str] = []
        while True:
            try:
                line = input(prompt if self.interactive else "")
            except EOFError:
                return "\n".join(lines) if lines else None
            if not line.endswith("\\"):
                return "\n".join([*lines, line])
            lines.append(line[:-1])
            prompt = ". "

    def write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    def think(self, text: str) -> None:
        """What the model thinks before it answers: for a person, in dim letters."""
        write_dim(text)

    def remark(self, text: str) -> None:
        """A line that is no answer; goes to stderr when a script reads us."""
        print(text, file=sys.stdout if self.interactive else sys.stderr, flush=True)

    def _enable_editing(self, history: Path) -> None:
        try:
            import atexit
            import readline
        except ImportError:  # a Python built without it: plain lines still work
            return
        with contextlib.suppress(OSError):
            readline.read_history_file(history)
        readline.set_history_length(HISTORY_LINES)

        def save() -> None:
            with contextlib.suppress(OSError):
                history.parent.mkdir(parents=True, exist_ok=True)
                readline.write_history_file(history)

        atexit.register(save)
