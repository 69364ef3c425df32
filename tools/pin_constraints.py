"""Writes constraints.txt: what this environment has of stoker's own dependencies, runtime, test and lint.

Only the closure of pyproject.toml is pinned, so tools somebody happened to install stay out.
"""

from __future__ import annotations

import importlib.metadata
import tomllib
from pathlib import Path

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent


def closure(requirements: list[str]) -> dict[str, str]:
    """Names and installed versions of everything the requirements need here."""
    found: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [(Requirement(text), "") for text in requirements]
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker and not requirement.marker.evaluate({**default_environment(), "extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        distribution = importlib.metadata.distribution(requirement.name)
        # A local label such as +cpu names one build; any build of the version will do.
        found[name] = distribution.version.partition("+")[0]
        for wanted in ("", *sorted(requirement.extras)):
            if (name, wanted) not in seen:
                seen.add((name, wanted))
                waiting += [(Requirement(text), wanted) for text in distribution.requires or []]
    return found


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    pins = closure([*project["dependencies"], *extras["test"], *extras["lint"]])
    lines = [
        "# Versions known to work together; `make setup` installs these. By tools/pin_constraints.py.",
        *(f"{name}=={version}" for name, version in sorted(pins.items())),
    ]
    (ROOT / "constraints.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
