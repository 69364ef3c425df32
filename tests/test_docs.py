"""The generated pages equal the code, and the pages written by hand name things that exist."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from stoker.cli import VERBS
from stoker.config import SETTINGS

ROOT = Path(__file__).resolve().parent.parent


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gen_docs", ROOT / "tools" / "gen_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["cli.md", "settings.md"])
def test_generated_pages_are_current(name: str):
    page = generator().PAGES[name]()
    assert (ROOT / "docs" / name).read_text(encoding="utf-8") == page, "run `make docs`"


def test_generated_pages_are_complete():
    cli = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    settings = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert all(f"## stoker {verb}\n" in cli for verb in VERBS)
    assert all(f"`{name}`" in settings for name in SETTINGS)


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/api.md",
        "docs/caching.md",
        "docs/clients.md",
        "docs/cli.md",
        "docs/embeddings.md",
        "docs/settings.md",
        "docs/speech.md",
        "CHANGELOG.md",
    ],
)
def test_links_between_pages_lead_somewhere(page: str):
    path = ROOT / page
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target


def test_the_api_page_names_every_route_and_no_other():
    from stoker.api import ApiState, create_app

    state: Any = ApiState(text=SimpleNamespace(id="m"), engine=SimpleNamespace(max_context=1))  # type: ignore[arg-type]
    built = {
        f"{method.upper()} {path}"
        for path, methods in create_app(state).openapi()["paths"].items()
        for method in methods
    }
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^## ((?:GET|POST|DELETE) \S+)", page, re.M)) == built


def test_every_make_target_in_the_readme_exists():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.M))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`?make ([a-z]+)", readme)) <= targets
