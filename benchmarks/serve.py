"""How fast a running OpenAI-compatible server is: `python benchmarks/serve.py http://127.0.0.1:8080`.

Starts no server (compare.py does) and needs no package beyond the standard library.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # so that it also runs as a plain script

from benchmarks.facts import machine
from benchmarks.load import LONG_PROMPT_WORDS, Load, concurrent, interference, model_id, repeated_long_prompt
from benchmarks.report import number, table, write_json
from benchmarks.stats import ServerError, medians
from benchmarks.wire import Endpoint


@dataclass(frozen=True, slots=True)
class Plan:
    """Which scenarios run, and how often."""

    streams: tuple[int, ...] = (1, 4, 8, 16)
    rounds: int = 3
    long_prompt: bool = True
    interfering_streams: int = 0  # 0 = skip that scenario


Round = dict[str, dict[str, float]]  # scenario name -> figures


async def one_round(load: Load, plan: Plan) -> Round:
    """Every scenario once. Names: `streams_N`, `long_prompt`, `interference`."""
    found: Round = {}
    for n in plan.streams:
        found[f"streams_{n}"] = await concurrent(load, n)
    if plan.long_prompt:
        found["long_prompt"] = await repeated_long_prompt(load)
    if plan.interfering_streams:
        found["interference"] = await interference(load, plan.interfering_streams)
    return found


async def measure(load: Load, plan: Plan) -> list[Round]:
    """A short warm-up, then `plan.rounds` rounds with texts that never repeat."""
    await concurrent(replace(load, num_tokens=8), 1)
    return [await one_round(replace(load, seed=load.seed + i), plan) for i in range(plan.rounds)]


def summary(rounds: list[Round]) -> Round:
    return {name: medians([found[name] for found in rounds]) for name in rounds[0]}


def show(found: Round) -> str:
    """The tables printed at the end: rates in tokens/s, times in milliseconds."""
    parts = []
    streams = {name: figures for name, figures in found.items() if name.startswith("streams_")}
    if streams:
        columns = {
            "aggregate tok/s": "aggregate_tokens_per_s",
            "decode tok/s": "decode_tokens_per_s",
            "TTFT ms": "ttft_p50_ms",
            "gap p50": "gap_p50_ms",
            "gap p95": "gap_p95_ms",
            "gap max": "gap_max_ms",
            "tokens min": "tokens_min",
        }
        rows = [
            [name.removeprefix("streams_"), *(number(figures[key]) for key in columns.values())]
            for name, figures in streams.items()
        ]
        parts.append(table(["streams", *columns], rows))
    for name in ("long_prompt", "interference"):
        if name in found:
            rows = [[key.replace("_", " "), number(value)] for key, value in found[name].items()]
            parts.append(table([name.replace("_", " "), "median"], rows))
    return "\n\n".join(parts)


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="serve.py", description=__doc__)
    parser.add_argument("url", help="server to measure, e.g. http://127.0.0.1:8080 or https://host/v1")
    parser.add_argument("--model", help="model name to send (default: the first of /v1/models)")
    parser.add_argument("--route", choices=("chat", "completions"), default="chat")
    parser.add_argument("--streams", default="1,4,8,16", help="concurrent streams, comma-separated")
    parser.add_argument("--tokens", type=int, default=128, help="tokens per stream")
    parser.add_argument("--rounds", type=int, default=3, help="the tables show medians over rounds")
    parser.add_argument("--long-words", type=int, default=LONG_PROMPT_WORDS, help="0 = no long prompt")
    parser.add_argument("--interfere", type=int, default=0, metavar="N", help="N streams beside a long one")
    parser.add_argument(
        "--api-key", default=os.environ.get("OPENAI_API_KEY"), help="default: $OPENAI_API_KEY"
    )
    parser.add_argument("--seed", type=int, default=None, help="of the texts (default: fresh)")
    parser.add_argument("--json", type=Path, help="write machine, medians and all rounds to this file")
    return parser.parse_args(argv)


async def run(args: argparse.Namespace) -> dict[str, Any]:
    endpoint = Endpoint.from_url(args.url, args.api_key)
    load = Load(
        endpoint=endpoint,
        model=args.model or await model_id(endpoint),
        route=args.route,
        num_tokens=args.tokens,
        long_prompt_words=args.long_words,
        seed=random.randrange(10**6) if args.seed is None else args.seed,
    )
    plan = Plan(
        streams=tuple(int(n) for n in args.streams.split(",") if n),
        rounds=args.rounds,
        long_prompt=args.long_words > 0,
        interfering_streams=args.interfere,
    )
    facts = machine()
    rounds = await measure(load, plan)
    return {
        "url": endpoint.url,
        "model": load.model,
        "route": load.route,
        "tokens_per_stream": load.num_tokens,
        "machine": facts,
        "medians": summary(rounds),
        "rounds": rounds,
    }


def main(argv: list[str] | None = None) -> int:
    args = parse_arguments(argv)
    try:
        result = asyncio.run(run(args))
    except (ServerError, OSError, ValueError) as error:
        print(f"{args.url}: {error}", file=sys.stderr)
        return 1
    print(
        f"{result['model']} at {result['url']}, {args.tokens} tokens per stream, medians of {args.rounds}\n"
    )
    print(show(result["medians"]))
    if args.json:
        write_json(args.json, result)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
