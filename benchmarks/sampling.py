"""What sampling costs per row, by vocabulary and settings: `python benchmarks/sampling.py`.

Prints medians in microseconds per row, on one core, for logits shaped like a language model's
(a few likely tokens over a broad floor) and for flat ones, the worst case of top-p.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import statistics
import time

import torch

from stoker.core import SamplingParams
from stoker.engine.sampling import SamplerRow, sample

SETTINGS = {
    "greedy": SamplingParams(temperature=0),
    "greedy, 20 logprobs": SamplingParams(temperature=0, logprobs=20),
    "greedy, all penalties": SamplingParams(
        temperature=0, repetition_penalty=1.1, presence_penalty=0.5, frequency_penalty=0.5
    ),
    "greedy, whole history": SamplingParams(temperature=0, repetition_penalty=1.1, repetition_context_size=0),
    "temperature": SamplingParams(),
    "top_p 0.9": SamplingParams(top_p=0.9),
    "top_p 0.99": SamplingParams(top_p=0.99),
    "top_k 40": SamplingParams(top_k=40),
    "top_k 64, top_p 0.95": SamplingParams(top_k=64, top_p=0.95),
    "min_p 0.05": SamplingParams(min_p=0.05),
    "top_p 0.9, min_p 0.05, XTC": SamplingParams(top_p=0.9, min_p=0.05, xtc_probability=1, xtc_threshold=0.1),
    "temperature, 20 logprobs": SamplingParams(logprobs=20),
}
PROMPT_TOKENS = 4096


def make_logits(kind: str, num_rows: int, vocab_size: int) -> torch.Tensor:
    """float32 [num_rows, vocab_size]. peaked: normal with deviation 3, and a heavy upper tail."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(num_rows, vocab_size, generator=generator)
    if kind == "flat":
        return logits
    ranks = torch.stack([torch.randperm(vocab_size, generator=generator) for _ in range(num_rows)])
    return logits * 3 + 16 - 2 * torch.log1p(ranks.float())


def microseconds_per_row(logits: torch.Tensor, params: SamplingParams, repeats: int) -> float:
    num_rows, vocab_size = logits.shape
    prompt = torch.randint(vocab_size, (PROMPT_TOKENS,)).tolist()
    rows = [SamplerRow(params, prompt) for _ in range(num_rows)]
    seconds = []
    for _ in range(repeats):
        fresh = logits.clone()
        start = time.perf_counter()
        results = sample(fresh, rows)
        seconds.append(time.perf_counter() - start)
        for row, result in zip(rows, results, strict=True):
            row.accept(result.token_id)
    return statistics.median(seconds) / num_rows * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--vocab", type=int, nargs="+", default=[49_152, 151_936, 262_144])
    parser.add_argument("--repeats", type=int, default=15)
    args = parser.parse_args()
    torch.set_num_threads(1)
    columns = [(kind, size) for size in args.vocab for kind in ("peaked", "flat")]
    logits = {column: make_logits(column[0], args.rows, column[1]) for column in columns}
    print(f"microseconds per row, {args.rows} rows")
    print(f"{'':28}" + "".join(f"{kind + ' ' + str(size):>15}" for kind, size in columns))
    for name, params in SETTINGS.items():
        figures = [microseconds_per_row(logits[column], params, args.repeats) for column in columns]
        print(f"{name:28}" + "".join(f"{figure:15.0f}" for figure in figures), flush=True)


if __name__ == "__main__":
    main()
