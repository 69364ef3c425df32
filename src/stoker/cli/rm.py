"""`stoker rm`: delete a downloaded model."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from stoker.cli.options import with_settings
from stoker.cli.output import fail, note
from stoker.config import Settings


@with_settings()
def run(
    settings: Settings,
    name: Annotated[str, typer.Argument(metavar="MODEL", help="Id of a model, or a part of it.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a model from stoker's store or the Hugging Face cache.

    \b
      stoker rm smollm2
      stoker rm Qwen/Qwen3-0.6B --yes

    Asks first, unless --yes is given. Files that another model of the cache shares stay. A model
    elsewhere on the disk is never touched.
    """
    from stoker.library import find_model
    from stoker.library.entry import human_size
    from stoker.library.remove import remove_model

    entry = find_model(name)
    if yes and entry.id.lower() != name.lower() and str(entry.path) != name:
        fail(f"{name!r} is only a part of {entry.id}; with --yes, name it in full", 2)
    if not yes:
        if not sys.stdin.isatty():
            fail("nobody to ask; to delete without a question, add --yes", 2)
        question = f"Delete {entry.id} ({human_size(entry.size_bytes)}) from {entry.path}?"
        if not typer.confirm(question, err=True):
            note("Nothing was deleted.")
            raise typer.Exit(1)
    removal = remove_model(entry)
    shared = removal.kept_shared_bytes
    kept = f"; {human_size(shared)} stay, another model uses them" if shared else ""
    print(f"Deleted {entry.id}, {human_size(removal.freed_bytes)} freed{kept}.")
