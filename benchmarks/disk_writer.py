"""What the disk writer costs a running answer: `python benchmarks/disk_writer.py`.

One server with a disk tier. In turns, the same short request decodes while a long prompt is on its way to
disk and while nothing is; which comes first changes from pair to pair.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # so that it also runs as a plain script

from benchmarks.compare import default_model, stoker_server
from benchmarks.load import Load, long_prompt, short_prompt, stream
from benchmarks.peers import REPOSITORY
from benchmarks.report import table
from benchmarks.servers import RunningServer
from benchmarks.wire import get, post


async def decode_rates(load: Load, pairs: int) -> dict[str, list[float]]:
    """Tokens/s with the writer "busy" and "idle"; pairs whose writing ended too early are left out."""
    found: dict[str, list[float]] = {"busy": [], "idle": []}
    await _decode(load)  # warm-up
    for number in range(pairs):
        order = ("busy", "idle") if number % 2 == 0 else ("idle", "busy")
        rates: dict[str, float] = {}
        for state in order:
            await _flush(load)
            if state == "busy":
                await stream(load, long_prompt(load, number), 1)
            rate = await _decode(load)
            if state == "idle" or await _pending_bytes(load):
                rates[state] = rate
        if len(rates) == len(order):
            for state, rate in rates.items():
                found[state].append(rate)
    return found


async def _decode(load: Load) -> float:
    # A prompt that is cached and durable, so that only its answer is computed and little is written for it.
    rate = (await stream(load, short_prompt(load, 0))).decode_tokens_per_s
    assert rate is not None
    return rate


async def _flush(load: Load) -> None:
    await post(replace(load.endpoint, base_path=""), "/admin/cache/flush", {})


async def _pending_bytes(load: Load) -> int:
    stats: dict[str, Any] = (await get(load.endpoint, "/stats")).json()
    return int(stats["ssd_cache"]["pending_spill_bytes"])


def measure(model: Path, *, pairs: int, words: int, num_tokens: int) -> dict[str, list[float]]:
    with tempfile.TemporaryDirectory() as folder:
        server = stoker_server(model, threads=2, slots=8, context=8192, options=("--ssd-cache", folder))
        with RunningServer(server, REPOSITORY / ".bench" / "logs" / "disk_writer.log") as running:
            load = running.load(seed=random.randrange(10**6), long_prompt_words=words, num_tokens=num_tokens)
            return asyncio.run(decode_rates(load, pairs))


def show(found: dict[str, list[float]]) -> str:
    if not found["busy"]:
        return "the disk writer was done before the answers were: give more --words"
    busy, idle = median(found["busy"]), median(found["idle"])
    ratios = [a / b for a, b in zip(found["busy"], found["idle"], strict=True)]
    rows = [["idle", f"{idle:.1f}"], ["busy", f"{busy:.1f}"]]
    text = table(["disk writer", "decode tokens/s"], rows)
    pairs = " ".join(f"{ratio:.3f}" for ratio in ratios)
    return f"{text}\nbusy / idle in each of {len(ratios)} pairs: {pairs}; median {median(ratios):.3f}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="disk_writer.py", description=__doc__)
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--words", type=int, default=2000, help="of the prompt that is written")
    parser.add_argument("--tokens", type=int, default=128, help="of each answer")
    args = parser.parse_args()
    model = default_model()
    if model is None:
        print("needs the starter model (make setup)", file=sys.stderr)
        return 1
    print(show(measure(model, pairs=args.pairs, words=args.words, num_tokens=args.tokens)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
