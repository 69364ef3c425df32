"""`stoker ls`: the models on this machine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stoker.cli.options import with_settings
from stoker.cli.output import fail, note, table
from stoker.config import Settings

if TYPE_CHECKING:
    from stoker.library import ModelEntry

UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}


@with_settings()
def run(
    settings: Settings,
    query: Annotated[
        str | None,
        typer.Argument(metavar="QUERY", help="Part of an id or architecture.", show_default=False),
    ] = None,
    vision: Annotated[bool, typer.Option("--vision", help="Only models that see images.")] = False,
    max_size: Annotated[
        str | None,
        typer.Option("--max-size", metavar="SIZE", help="Only models up to this size, such as 10GB."),
    ] = None,
    all_revisions: Annotated[
        bool, typer.Option("--all-revisions", help="Older snapshots too; the current one is marked *.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List the models on this machine, from stoker's store and the Hugging Face cache.

    \b
      stoker ls
      stoker ls qwen --max-size 10GB
      stoker ls --json

    KIND says what a model is for: chat, text (no chat template), embedding, rerank, speech. Folders
    and .gguf files elsewhere are not listed; name their path instead of an id.
    """
    from stoker.library import list_models

    limit = parse_size(max_size) if max_size is not None else float("inf")
    wanted = (query or "").casefold()
    models = [
        model
        for model in list_models(all_revisions=all_revisions)
        if (wanted in model.id.casefold() or wanted in model.architecture.casefold())
        and (model.vision or not vision)
        and model.size_bytes <= limit
    ]
    if as_json:
        print(json.dumps([as_row(model) for model in models], indent=2))
    elif models:
        print(_as_table(models, all_revisions))
    else:
        note("No models match." if query or vision or max_size else "No models yet. Try: stoker get")


def as_row(model: ModelEntry) -> dict[str, Any]:
    """What `--json` says of a model."""
    return {
        "id": model.id,
        "kind": model.kind,
        "format": model.format,
        "architecture": model.architecture,
        "quantization": model.quant_label or (f"{model.quant_bits} bit" if model.quant_bits else None),
        "size_bytes": model.size_bytes,
        "context_length": model.context_length,
        "vision": model.vision,
        "audio": model.audio,
        "source": model.source,
        "revision": model.revision,
        "canonical": model.canonical,
        "path": str(model.path),
    }


def parse_size(text: str) -> float:
    """`10GB` in bytes; decimal units, in any case."""
    digits = text.strip().lower().rstrip("bkmgt ")
    unit = text.strip().lower()[len(digits) :].strip()
    try:
        number = float(digits)
    except ValueError:
        number = -1.0
    unit = unit + "b" if unit in ("k", "m", "g", "t") else unit
    if not number > 0 or unit not in UNITS:
        fail(f"--max-size must be a size such as 10GB or 500MB, not {text!r}", 2)
    return number * UNITS[unit]


def _as_table(models: list[ModelEntry], all_revisions: bool) -> str:
    from stoker.library.entry import human_size

    head: tuple[str, ...] = ("MODEL", "KIND", "ARCHITECTURE", "WEIGHTS", "SIZE", "FROM")
    rows = [head + (("REVISION",) if all_revisions else ())]
    for model in models:
        quantized = model.quant_label or (f"{model.quant_bits}-bit" if model.quant_bits else "")
        row = (
            model.id,
            model.kind,
            model.architecture,
            f"{model.format} {quantized}".rstrip(),
            human_size(model.size_bytes),
            model.source,
        )
        revision = f"{(model.revision or '')[:12]}{' *' if model.canonical else ''}"
        rows.append((*row, revision) if all_revisions else row)
    return table(rows)
