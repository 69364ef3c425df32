"""`stoker cache`: what the disk cache holds, and emptying it. Needs no running server."""

from __future__ import annotations

import json
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stoker.cli.options import with_settings
from stoker.cli.output import fail, note, table
from stoker.config import Settings

if TYPE_CHECKING:
    from stoker.cache.disk.usage import NamespaceUsage


class Action(StrEnum):
    ls = "ls"
    stat = "stat"
    clear = "clear"


@with_settings("ssd_cache")
def run(
    settings: Settings,
    action: Annotated[Action, typer.Argument(help="What to do.", show_default=False)],
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="The folder, as given to --ssd-cache.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="TEXT", help="Only caches of models whose name contains this."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Clear without asking.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Look into the disk cache, or empty it.

    \b
      stoker cache ls ~/kv             what it holds, a line for each model and way of computing
      stoker cache stat ~/kv           its size, and the room on the disk
      stoker cache clear ~/kv --model smollm2

    A server that uses the folder may go on running; it computes again what it no longer finds. Files
    that stoker did not write are never touched.
    """
    from stoker.cache.disk.usage import usage_of

    root = folder or settings.ssd_cache
    if root is None:
        fail("which folder? Name it, or set STOKER_SSD_CACHE", 2)
    if not root.is_dir():
        fail(f"{root} is not a folder")
    wanted = (model or "").casefold()
    found = [usage for usage in usage_of(root) if wanted in usage.model.casefold()]
    if action is Action.clear:
        _clear(found, root, yes)
    elif as_json:
        rows = [_row(usage) for usage in found]
        print(json.dumps(rows if action is Action.ls else _totals(root, found), indent=2))
    elif action is Action.stat:
        print(_stat(root, found))
    elif found:
        print(_table(found))
    else:
        note(f"{root} holds no computed prefixes.")


def _clear(found: list[NamespaceUsage], root: Path, yes: bool) -> None:
    from stoker.cache.disk.usage import clear
    from stoker.library.entry import human_size

    size = sum(usage.num_bytes for usage in found)
    count = sum(usage.num_files for usage in found)
    if not count:
        note("Nothing to clear.")
        return
    if not yes:
        if not sys.stdin.isatty():
            fail("nobody to ask; to clear without a question, add --yes", 2)
        if not typer.confirm(f"Delete {count} files ({human_size(size)}) from {root}?", err=True):
            note("Nothing was deleted.")
            raise typer.Exit(1)
    freed = sum(clear(usage) for usage in found)
    print(f"{human_size(freed)} freed.")


def _table(found: list[NamespaceUsage]) -> str:
    from stoker.library.entry import human_size

    rows: list[tuple[str, ...]] = [("NAMESPACE", "MODEL", "FILES", "SIZE", "LONGEST PREFIX", "LAST USED")]
    for usage in found:
        rows.append(
            (
                usage.folder.name,
                usage.model or "?",
                str(usage.num_files),
                human_size(usage.num_bytes),
                f"{usage.longest_tokens} tokens",
                _ago(usage.last_used),
            )
        )
    return table(rows)


def _stat(root: Path, found: list[NamespaceUsage]) -> str:
    from stoker.library.entry import human_size

    totals = _totals(root, found)
    return table(
        [
            ("Folder", str(root)),
            ("Models and ways of computing", str(totals["namespaces"])),
            ("Files", str(totals["files"])),
            ("Size", human_size(totals["bytes"])),
            ("Longest prefix", f"{totals['longest_prefix_tokens']} tokens"),
            ("Free on the disk", human_size(totals["free_bytes"])),
        ]
    )


def _totals(root: Path, found: list[NamespaceUsage]) -> dict[str, Any]:
    import shutil

    return {
        "dir": str(root),
        "namespaces": len(found),
        "files": sum(usage.num_files for usage in found),
        "bytes": sum(usage.num_bytes for usage in found),
        "longest_prefix_tokens": max((usage.longest_tokens for usage in found), default=0),
        "free_bytes": shutil.disk_usage(root).free,
    }


def _row(usage: NamespaceUsage) -> dict[str, Any]:
    return {
        "namespace": usage.folder.name,
        "model": usage.model,
        "files": usage.num_files,
        "bytes": usage.num_bytes,
        "longest_prefix_tokens": usage.longest_tokens,
        "last_used": usage.last_used,
        "facts": usage.facts,
    }


def _ago(when: float | None) -> str:
    if when is None:
        return "never"
    seconds = max(0, int(time.time() - when))
    for name, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            count = seconds // length
            return f"{count} {name}{'s' if count > 1 else ''} ago"
    return "just now"
