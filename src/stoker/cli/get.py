"""`stoker get`: download a model."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from stoker.cli.options import with_settings
from stoker.cli.output import note, table
from stoker.config import Settings

if TYPE_CHECKING:
    from stoker.library.catalog import CatalogModel


@with_settings()
def run(
    settings: Settings,
    name: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help="ORG/REPO[:QUANT], or a starter's id.", show_default=False),
    ] = None,
    revision: Annotated[
        str,
        typer.Option("--revision", metavar="REV", help="Branch, tag or commit.", show_default=False),
    ] = "main",
    accept_license: Annotated[
        bool, typer.Option("--accept-license", help="Agree to the model's licence without being asked.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Download a starter again although it is here.")
    ] = False,
) -> None:
    """Download a model, or complete a download that was interrupted.

    \b
      stoker get                              list the starter models
      stoker get smollm2-135m-instruct        a starter model
      stoker get Qwen/Qwen3-0.6B              a repository on Hugging Face
      stoker get org/name-GGUF:Q4_K_M         one quantization of a GGUF repository
      HF_TOKEN=... stoker get org/private     one that needs a token

    Every file's checksum is verified; what has arrived is kept when you stop, and the next
    attempt resumes there. Part of the name of a model that is here refreshes it.
    """
    if name is None:
        _print_starters()
        return
    from stoker.cli.progress import download
    from stoker.library.entry import human_size

    entry = download(name, revision=revision, accept_license=accept_license or _ask_for_consent, force=force)
    print(f"{entry.id}  {human_size(entry.size_bytes)}  {entry.path}")


def _print_starters() -> None:
    from stoker.library.catalog import catalog
    from stoker.library.entry import human_size

    rows: list[tuple[str, ...]] = [("STARTER", "KIND", "SIZE", "LICENCE", "")]
    for model in catalog():
        licence = model.license.name + (" (must be accepted)" if model.license.must_accept else "")
        rows.append((model.id, model.kind, human_size(model.size_bytes), licence, model.title))
    print(table(rows))
    print("\nAny repository on Hugging Face works too: stoker get ORG/REPO")


def _ask_for_consent(model: CatalogModel) -> bool:
    """Only a person at a terminal can agree; a script passes --accept-license."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    note(f"{model.id} may be used only under the {model.license.name}: {model.license.url}")
    return typer.confirm("Have you read them, and do you agree?", err=True)
