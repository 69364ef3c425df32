"""Sends many distinct prompts through a small prompt cache and looks at the server's memory, which must
stay flat once the cache is full: `python tools/soak_cache.py --prompts 2000`.

Most prompts carry a session label of their own, so that labels are bounded by the run too.
"""

from __future__ import annotations

import argparse
import random
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
from soak import WORDS, wait_until_ready

SETTLED_AFTER = 0.1  # of the prompts; memory may not grow by more than `limit` from then on
REPORTS = 20


def ask(http: httpx.Client, number: int) -> None:
    source = random.Random(number)
    text = f"{number} " + " ".join(source.choices(WORDS, k=source.randint(20, 120)))
    body: dict[str, Any] = {"messages": [{"role": "user", "content": text}], "max_tokens": 4}
    if number % 4:
        body["session_id"] = f"session-{number}"
    http.post("/v1/chat/completions", json=body).raise_for_status()


def run(base: str, server: subprocess.Popen[bytes], prompts: int, limit: float) -> int:
    """The exit code: 0 when memory stayed flat and the cache kept within its cap."""
    wait_until_ready(base, server)
    problems: list[str] = []
    settled_mib = 0.0
    every = max(1, prompts // REPORTS)
    with httpx.Client(base_url=base, timeout=300) as http, ThreadPoolExecutor(4) as clients:
        for start in range(0, prompts, every):
            list(clients.map(ask, [http] * every, range(start, start + every)))
            stats = http.get("/stats").json()
            cache, rss_mib = stats["prompt_cache"], stats["process"]["rss_bytes"] / 2**20
            print(f"{start + every:6d} prompts  {rss_mib:7.1f} MiB  cache {cache['bytes'] / 2**20:6.1f} MiB")
            if cache["bytes"] > cache["max_bytes"]:
                problems.append(f"the cache holds {cache['bytes']} of {cache['max_bytes']} bytes")
            if start + every <= max(every, prompts * SETTLED_AFTER):
                settled_mib = max(settled_mib, rss_mib)
            elif rss_mib > settled_mib * limit:
                problems.append(f"memory grew from {settled_mib:.0f} to {rss_mib:.0f} MiB")
        if stats["batch"]["kv_used_bytes"] != cache["bytes"]:
            problems.append("keys and values are held that are not the cache's")
    print("\n".join(problems) or f"sound: {settled_mib:.0f} MiB when settled, {rss_mib:.0f} MiB at the end")
    return 1 if problems else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2-135m-instruct")
    parser.add_argument("--prompts", type=int, default=2000)
    parser.add_argument("--cache-mb", type=float, default=200)
    parser.add_argument("--limit", type=float, default=1.1, help="growth allowed once settled")
    args = parser.parse_args()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "stoker", "serve", args.model, "--port", str(port)]
    command += ["--prompt-cache", str(args.cache_mb * 1e6 / 2**30), "--log-level", "warning"]
    server = subprocess.Popen(command)
    try:
        return run(f"http://127.0.0.1:{port}", server, args.prompts, args.limit)
    finally:
        server.terminate()
        server.wait(timeout=150)


if __name__ == "__main__":
    raise SystemExit(main())
