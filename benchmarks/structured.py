"""What a grammar costs: `python benchmarks/structured.py http://127.0.0.1:8080`.

Rounds alternate between plain streams and constrained ones, on the same running server, so that
whatever else the machine does falls on both. The constraints never end by themselves: every stream
decodes the same number of tokens. Greedy unless `--temperature` says otherwise: a greedy row needs a whole
mask only where the model's favourite is not allowed, a drawn one at every token.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # so that it also runs as a plain script

from benchmarks.facts import machine
from benchmarks.load import Load, concurrent, model_id
from benchmarks.report import number, table, write_json
from benchmarks.stats import medians
from benchmarks.wire import Endpoint

_PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 40},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"enum": ["kind", "quick", "tall", "odd"]}, "maxItems": 4},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}
_PEOPLE = {"type": "array", "items": _PERSON, "minItems": 100_000}

KINDS: Mapping[str, Mapping[str, Any]] = {
    "plain": {},
    "schema": {"response_format": {"type": "json_schema", "json_schema": {"name": "p", "schema": _PEOPLE}}},
    "regex": {"guided_regex": r"([a-z]{1,12}[ ,.]){100000}"},
    "gbnf": {"guided_grammar": 'root ::= "(" [a-z ]{20,200} root ")" | "[" [a-z ]{20,200} root "]"'},
}


async def measure(
    load: Load, streams: int, rounds: int, kinds: list[str]
) -> dict[str, list[dict[str, float]]]:
    """Figures by kind, one entry per round. The first use of each kind, which compiles it, is not counted."""
    for kind in kinds:
        await concurrent(replace(load, num_tokens=8, extra={**load.extra, **KINDS[kind]}), 1)
    found: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
    for number_of_round in range(rounds):
        # The order turns round, so that no kind is always the one that finds the machine warm.
        for kind in kinds if number_of_round % 2 else reversed(kinds):
            # Never the same text twice: none may find its prompt in the server's cache.
            seed = load.seed + 100 * number_of_round + kinds.index(kind)
            constrained = replace(load, extra={**load.extra, **KINDS[kind]}, seed=seed)
            found[kind].append(await concurrent(constrained, streams))
    return found


def show(found: dict[str, list[dict[str, float]]]) -> str:
    middle = {kind: medians(runs) for kind, runs in found.items()}
    plain = middle["plain"]["decode_tokens_per_s"]
    rows = [
        [
            kind,
            number(figures["aggregate_tokens_per_s"]),
            number(figures["decode_tokens_per_s"]),
            number(figures["ttft_p50_ms"]),
            f"{100 * (1 - figures['decode_tokens_per_s'] / plain):.1f} %",
        ]
        for kind, figures in middle.items()
    ]
    return table(["constraint", "aggregate tok/s", "decode tok/s", "TTFT ms", "cost"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="a running server's address")
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--kinds", nargs="*", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--top-p", type=float, default=1.0)
    parser.add_argument("--json", type=Path, help="also write every figure here")
    options = parser.parse_args()
    load = Load(Endpoint.from_url(options.url), num_tokens=options.tokens, seed=random.randrange(10**6))
    sampling = {"temperature": options.temperature, "top_p": options.top_p}
    load = replace(load, extra=sampling)
    load = replace(load, model=asyncio.run(model_id(load.endpoint)))
    kinds = ["plain", *(kind for kind in options.kinds if kind != "plain")]
    found = asyncio.run(measure(load, options.streams, options.rounds, kinds))
    print(show(found))
    if options.json:
        write_json(options.json, {"machine": machine(), "streams": options.streams, "rounds": found})


if __name__ == "__main__":
    main()
