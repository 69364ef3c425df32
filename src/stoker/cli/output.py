"""How the command line speaks: answers on stdout, everything about the work on stderr."""

from __future__ import annotations

import sys
from typing import NoReturn

import typer

from stoker.config import SettingError
from stoker.errors import StokerError


def note(message: str) -> None:
    """A line for the person at the terminal; never part of a command's answer."""
    print(message, file=sys.stderr, flush=True)


def fail(error: StokerError | str, code: int | None = None) -> NoReturn:
    """End with the message on stderr: exit code 2 for a bad setting, else 1."""
    text = error.message if isinstance(error, StokerError) else error
    note(f"stoker: {text}")
    raise typer.Exit(code or (2 if isinstance(error, SettingError) else 1))


def table(rows: list[tuple[str, ...]], *, indent: str = "") -> str:
    """Columns aligned by spaces; the last one is not padded."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))] if rows else []
    lines = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:-1], widths[:-1], strict=True)]
        lines.append(indent + "  ".join([*cells, row[-1]]).rstrip())
    return "\n".join(lines)


def write_dim(text: str) -> None:
    """Text that is not the answer, for a person to read along: nothing when a script reads us."""
    if sys.stdout.isatty():
        sys.stdout.write(f"\x1b[2m{text}\x1b[22m")
        sys.stdout.flush()
