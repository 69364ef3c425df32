"""Kills a server with a disk cache again and again while it writes, and checks what the next one makes of it:
`make crash`, or `python tools/crash_disk_cache.py --kills 50`.

Each round starts a server on the same folder, asks it for what should be on disk, has new conversations and
interrupted ones go on beside each other, and ends it with SIGKILL at a random moment. Every answer must be
the one that a server without any cache gives, every server must come up and serve, and what a flush
reported as durable must be read back to the last token by the next one.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from soak import WORDS, wait_until_ready

from stoker.cache.disk.folder import TEMPORARY

ANSWER_TOKENS = 16
LATEST_KILL_S = 3.0  # after the first request of the round was sent
FLUSH_EVERY = 4  # rounds


class Server:
    def __init__(self, model: str, *options: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        command = [sys.executable, "-m", "stoker", "serve", model, "--port", str(port)]
        command += ["--threads", "1", "--context-limit", "2000", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        base = f"http://127.0.0.1:{port}"
        self.http = httpx.Client(base_url=base, timeout=300)
        try:
            wait_until_ready(base, self.process)
        except SystemExit:
            self.kill()
            raise

    def complete(self, prompt: str) -> tuple[str, int, int]:
        """The greedy answer, the tokens of the prompt, and how many of them came from a cache."""
        body = {"prompt": prompt, "max_tokens": ANSWER_TOKENS, "temperature": 0}
        reply = self.http.post("/v1/completions", json=body).raise_for_status().json()
        usage = reply["usage"]
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        return reply["choices"][0]["text"], usage["prompt_tokens"], cached

    def disk(self) -> dict[str, Any]:
        found: dict[str, Any] = self.http.get("/stats").json()["ssd_cache"]
        return found

    def flush(self) -> bool:
        return bool(self.http.post("/admin/cache/flush").json()["durable"])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.http.close()


@dataclass
class Findings:
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def problem(self, kind: str, text: str) -> None:
        self.counts[kind] += 1
        self.problems.append(text)
        print(text, file=sys.stderr, flush=True)


class Round:
    """One server's life."""

    def __init__(self, number: int, server: Server, source: random.Random, findings: Findings) -> None:
        self.number, self.server, self.source, self.findings = number, server, source, findings
        self.answers: list[tuple[str, str]] = []  # prompt and answer, of those that got one
        self._killed = False

    def recall(self, durable: list[str]) -> None:
        """What was durable before the kill is read back whole."""
        for prompt in self.source.sample(durable, min(2, len(durable))):
            answer, num_tokens, cached = self.server.complete(prompt)
            self.answers.append((prompt, answer))
            self.findings.counts["durable prefixes asked for again"] += 1
            self.findings.counts["of them tokens"] += num_tokens
            self.findings.counts["of those tokens reused"] += cached
            if cached < num_tokens - 1:
                text = f"round {self.number}: {cached} of {num_tokens} durable tokens were reused"
                self.findings.problem("durable prefixes lost", text)

    def talk(self, prompts: list[str], *, flush: bool) -> list[str]:
        """All at once, then the end. Returns what is durable."""
        with ThreadPoolExecutor(len(prompts)) as clients:
            asked = [clients.submit(self._ask, prompt) for prompt in prompts]
            durable = []
            if flush:
                for one in asked:
                    one.result()
                if self.server.flush():
                    durable = prompts
                    self.findings.counts["flushes"] += 1
                # The kill meets a writer that is at work all the same.
                asked.append(clients.submit(self._ask, f"{prompts[0]} {self.number}"))
            time.sleep(self.source.uniform(0, LATEST_KILL_S))
            self._killed = True
            self.server.kill()
        return durable

    def _ask(self, prompt: str) -> None:
        try:
            answer, _, cached = self.server.complete(prompt)
        except (httpx.HTTPError, ValueError, KeyError, RuntimeError) as error:
            if self._killed:
                self.findings.counts["requests cut off"] += 1
            else:
                self.findings.problem("requests failed", f"round {self.number}: {error!r}")
            return
        self.answers.append((prompt, answer))
        self.findings.counts["tokens reused beside"] += cached


def make_prompts(number: int, earlier: list[str], source: random.Random) -> list[str]:
    """New conversations with one of three openings, and earlier ones that go on or are repeated."""
    opening = f"Opening {number % 3}. " + " ".join(random.Random(number % 3).choices(WORDS, k=60))
    new = [f"{opening} {number}-{i} " + " ".join(source.choices(WORDS, k=50)) for i in range(2)]
    if not earlier:
        return new
    return [*new, source.choice(earlier), source.choice(earlier) + " " + " ".join(source.choices(WORDS, k=9))]


def check(plain: Server, one: Round, known: dict[str, str]) -> None:
    for prompt, answer in one.answers:
        if prompt not in known:
            known[prompt] = plain.complete(prompt)[0]
        one.findings.counts["answers compared"] += 1
        if answer != known[prompt]:
            text = f"round {one.number}: {prompt[:60]!r} gave {answer!r}, not {known[prompt]!r}"
            one.findings.problem("answers wrong", text)


def run(model: str, kills: int, seed: int, dtype: str) -> int:
    source, findings = random.Random(seed), Findings()
    known: dict[str, str] = {}  # right answers
    earlier: list[str] = []
    durable: list[str] = []
    plain = Server(model, "--dtype", dtype, "--prompt-cache", "0")
    try:
        with tempfile.TemporaryDirectory() as folder:
            options = (
                "--dtype",
                dtype,
                "--ssd-cache",
                folder,
                "--ssd-cache-verify",
                "--generation-checkpoint",
                "4",
            )
            for number in range(kills):
                one = Round(number, Server(model, *options), source, findings)
                findings.counts["servers that came up"] += 1
                while not one.server.disk()["writing"]:
                    time.sleep(0.02)
                one.recall(durable)
                prompts = make_prompts(number, earlier, source)
                durable += one.talk(prompts, flush=number % FLUSH_EVERY == 0)
                earlier += prompts
                half_written = list(Path(folder).glob(f"*/{TEMPORARY}*"))
                findings.counts["kills that left a half-written file"] += bool(half_written)
                check(plain, one, known)
                print(f"{number + 1}/{kills} {dict(findings.counts)}", file=sys.stderr, flush=True)
            last = Server(model, *options)
            findings.counts["files skipped by the last server"] = last.disk()["skipped_files"]
            findings.counts["files it found"] = last.disk()["entries"]
            last.kill()
            leftovers = list(Path(folder).glob(f"*/{TEMPORARY}*"))
            if leftovers:
                findings.problem("temporary files left", f"{len(leftovers)} files")
    finally:
        plain.kill()
    findings.counts.setdefault("answers wrong", 0)
    print(json.dumps({"kills": kills, **findings.counts, "problems": findings.problems}, indent=2))
    return 1 if findings.problems else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--model", default="smollm2-135m-instruct")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dtype", default="float32", help="in which no answer depends on its neighbours'")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # the servers end too
    return run(options.model, options.kills, options.seed, options.dtype)


if __name__ == "__main__":
    sys.exit(main())
