"""Runs the server under mixed load and looks for what must not grow: `make soak ARGS="--minutes 60"`.

Clients stream to the end, go away in the middle, send nonsense, ask for several answers. Afterwards
no row may be running, no keys and values held, and memory may not have grown since the warm-up.
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from typing import Any

import httpx

START_TIMEOUT_S = 300.0
REPORT_EVERY_S = 10.0
WORDS = ("river", "stone", "light", "house", "green", "winter", "engine", "paper", "seven", "silver")


def client(base: str, until: float, seed: int, outcomes: Counter[str]) -> None:
    """One client that behaves at random until the time is over."""
    source = random.Random(seed)
    behaviours = (stream, stream, leave, several, nonsense)
    with httpx.Client(base_url=base, timeout=300) as http:
        while time.monotonic() < until:
            behave = source.choice(behaviours)
            try:
                outcome = behave(http, source)
            except (httpx.HTTPError, ValueError) as error:
                outcome = f"FAILED {type(error).__name__}: {error}"
            outcomes[f"{behave.__name__}: {outcome}"] += 1


def body(source: random.Random, **fields: Any) -> dict[str, Any]:
    text = " ".join(source.choices(WORDS, k=source.choice((3, 30, 300))))
    message = {"role": "user", "content": text}
    return {"messages": [message], "max_tokens": source.randint(1, 80)} | fields


def stream(http: httpx.Client, source: random.Random) -> str:
    with http.stream("POST", "/v1/chat/completions", json=body(source, stream=True)) as response:
        lines = [line for line in response.iter_lines() if line.startswith("data:")]
    if response.status_code == 429:
        return "queue full"
    return "complete" if lines and lines[-1] == "data: [DONE]" else "FAILED: no [DONE]"


def leave(http: httpx.Client, source: random.Random) -> str:
    with http.stream(
        "POST", "/v1/chat/completions", json=body(source, stream=True, max_tokens=2000)
    ) as response:
        for position, _ in enumerate(response.iter_lines()):
            if position > source.randint(0, 20):
                break
    return "left"


def several(http: httpx.Client, source: random.Random) -> str:
    response = http.post("/v1/chat/completions", json=body(source, n=3, logprobs=True, top_logprobs=5))
    if response.status_code == 429:
        return "queue full"
    return "complete" if len(response.json()["choices"]) == 3 else "FAILED: choices missing"


def nonsense(http: httpx.Client, source: random.Random) -> str:
    wrong = source.choice(('{"messages": ', '{"messages": 3}', "[]", '{"messages": [], "temperature": -1}'))
    response = http.post("/v1/chat/completions", content=wrong)
    return "refused" if 400 <= response.status_code < 500 else f"FAILED: status {response.status_code}"


def figures(base: str) -> dict[str, float]:
    """What must return to zero, and the memory held."""
    stats = httpx.get(f"{base}/stats", timeout=30).json()
    batch = stats["batch"]
    return {
        "active": batch["active_rows"],
        "pending": batch["pending_rows"],
        "kv_mib": batch["kv_bytes"] / 2**20,
        "rss_mib": stats["process"]["rss_bytes"] / 2**20,
    }


def wait_until_ready(base: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and server.poll() is None:
        try:
            httpx.get(f"{base}/health", timeout=2)
            return
        except httpx.HTTPError:
            time.sleep(0.2)
    raise SystemExit("the server did not start")


def run(base: str, server: subprocess.Popen[bytes], minutes: float, clients: int, limit: float) -> int:
    """The exit code: 0 when nothing failed and nothing grew."""
    wait_until_ready(base, server)
    until = time.monotonic() + minutes * 60
    warm_at = time.monotonic() + minutes * 60 / 4
    outcomes: Counter[str] = Counter()
    threads = [threading.Thread(target=client, args=(base, until, seed, outcomes)) for seed in range(clients)]
    for thread in threads:
        thread.start()
    warm_mib = 0.0
    while any(thread.is_alive() for thread in threads):
        time.sleep(REPORT_EVERY_S)
        now = figures(base)
        if time.monotonic() < warm_at or not warm_mib:
            warm_mib = max(warm_mib, now["rss_mib"])
        print(json.dumps({"requests": sum(outcomes.values())} | {k: round(v, 1) for k, v in now.items()}))
    time.sleep(2)
    end = figures(base)
    for outcome, count in sorted(outcomes.items()):
        print(f"{count:7d}  {outcome}")
    problems = [outcome for outcome in outcomes if "FAILED" in outcome]
    problems += [f"{name} is {end[name]} at rest" for name in ("active", "pending", "kv_mib") if end[name]]
    if end["rss_mib"] > warm_mib * limit:
        problems.append(f"memory grew from {warm_mib:.0f} to {end['rss_mib']:.0f} MiB")
    print(
        "\n".join(problems)
        or f"sound: {warm_mib:.0f} MiB after the warm-up, {end['rss_mib']:.0f} MiB at the end"
    )
    return 1 if problems else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2-135m-instruct")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--clients", type=int, default=12)
    parser.add_argument("--memory-limit", type=float, default=1.1, help="growth allowed since the warm-up")
    args = parser.parse_args()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "stoker",
        "serve",
        args.model,
        "--port",
        str(port),
        "--log-level",
        "warning",
    ]
    server = subprocess.Popen(command)
    try:
        return run(f"http://127.0.0.1:{port}", server, args.minutes, args.clients, args.memory_limit)
    finally:
        server.terminate()
        server.wait(timeout=150)


if __name__ == "__main__":
    raise SystemExit(main())
