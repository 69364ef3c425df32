"""`stoker version`."""

from __future__ import annotations

from stoker import __version__


def run() -> None:
    """Print the version of stoker."""
    print(f"stoker {__version__}")
