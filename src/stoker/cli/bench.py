"""`stoker bench`: how fast the engine is here, in this process, without HTTP."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from stoker.cli.options import MODEL_SETTINGS, Query, pick_model, with_settings
from stoker.cli.output import fail, table
from stoker.config import Settings
from stoker.core import ErrorEvent, GenerationRequest, SamplingParams, TokenEvent
from stoker.errors import GenerationFailed

if TYPE_CHECKING:
    from stoker.app import Served
    from stoker.engine import GenerationHandle


@dataclass(frozen=True, slots=True)
class Run:
    """One measurement: `rows` requests submitted together."""

    rows: int
    prompt_tokens: int  # per row
    tokens: int  # generated per row
    prefill_s: float  # until the last row's first token
    decoded_tokens: float  # after that moment, all rows together
    decode_s: float  # from that moment to the end

    @property
    def prefill_tps(self) -> float:
        return self.rows * self.prompt_tokens / self.prefill_s

    @property
    def decode_tps(self) -> float:
        return self.decoded_tokens / self.decode_s if self.decode_s else 0.0


@with_settings(*MODEL_SETTINGS, "prefill_chunk", "kv_budget")
def run(
    settings: Settings,
    positional: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help="Part of a model's name, or a path.", show_default=False),
    ] = None,
    query: Query = None,
    prompt_tokens: Annotated[
        int, typer.Option("--prompt-tokens", min=1, help="Length of each prompt.")
    ] = 512,
    tokens: Annotated[int, typer.Option("--tokens", min=2, help="Tokens generated per row.")] = 64,
    rows: Annotated[
        str, typer.Option("--rows", metavar="A,B", help="Requests at a time, several to compare.")
    ] = "1",
    runs: Annotated[int, typer.Option("--runs", min=1, help="Measurements of each; the median counts.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Measure prefill and decode speed of a model.

    \b
      stoker bench smollm2
      stoker bench smollm2 --rows 1,4,8 --prompt-tokens 1024
      stoker bench smollm2 --dtype float32 --json

    Greedy decoding of random prompts, one unmeasured run first, medians of the rest. Without a
    model the one `stoker serve` would choose is used.
    """
    counts = _counts(rows)
    from stoker.cli.loading import loaded

    with loaded(settings, pick_model(settings, positional, query), verbose=True, rows=max(counts)) as served:
        if prompt_tokens + tokens > served.engine.max_context:
            fail(f"{prompt_tokens} + {tokens} tokens exceed the context of {served.engine.max_context}", 2)
        results = []
        for count in counts:
            measure(served, count, min(prompt_tokens, 64), 4)
            results.append(median_run([measure(served, count, prompt_tokens, tokens) for _ in range(runs)]))
    if as_json:
        report = [asdict(r) | {"prefill_tps": r.prefill_tps, "decode_tps": r.decode_tps} for r in results]
        print(json.dumps({"model": served.text.id, "dtype": str(served.numerics), "runs": report}, indent=2))
        return
    head = ("rows", "prompt", "generated", "prefill tokens/s", "decode tokens/s", "decode per row")
    lines = [
        (
            str(r.rows),
            str(r.prompt_tokens),
            str(r.tokens),
            f"{r.prefill_tps:.0f}",
            f"{r.decode_tps:.1f}",
            f"{r.decode_tps / r.rows:.1f}",
        )
        for r in results
    ]
    print(table([head, *lines]))


def measure(served: Served, rows: int, prompt_tokens: int, tokens: int) -> Run:
    """Submits `rows` different random prompts at once and waits for all. Generation ignores EOS."""
    import random
    from concurrent.futures import ThreadPoolExecutor

    source = random.Random(0)
    vocabulary = served.text.tokenizer.vocab_size
    started = time.perf_counter()
    handles = [
        served.engine.submit(
            GenerationRequest(
                id=f"bench-{row}",
                prompt_ids=tuple(source.randrange(vocabulary) for _ in range(prompt_tokens)),
                sampling=SamplingParams(temperature=0),
                max_tokens=tokens,
            )
        )
        for row in range(rows)
    ]
    with ThreadPoolExecutor(max_workers=rows) as readers:
        times = list(readers.map(_token_times, handles))
    first = max(row[0] for row in times)
    end = max(row[-1] for row in times)
    decoded = sum(at > first for row in times for at in row)
    return Run(rows, prompt_tokens, tokens, first - started, decoded, end - first)


def _token_times(handle: GenerationHandle) -> list[float]:
    times: list[float] = []
    for events in handle.batches_blocking():
        now = time.perf_counter()
        for event in events:
            if isinstance(event, ErrorEvent):
                raise GenerationFailed(event.message)
            if isinstance(event, TokenEvent):
                times.append(now)
    return times


def median_run(measured: list[Run]) -> Run:
    import statistics

    first = measured[0]
    return Run(
        first.rows,
        first.prompt_tokens,
        first.tokens,
        statistics.median(run.prefill_s for run in measured),
        statistics.median(run.decoded_tokens for run in measured),
        statistics.median(run.decode_s for run in measured),
    )


def _counts(rows: str) -> list[int]:
    try:
        counts = [int(part) for part in rows.split(",")]
    except ValueError:
        counts = []
    if not counts or min(counts) < 1:
        fail(f"--rows must be whole numbers from 1, separated by commas, not {rows!r}", 2)
    return counts
