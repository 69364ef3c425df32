"""How exact llama-server and stoker are, side by side: against transformers in float32 on the same weights.

`python benchmarks/exactness.py --model smollm2.gguf` prints the table; `--fixture` also writes llama-server's
figure, its token ids and the reference's greedy text to tests/exactness/peer.json, which the tests read.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # so that it also runs as a plain script

import torch
from tests.exactness.metrics import NUM_POSITIONS, mean_top5, same_choice
from tests.exactness.prompts import PROMPTS, Prompt
from tests.exactness.reference import Reference

from benchmarks.compare import default_model, stoker_server
from benchmarks.facts import machine
from benchmarks.peers import REPOSITORY, find_llama, llama_server
from benchmarks.report import table, write_json
from benchmarks.servers import RunningServer, ServerSpec
from benchmarks.wire import Endpoint, parse_reply, post

_NUM_TOP = 20
FIXTURE = REPOSITORY / "tests" / "exactness" / "peer.json"

Logprobs = Mapping[int, float]
Ask = Callable[[Endpoint, Sequence[int]], Awaitable[Logprobs]]


@dataclass(frozen=True, slots=True)
class Case:
    """A prompt with the reference's answer: its greedy text, and its log-probabilities before each token."""

    name: str
    ids: list[int]
    continuation: list[int]
    reference: list[torch.Tensor]

    def prefixes(self) -> list[list[int]]:
        return [self.ids + self.continuation[:n] for n in range(NUM_POSITIONS)]


async def _answer(endpoint: Endpoint, path: str, body: dict[str, Any]) -> Any:
    reply = parse_reply(await post(endpoint, path, body))
    if reply.status != 200:
        raise RuntimeError(f"{path}: HTTP {reply.status}: {reply.body[:300]!r}")
    return reply.json()


def _root(endpoint: Endpoint) -> Endpoint:
    """llama-server's own routes lie beside /v1."""
    return Endpoint(endpoint.host, endpoint.port, "")


async def llama_ids(endpoint: Endpoint, prompt: Prompt) -> list[int]:
    """Token ids as llama.cpp makes them, the chat template included."""
    text = prompt.text
    if text is None:
        body = {"messages": list(prompt.messages)}
        text = (await _answer(_root(endpoint), "/apply-template", body))["prompt"]
    body = {"content": text, "add_special": True, "parse_special": prompt.text is None}
    return list((await _answer(_root(endpoint), "/tokenize", body))["tokens"])


async def ask_llama(endpoint: Endpoint, ids: Sequence[int]) -> Logprobs:
    """The next token's most likely candidates, from plain logits. What the previous request computed is kept,
    so that prefixes of growing length cost one token each, as in decoding.

    llama-server reports no probabilities for an EOS or for a token that ends inside a character, so an `a`
    is forced; that bias touches what is sampled, not the probabilities reported.
    """
    letter = (await _answer(_root(endpoint), "/tokenize", {"content": "a"}))["tokens"]
    body = {
        "prompt": list(ids),
        "n_predict": 1,
        "temperature": 0,
        "n_probs": _NUM_TOP,
        "post_sampling_probs": False,
        "cache_prompt": True,
        "logit_bias": [[letter[0], 1000.0]],
    }
    answer = await _answer(_root(endpoint), "/completion", body)
    return {top["id"]: top["logprob"] for top in answer["completion_probabilities"][0]["top_logprobs"]}


async def ask_stoker(endpoint: Endpoint, ids: Sequence[int]) -> Logprobs:
    """As `ask_llama`; empty where the reply is only an EOS, which is no part of the text and has no entry."""
    body = {
        "model": "default",
        "prompt": list(ids),
        "max_tokens": 1,
        "temperature": 0,
        "logprobs": True,
        "top_logprobs": _NUM_TOP,
    }
    answer = await _answer(endpoint, "/completions", body)
    entries = answer["choices"][0]["logprobs"]["content"]
    return {top["id"]: top["logprob"] for top in entries[0]["top_logprobs"]} if entries else {}


def reference_cases(model: Path, prompts: Sequence[tuple[str, list[int]]]) -> list[Case]:
    reference = Reference(model)
    cases = []
    for name, ids in prompts:
        print(f"reference: {name}", file=sys.stderr, flush=True)
        continuation = reference.greedy(ids, NUM_POSITIONS)
        logits = reference.logits(ids + continuation[:-1], first=len(ids) - 1)
        cases.append(Case(name, ids, continuation, list(torch.log_softmax(logits, dim=-1))))
    return cases


def ask_all(spec: ServerSpec, ask: Ask, cases: Sequence[Case]) -> dict[str, list[Logprobs]]:
    """Every prefix of every case, one after the other."""

    async def run(endpoint: Endpoint) -> dict[str, list[Logprobs]]:
        return {case.name: [await ask(endpoint, ids) for ids in case.prefixes()] for case in cases}

    with RunningServer(spec, REPOSITORY / ".bench" / "logs" / f"exactness-{spec.name}.log") as server:
        return asyncio.run(run(server.endpoint))


def summarize(cases: Sequence[Case], found: Mapping[str, list[Logprobs]]) -> dict[str, Any]:
    """Over all prompts and the positions that were answered, in nats."""
    answered = {
        case.name: [pair for pair in zip(case.reference, found[case.name], strict=True) if pair[1]]
        for case in cases
    }
    by_prompt = {name: [mean_top5(*pair) for pair in pairs] for name, pairs in answered.items()}
    nats = [value for values in by_prompt.values() for value in values]
    return {
        "num_positions": len(nats),
        "mean_abs_top5": fmean(nats),
        "same_choice": fmean(same_choice(*pair) for pairs in answered.values() for pair in pairs),
        "by_prompt": by_prompt,
    }


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="exactness.py", description=__doc__)
    parser.add_argument("--model", type=Path, help="a Llama-family .gguf file (default: the starter model)")
    parser.add_argument("--llama", help="llama-server binary or venv (or $STOKER_BENCH_LLAMA)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-stoker", action="store_true", help="measure llama-server alone")
    parser.add_argument("--fixture", action="store_true", help=f"write {FIXTURE.relative_to(REPOSITORY)}")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    args = parse_arguments(argv)
    model, llama = args.model or default_model(), find_llama(args.llama)
    if model is None or llama is None:
        print("give --model and --llama (or run `make setup` and `make bench` first)", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the servers are stopped too
    torch.set_num_threads(args.threads)
    shape = {"threads": args.threads, "slots": 1, "context": 4096}
    peer = llama_server(llama, model, **shape)

    async def tokenize(endpoint: Endpoint) -> list[tuple[str, list[int]]]:
        return [(prompt.name, await llama_ids(endpoint, prompt)) for prompt in PROMPTS]

    with RunningServer(peer, REPOSITORY / ".bench" / "logs" / "exactness-tokenize.log") as server:
        prompts = asyncio.run(tokenize(server.endpoint))
    cases = reference_cases(model, prompts)
    figures = {"llama-server": summarize(cases, ask_all(peer, ask_llama, cases))}
    if args.fixture:
        write_json(FIXTURE, fixture(model, llama.version, cases, figures["llama-server"]))
    if not args.no_stoker:
        for name, options in {"stoker": (), "stoker --dtype float32": ("--dtype", "float32")}.items():
            spec = stoker_server(model, **shape, options=options)
            figures[name] = summarize(cases, ask_all(spec, ask_stoker, cases))
    rows = [
        [
            name,
            str(found["num_positions"]),
            f"{found['mean_abs_top5']:.6f}",
            f"{found['same_choice']:.1%}",
        ]
        for name, found in figures.items()
    ]
    print(f"{len(cases)} prompts, {NUM_POSITIONS} positions each, nats\n")
    header = ["against transformers float32", "positions", "mean |top-5|", "same choice"]
    print(table(header, rows))
    return 0


def fixture(model: Path, peer_version: str, cases: Sequence[Case], figures: dict[str, Any]) -> dict[str, Any]:
    facts = machine()
    return {
        "about": "llama-server against transformers float32; written by benchmarks/exactness.py --fixture",
        "peer": peer_version,
        "model": model.name,
        "model_sha256": hashlib.sha256(model.read_bytes()).hexdigest(),
        "machine": {key: facts[key] for key in ("cpu", "cpu_family_model", "instruction_sets", "system")},
        "transformers": facts["packages"].get("transformers"),
        "date": facts["date"],
        "mean_abs_top5": figures["mean_abs_top5"],
        "prompts": {
            case.name: {
                "ids": case.ids,
                "continuation": case.continuation,
                "mean_abs_top5": [round(nats, 6) for nats in figures["by_prompt"][case.name]],
            }
            for case in cases
        },
    }


if __name__ == "__main__":
    raise SystemExit(main())
