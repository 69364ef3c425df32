"""What the prefix cache saves: time to first token of a long prompt cold, again, and after a restart;
and what its disk writer costs a running answer (disk_writer.py).

`python benchmarks/prefix_cache.py --llama PATH`. stoker keeps the prompt in memory and on disk; llama-server
keeps it in memory. Rounds alternate; every round has a text of its own; ratios are of medians.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # so that it also runs as a plain script

from benchmarks.compare import default_model, stoker_server
from benchmarks.disk_writer import measure, show
from benchmarks.load import Load, long_prompt, stream
from benchmarks.peers import REPOSITORY, find_llama, llama_server
from benchmarks.report import table
from benchmarks.servers import RunningServer, ServerSpec

LOGS = REPOSITORY / ".bench" / "logs"


def first_token_ms(spec: ServerSpec, seed: int, words: int, times: int) -> tuple[list[float], int]:
    """The same long prompt `times` times on a server started for it, and its tokens."""

    async def ask(load: Load) -> tuple[list[float], int]:
        prompt = long_prompt(load, 0)
        replies = [await stream(load, prompt, 4) for _ in range(times)]
        await asyncio.sleep(2.0)  # a disk tier writes behind; stopping flushes what is left
        return [reply.ttft_s * 1e3 for reply in replies], int(replies[0].num_prompt_tokens or 0)

    with RunningServer(spec, LOGS / f"{spec.name}.log") as server:
        return asyncio.run(ask(server.load(seed=seed, long_prompt_words=words)))


def main() -> int:
    parser = argparse.ArgumentParser(prog="prefix_cache.py", description=__doc__)
    parser.add_argument("--llama", help="llama-server binary or venv")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--words", type=int, default=6000, help="of the prompt; 6000 are about 6.5k tokens")
    args = parser.parse_args()
    model, llama = default_model(), find_llama(args.llama)
    if model is None or llama is None:
        print("needs the starter model and a llama-server (see compare.py)", file=sys.stderr)
        return 1
    found: dict[str, list[float]] = {}
    seed = random.randrange(10**6)
    tokens = 0
    for number in range(args.rounds):
        with tempfile.TemporaryDirectory() as folder:
            ours = stoker_server(model, threads=2, slots=8, context=8192, options=("--ssd-cache", folder))
            (cold, again), tokens = first_token_ms(ours, seed + number, args.words, 2)
            (restarted,), _ = first_token_ms(ours, seed + number, args.words, 1)
        theirs = llama_server(llama, model, threads=2, slots=8, context=8192, options=())
        (peer_cold, peer_again), _ = first_token_ms(theirs, seed + number, args.words, 2)
        for name, value in {
            "cold": cold,
            "again": again,
            "after a restart": restarted,
            "llama-server cold": peer_cold,
            "llama-server again": peer_again,
        }.items():
            found.setdefault(name, []).append(value)
        print(f"round {number + 1}/{args.rounds}", file=sys.stderr)
    medians = {name: median(values) for name, values in found.items()}
    rows = [
        [name, f"1/{medians['cold'] / value:.0f}", f"{value / medians['llama-server cold']:.3f}"]
        for name, value in medians.items()
    ]
    print(f"{tokens} tokens, medians of {args.rounds}")
    print(table(["time to first token", "of stoker's cold", "of llama-server's cold"], rows))
    print(show(measure(model, pairs=2 * args.rounds, words=2000, num_tokens=256)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
