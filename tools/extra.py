"""Prints an extra's requirements, so that pip can add them without building the package again."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

project = tomllib.loads(
    (Path(__file__).resolve().parent.parent / "pyproject.toml").read_text(encoding="utf-8")
)
print("\n".join(project["project"]["optional-dependencies"][sys.argv[1]]))
