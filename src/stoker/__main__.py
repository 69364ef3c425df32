"""The entry of `stoker` and of `python -m stoker`."""

from __future__ import annotations

import sys

from stoker.preload import preload_torch

TORCH_VERBS = ("serve", "chat", "generate", "gen", "transcribe", "embed", "bench")


def main() -> None:
    """Runs the verb given on the command line and exits with its code."""
    arguments = sys.argv[1:]
    verb = next((a for a in arguments if not a.startswith("-")), "serve")
    if verb in TORCH_VERBS and not {"-h", "--help"} & set(arguments):
        preload_torch()  # before anything else is imported: the libraries load beside all of it

    from stoker.cli import main as run

    run()


if __name__ == "__main__":
    main()
