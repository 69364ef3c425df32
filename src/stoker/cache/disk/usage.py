"""What a disk cache folder holds, by namespace: for people and their tools, without a model."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.cache.disk import folder as folders
from stoker.cache.disk.segment import BadSegment, parse_name


@dataclass(frozen=True, slots=True)
class NamespaceUsage:
    folder: Path
    model: str  # empty when the folder does not say
    facts: Mapping[str, Any]
    num_files: int
    num_bytes: int
    longest_tokens: int
    last_used: float | None  # unix seconds


def usage_of(root: Path) -> list[NamespaceUsage]:
    """One entry for each namespace, the last used first."""
    files = folders.files_of(root)
    found = []
    for folder in folders.namespace_folders(root):
        own = [file for file in files if file.path.parent == folder]
        told = _told(folder)
        found.append(
            NamespaceUsage(
                folder,
                model=str(told.get("model", "")),
                facts=told.get("facts") or {},
                num_files=len(own),
                num_bytes=sum(file.num_bytes for file in own),
                longest_tokens=max((_end(file.path.name) for file in own), default=0),
                last_used=max((file.modified for file in own), default=None),
            )
        )
    return sorted(found, key=lambda usage: usage.last_used or 0.0, reverse=True)


def clear(usage: NamespaceUsage) -> int:
    """Removes what stoker wrote there; returns the bytes that became free."""
    freed = 0
    for file in folders.files_of(usage.folder.parent):
        if file.path.parent == usage.folder:
            with contextlib.suppress(OSError):
                file.path.unlink()
                freed += file.num_bytes
    return freed


def _told(folder: Path) -> dict[str, Any]:
    try:
        told = json.loads((folder / folders.FACTS_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def _end(name: str) -> int:
    try:
        segment = parse_name(name)
    except BadSegment:
        return 0
    return segment.end if segment is not None else 0
