"""`stoker embed`: texts in, vectors out, without a server."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stoker.cli.options import with_settings
from stoker.cli.output import fail, note
from stoker.config import Settings

if TYPE_CHECKING:
    from stoker.embed.model import EmbeddingModel
    from stoker.embed.passes import Vectors
    from stoker.embed.results import ResultCache
    from stoker.embed.service import Loaded
    from stoker.library import ModelEntry

CHUNK = 1024  # texts worked on together; what is done is written before the next ones are read


@with_settings("embedding_model", "dtype", "quantize", "device", "threads")
def run(
    settings: Settings,
    positional: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help="Part of a model's name, or a path.", show_default=False),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="MODEL", help="The same, as a flag.", show_default=False)
    ] = None,
    text: Annotated[
        str | None, typer.Option("--text", metavar="TEXT", help="The text; without it, one per input line.")
    ] = None,
    instruct: Annotated[
        str | None,
        typer.Option("--instruct", metavar="TASK", help="The task of a query, for models that take one."),
    ] = None,
    dimensions: Annotated[
        int | None,
        typer.Option("--dimensions", metavar="N", min=1, help="Only the first N numbers, length 1 again."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one object, as the server would answer.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE.npy", help="Write a NumPy array [texts, numbers] instead."),
    ] = None,
) -> None:
    """Turn texts into vectors: one JSON array per text, on standard output.

    \b
      stoker embed --text "Hello."
      stoker embed all-minilm < sentences.txt > vectors.jsonl
      stoker embed < sentences.txt --out vectors.npy

    Without a model the first downloaded embedding model is used. A text that is too long loses its
    end, and how many did is said on standard error.
    """
    if out is not None and as_json:
        fail("--json and --out exclude each other", 2)
    if text is None and sys.stdin.isatty():
        fail("no text: give it with --text, or one per line on standard input", 2)
    entry = _find(model or positional or settings.embedding_model)
    texts = iter([text]) if text is not None else _lines()

    from stoker.app import choose_device, choose_threads
    from stoker.app_embed import embed_service
    from stoker.kernels import native

    device, threads = choose_device(settings.device), choose_threads(settings.threads)
    native.set_num_threads(threads)
    service = embed_service(settings, device=device, threads=threads, alone=entry)
    try:
        loaded = service.embedding()
        assert loaded is not None
        if dimensions is not None and dimensions > loaded.model.dimension:
            fail(f"--dimensions must be at most {loaded.model.dimension} for {entry.id}", 2)
        embedder = Embedder(loaded, service.results, instruct, dimensions)
        if as_json:
            _print_object(embedder, texts, entry.id)
        elif out is not None:
            _write_array(embedder, texts, out)
        else:
            for vectors in embedder.chunks(texts):
                for row in vectors.tolist():
                    print(json.dumps(row))
        if embedder.num_cut:
            note(f"{embedder.num_cut} texts were longer than {loaded.model.max_tokens} tokens and were cut")
    finally:
        service.close()


class Embedder:
    """Chunks of texts to chunks of vectors, counting tokens and cut texts."""

    def __init__(
        self,
        loaded: Loaded[EmbeddingModel],
        results: ResultCache,
        instruct: str | None,
        dimensions: int | None,
    ) -> None:
        self.num_tokens = 0
        self.num_cut = 0
        self._loaded = loaded
        self._results = results
        self._dimensions = dimensions
        default = loaded.model.pipeline.default_prompt
        self._prompt = f"Instruct: {instruct}\nQuery:" if instruct else default

    def chunks(self, texts: Iterable[str]) -> Iterator[Vectors]:
        from stoker.embed.model import shorten
        from stoker.embed.results import Embedding

        model = self._loaded.model
        with Counter() as counter:
            for chunk in _batched(texts, CHUNK):
                whole = model.tokenize(chunk, self._prompt)
                items = [model.truncate(item) for item in whole]
                self.num_cut += sum(cut is not item for cut, item in zip(items, whole, strict=True))
                self.num_tokens += sum(len(item.ids) for item in items)
                embedding = Embedding(model, self._loaded.lane, self._results, items, counter.advance)
                vectors = embedding.vectors(embedding.job.future.result())
                yield shorten(vectors, self._dimensions)


def _print_object(embedder: Embedder, texts: Iterable[str], model_id: str) -> None:
    rows = [row for vectors in embedder.chunks(texts) for row in vectors.tolist()]
    data = [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)]
    usage = {"prompt_tokens": embedder.num_tokens, "total_tokens": embedder.num_tokens}
    print(json.dumps({"object": "list", "data": data, "model": model_id, "usage": usage}))


def _write_array(embedder: Embedder, texts: Iterable[str], out: Path) -> None:
    import numpy as np

    try:
        with out.open("wb") as file:
            parts = list(embedder.chunks(texts))
            if not parts:
                fail("there was no text on standard input")
            array = np.concatenate(parts)
            np.save(file, array)
    except OSError as error:
        fail(f"cannot write {out}: {error.strerror or error}")
    note(f"{out}: {array.shape[0]} vectors of {array.shape[1]} numbers")


def _find(wanted: str | None) -> ModelEntry:
    from stoker.app_embed import find_encoder

    found = find_encoder("embedding", wanted)
    if found is None:
        fail("no embedding model is on this machine; to download one: stoker get all-minilm-l6-v2")
    return found


def _lines() -> Iterator[str]:
    for line in sys.stdin:
        yield line.rstrip("\r\n")


def _batched(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    remaining = iter(texts)
    while chunk := list(itertools.islice(remaining, size)):
        yield chunk


class Counter:
    """How many texts are done, on a terminal's standard error; nothing elsewhere."""

    def __init__(self) -> None:
        self._progress = None
        # Vectors on the same terminal would be torn apart by a bar that redraws itself.
        if sys.stderr.isatty() and not sys.stdout.isatty():
            from rich.console import Console
            from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TimeElapsedColumn

            self._progress = Progress(
                SpinnerColumn(),
                "embedding",
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                console=Console(stderr=True),
            )
            self._task = self._progress.add_task("", total=None)

    def __enter__(self) -> Counter:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def advance(self, num_texts: int) -> None:
        if self._progress is not None:
            self._progress.update(self._task, advance=num_texts)
