"""stoker beside llama-server on the same weights, alternated: `python benchmarks/compare.py --model FILE`.

Each round starts one server, measures every scenario, stops it, and does the same with the other (the order
changes from round to round), so that only one is resident and both see the same minutes of the machine.
Ratios are of medians over rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # so that it also runs as a plain script

from benchmarks.facts import busy_note, machine
from benchmarks.load import Load, concurrent, interference, repeated_long_prompt
from benchmarks.peers import REPOSITORY, find_llama, install_llama, llama_server, mlx_server
from benchmarks.plot import Bar, svg
from benchmarks.report import number, table, write_json
from benchmarks.serve import Round
from benchmarks.servers import RunningServer, ServerSpec


@dataclass(frozen=True, slots=True)
class Column:
    """One line of the comparison. `goal` is the ratio stoker / peer asked for."""

    label: str
    scenario: str
    figure: str
    higher_is_better: bool
    goal: float | None = None


COLUMNS = (
    Column("1 stream, decode tokens/s", "streams_1", "decode_tokens_per_s", True, 1.8),
    Column("4 streams, aggregate tokens/s", "streams_4", "aggregate_tokens_per_s", True),
    Column("8 streams, aggregate tokens/s", "streams_8", "aggregate_tokens_per_s", True, 2.5),
    Column("16 streams, aggregate tokens/s", "streams_16", "aggregate_tokens_per_s", True, 2.5),
    Column("8 streams, time to first token, ms", "streams_8", "ttft_p50_ms", False),
    Column("8 streams, longest gap, ms", "streams_8", "gap_max_ms", False),
    Column("long prompt cold, first token, ms", "long_prompt", "cold_ttft_ms", False, 0.30),
    Column("long prompt again, first token, ms", "long_prompt", "warm_ttft_ms", False, 0.6),
    Column("beside a long prompt, tokens/s kept", "interference", "kept_share", True),
    Column("beside a long prompt, longest gap, ms", "interference", "gap_max_ms", False),
    Column("peak RSS at 8 streams, MiB", "process", "peak_rss_at_8_mib", False, 0.8),
    Column("peak RSS after all, MiB", "process", "peak_rss_mib", False),
    Column("start to first answer, s", "process", "startup_s", False),
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is measured. Streams run in increasing order, so the memory mark after 8 owes nothing to 16."""

    streams: tuple[int, ...] = (1, 4, 8, 16)
    num_tokens: int = 128
    long_prompt: bool = True
    interfering_streams: int = 7


def measure_once(spec: ServerSpec, plan: Comparison, seed: int, log: Path) -> Round:
    """One start of one server and every scenario. Raises RuntimeError, ServerError, OSError."""
    with RunningServer(spec, log) as server:
        load = server.load(num_tokens=plan.num_tokens, seed=seed)
        found: Round = {"process": {"startup_s": server.startup_s}}
        asyncio.run(_scenarios(server, load, plan, found))
        found["process"]["peak_rss_mib"] = server.peak_rss_bytes() / 2**20
    return found


async def _scenarios(server: RunningServer, load: Load, plan: Comparison, found: Round) -> None:
    await concurrent(replace(load, num_tokens=8, seed=load.seed + 500_000), 1)  # warm-up
    for n in plan.streams:
        found[f"streams_{n}"] = await concurrent(load, n)
        if n == 8:
            found["process"]["peak_rss_at_8_mib"] = server.peak_rss_bytes() / 2**20
    if plan.long_prompt:
        found["long_prompt"] = await repeated_long_prompt(load)
    if plan.interfering_streams:
        found["interference"] = await interference(load, plan.interfering_streams)


def alternate(
    specs: Sequence[ServerSpec], plan: Comparison, rounds: int, logs: Path
) -> dict[str, list[Round]]:
    """A B, B A, A B ...: rounds of every server, by name."""
    results: dict[str, list[Round]] = {spec.name: [] for spec in specs}
    seed = random.randrange(10**5)
    for i in range(rounds):
        for spec in specs if i % 2 == 0 else tuple(reversed(specs)):
            print(f"round {i + 1}/{rounds}: {spec.name}", file=sys.stderr, flush=True)
            results[spec.name].append(measure_once(spec, plan, seed + i, logs / f"{spec.name}.log"))
            time.sleep(1.0)  # let its memory and its sockets go
    return results


def summarize_columns(results: dict[str, list[Round]], ours: str, peer: str) -> list[dict[str, Any]]:
    """Medians of both, their ratio ours / peer, and every value, for the columns that were measured."""
    lines = []
    for column in COLUMNS:
        values = {
            name: [
                r[column.scenario][column.figure]
                for r in rounds
                if column.figure in r.get(column.scenario, {})
            ]
            for name, rounds in results.items()
        }
        if not values[ours] or not values[peer]:
            continue
        medians = {name: median(found) for name, found in values.items()}
        lines.append(
            {
                "column": column.label,
                "higher_is_better": column.higher_is_better,
                "goal": column.goal,
                "ratio": medians[ours] / medians[peer] if medians[peer] else None,
                "medians": medians,
                "values": values,
            }
        )
    return lines


def early_ends(results: dict[str, list[Round]], num_tokens: int) -> list[str]:
    """Scenarios in which a server ended streams before `num_tokens`: not quite comparable."""
    notes = []
    for name, rounds in results.items():
        for scenario in rounds[0]:
            fewest = min(found[scenario].get("tokens_min", num_tokens) for found in rounds)
            if fewest < num_tokens:
                notes.append(
                    f"{name} ended a stream early in {scenario}: {fewest:.0f} of {num_tokens} tokens"
                )
    return notes


def show(lines: Sequence[dict[str, Any]], ours: str, peer: str) -> str:
    rows = []
    for line in lines:
        ratio, goal = line["ratio"], line["goal"]
        sign = "≥" if line["higher_is_better"] else "≤"
        met = ratio is not None and goal and (ratio >= goal if line["higher_is_better"] else ratio <= goal)
        verdict = "" if goal is None else f"{sign} {goal:g} {'met' if met else 'missed'}"
        medians = line["medians"]
        ratio_text = "-" if ratio is None else f"{ratio:.2f}"
        rows.append([line["column"], number(medians[ours]), number(medians[peer]), ratio_text, verdict])
    return table(["median", ours, peer, "ratio", "goal"], rows)


def draw(lines: Sequence[dict[str, Any]], title: str, footnote: str) -> str:
    def gain(ratio: float, higher_is_better: bool) -> float:
        return ratio if higher_is_better else 1 / ratio

    bars = [
        Bar(
            line["column"].rsplit(", ", 1)[0]
            if line["column"].endswith((" ms", " s", " MiB"))
            else line["column"],
            gain(line["ratio"], line["higher_is_better"]),
            gain(line["goal"], line["higher_is_better"]) if line["goal"] else None,
        )
        for line in lines
        if line["ratio"]
    ]
    return svg(title, footnote, bars)


def stoker_server(
    model: Path, *, threads: int, slots: int, context: int, options: Sequence[str]
) -> ServerSpec:
    from stoker import __version__

    command = [sys.executable, "-m", "stoker", "serve", str(model), "--host", "127.0.0.1", "--port", "{port}"]
    command += ["--threads", str(threads), "--batch", str(slots), "--context-limit", str(context), *options]
    return ServerSpec("stoker", __version__, command, hidden=(sys.executable, str(model)))


def default_model() -> Path | None:
    """The starter model: $STOKER_TEST_SMOLLM2, else the one `make setup` fetched."""
    if named := os.environ.get("STOKER_TEST_SMOLLM2"):
        return Path(named)
    from stoker.errors import ModelError
    from stoker.library import find_model

    try:
        return Path(find_model("smollm2").path)
    except ModelError:
        return None


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="compare.py", description=__doc__)
    parser.add_argument("--model", type=Path, help="a .gguf file (default: the starter model)")
    parser.add_argument("--llama", help="llama-server binary or venv (or $STOKER_BENCH_LLAMA)")
    parser.add_argument("--install", action="store_true", help="build llama-server into .bench/ when missing")
    parser.add_argument(
        "--mlx", type=Path, metavar="VENV", help="compare with mlx_lm.server of this venv instead"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--streams", default="1,4,8,16", help="concurrent streams, comma-separated")
    parser.add_argument("--tokens", type=int, default=128, help="tokens per stream")
    parser.add_argument("--no-long", action="store_true", help="leave out the long prompt")
    parser.add_argument(
        "--interfere", type=int, default=7, metavar="N", help="streams beside a long one; 0 = none"
    )
    parser.add_argument("--slots", type=int, default=8, help="rows both servers decode at once")
    parser.add_argument("--context", type=int, default=4096, help="tokens a row may hold, both servers")
    parser.add_argument("--threads", type=int, default=None, help="both servers (default: the cores)")
    parser.add_argument("--llama-options", default="", help="further llama-server flags, one string")
    parser.add_argument("--stoker-options", default="", help="further stoker flags, one string")
    parser.add_argument("--name", default="compare", help="of the files in benchmarks/results/ and docs/")
    parser.add_argument("--no-goals", action="store_true", help="for models other than the starter model")
    parser.add_argument("--no-files", action="store_true", help="only print")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    args = parse_arguments(argv)
    model = args.model or default_model()
    if model is None or not model.is_file():
        print("no model: give --model FILE.gguf, or run `make setup` first", file=sys.stderr)
        return 1
    llama = None if args.mlx else find_llama(args.llama) or (install_llama() if args.install else None)
    if llama is None and not args.mlx:
        print("no llama-server: give --llama PATH, or --install to build it (ten minutes)", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the servers are stopped too
    facts = machine()
    if busy := busy_note(facts):
        print(busy, file=sys.stderr)
    shape = {
        "threads": args.threads or facts["cores"],
        "slots": args.slots,
        "context": args.context,
    }
    peer = (
        llama_server(llama, model, **shape, options=tuple(args.llama_options.split()))
        if llama
        else mlx_server(args.mlx, model, REPOSITORY / ".bench" / f"{model.stem}-mlx")
    )
    specs = (stoker_server(model, **shape, options=args.stoker_options.split()), peer)
    plan = Comparison(
        streams=tuple(sorted(int(n) for n in args.streams.split(",") if n)),
        num_tokens=args.tokens,
        long_prompt=not args.no_long,
        interfering_streams=args.interfere,
    )
    results = alternate(specs, plan, args.rounds, REPOSITORY / ".bench" / "logs")
    lines = summarize_columns(results, specs[0].name, specs[1].name)
    if args.no_goals:
        lines = [{**line, "goal": None} for line in lines]
    print(show(lines, specs[0].name, specs[1].name))
    for note in early_ends(results, args.tokens):
        print(f"note: {note}")
    if not args.no_files:
        footnote = (
            f"{model.stem}, {facts['cpu']}, {shape['threads']} threads, {args.rounds} alternated rounds, "
        )
        footnote += f"{peer.version}, {facts['date']}" + ("" if args.no_goals else "; ticks: goals")
        content = {
            "machine": facts,
            "model": model.name,
            "servers": {s.name: {"version": s.version, "command": s.shown_command()} for s in specs},
            "tokens_per_stream": args.tokens,
            "columns": lines,
            "rounds": results,
        }
        write_json(REPOSITORY / "benchmarks" / "results" / f"{args.name}.json", content)
        title = f"stoker beside {peer.name}: times better (logarithmic)"
        (REPOSITORY / "docs" / f"{args.name}.svg").write_text(draw(lines, title, footnote))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
