"""Kills a server with a disk cache again and again while it writes, and checks what the next one makes of it.

    python tools/crash_disk_cache.py --kills 50 [--model PATH]

Each round starts a server on the same folder, has several conversations go on at once, and ends it with
SIGKILL at a random moment. Every answer must be the one that a server without a disk cache gives, every
server must come up, and what a flush reported as durable must be read back by the next one.
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import httpx

START_TIMEOUT_S = 120.0


class Server:
    def __init__(self, model: str, folder: Path | None) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [sys.executable, "-m", "stoker", "serve", model, "--port", str(port), "--dtype", "float32"]
        if folder is not None:
            command += ["--ssd-cache", str(folder), "--ssd-cache-verify", "--context-limit", "2000"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120)
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                self.http.get("/health")
                return
            except httpx.HTTPError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise SystemExit("FAILED: the server did not come up") from None
                time.sleep(0.05)

    def complete(self, prompt: str) -> tuple[str, int]:
        """The greedy answer, and how many tokens of the prompt came from a cache."""
        body = {"prompt": prompt, "max_tokens": 8, "temperature": 0}
        answer = self.http.post("/v1/completions", json=body).json()
        return answer["choices"][0]["text"], answer["usage"]["prompt_tokens_details"]["cached_tokens"]

    def disk(self) -> dict[str, Any]:
        found: dict[str, Any] = self.http.get("/stats").json()["ssd_cache"]
        return found

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.http.close()


def prompts() -> list[str]:
    opening = "The quick brown fox jumps over the lazy dog. " * 12
    return [f"{opening}{number} " + f"and then number {number} happened. " * number for number in range(8)]


def run(model: str, kills: int, seed: int) -> int:
    source = random.Random(seed)
    asked = prompts()
    plain = Server(model, None)
    expected = {prompt: plain.complete(prompt)[0] for prompt in asked}
    plain.kill()
    problems: list[str] = []
    reused = 0
    durable: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        for kill in range(kills):
            server = Server(model, Path(folder))
            while not server.disk()["writing"]:
                time.sleep(0.02)
            for prompt in source.sample(sorted(durable), min(2, len(durable))):
                answer, cached = server.complete(prompt)
                reused += cached > 0
                if answer != expected[prompt] or not cached:
                    problems.append(f"kill {kill}: durable prefix: {cached} cached, {answer!r}")
            now = source.sample(asked, 4)

            def talk(prompt: str, server: Server = server, kill: int = kill) -> None:
                try:
                    answer, _ = server.complete(prompt)
                except (httpx.HTTPError, ValueError, KeyError):
                    return  # the server was killed
                if answer != expected[prompt]:
                    problems.append(f"kill {kill}: {prompt[:20]!r} gave {answer!r}")

            threads = [threading.Thread(target=talk, args=(prompt,)) for prompt in now]
            for thread in threads:
                thread.start()
            if kill % 5 == 4:
                for thread in threads:
                    thread.join()
                if server.http.post("/admin/cache/flush").json()["durable"]:
                    durable.update(now)
            time.sleep(source.random() * 0.4)
            server.kill()
            for thread in threads:
                thread.join()
    print(json.dumps({"kills": kills, "durable_prefixes_reused": reused, "problems": problems}, indent=2))
    return 1 if problems else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--model", default="smollm2-135m-instruct")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    return run(options.model, options.kills, options.seed)


if __name__ == "__main__":
    sys.exit(main())
