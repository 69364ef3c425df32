"""`stoker cache`, and `stoker serve --ssd-cache` across restarts, signals and kills."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cache.disk.histories import open_store, save
from tests.cli.conftest import Run
from tests.cli.running import Server, Spawn

from stoker.cli.serve import ignored
from stoker.config import resolve


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "kv"
    for name in ("a", "b"):
        store, blocks = open_store(root, name)
        save(store, blocks, list(range(1, 20)))
    facts = next(root.glob("*/namespace.json"))
    facts.write_text(json.dumps(json.loads(facts.read_text()) | {"model": "org/Tiny"}))
    (root / "notes.txt").write_text("mine")
    return root


def test_ls_and_stat(stoker: Run, folder: Path, monkeypatch: pytest.MonkeyPatch):
    code, out, _ = stoker("cache", "ls", str(folder))
    assert code == 0
    assert out.count("19 tokens") == 2
    assert "org/Tiny" in out
    rows = json.loads(stoker("cache", "ls", str(folder), "--json", "--model", "tiny")[1])
    size = sum(path.stat().st_size for path in folder.glob(f"{rows[0]['namespace']}/*.safetensors"))
    assert [(row["model"], row["bytes"]) for row in rows] == [("org/Tiny", size)]
    monkeypatch.setenv("STOKER_SSD_CACHE", str(folder))
    totals = json.loads(stoker("cache", "stat", "--json")[1])
    assert (totals["namespaces"], totals["longest_prefix_tokens"]) == (2, 19)
    assert "Free on the disk" in stoker("cache", "stat")[1]


def test_clear_takes_only_what_is_ours(stoker: Run, folder: Path):
    assert stoker("cache", "clear", str(folder))[0] == 2  # nobody to ask
    assert stoker("cache", "clear", str(folder), "--model", "tiny", "--yes")[0] == 0
    assert len(list(folder.glob("*/*.safetensors"))) == 1
    code, out, _ = stoker("cache", "clear", str(folder), "--yes")
    assert (code, "freed" in out) == (0, True)
    assert not list(folder.glob("*/*.safetensors"))
    assert (folder / "notes.txt").exists()
    assert "Nothing to clear" in stoker("cache", "clear", str(folder), "--yes")[2]


def test_a_folder_must_be_named_and_exist(stoker: Run, tmp_path: Path):
    assert stoker("cache", "ls")[0] == 2
    assert "is not a folder" in stoker("cache", "ls", str(tmp_path / "nothing"))[2]
    assert stoker("cache", "explode", str(tmp_path))[0] == 2


def test_settings_without_effect_are_told():
    assert ignored(resolve({}, environ={})) == []
    assert ignored(resolve({"ssd_cache": "/kv", "ssd_cache_max": "3"}, environ={})) == []
    (line,) = ignored(resolve({"ssd_cache_max": "3"}, environ={}))
    assert "--ssd-cache-max is ignored" in line
    (line,) = ignored(resolve({"ssd_cache": "/kv", "prompt_cache": "0"}, environ={}))
    assert "--ssd-cache is ignored" in line


# The server.


@pytest.fixture
def serve(spawn: Spawn, tiny_model: Path, tmp_path: Path) -> Callable[..., Server]:
    def start(*arguments: str) -> Server:
        process = spawn(
            "serve",
            str(tiny_model),
            *("--port", "0", "--context-limit", "2000", "--dtype", "float32"),
            *("--ssd-cache", str(tmp_path / "kv"), *arguments),
            stdout=subprocess.DEVNULL,
        )
        return Server(process)

    return start


def call(server: Server, method: str, path: str, body: Any = None) -> Any:
    connection = server.connect()
    try:
        connection.request(method, path, json.dumps(body), {"content-type": "application/json"})
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def complete(server: Server, text: str, max_tokens: int = 6) -> tuple[str, int]:
    """The greedy answer, and how many of the prompt's tokens came from a cache."""
    body = {"prompt": text, "max_tokens": max_tokens, "temperature": 0}
    answer = call(server, "POST", "/v1/completions", body)
    return answer["choices"][0]["text"], answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def wait_until_usable(server: Server) -> None:
    """The folder is looked through beside the start; then the first request can use it."""
    deadline = time.monotonic() + 30
    while not call(server, "GET", "/stats")["ssd_cache"]["writing"]:
        assert time.monotonic() < deadline
        time.sleep(0.02)


TEXT = "The quick brown fox jumps over the lazy dog. " * 10  # a token for each character


def test_a_signal_flushes_and_the_next_run_reads(serve: Callable[..., Server]):
    server = serve()
    first, cached = complete(server, TEXT)
    assert cached == 0
    server.process.send_signal(signal.SIGINT)
    assert server.wait() == 0
    server = serve()
    wait_until_usable(server)
    assert complete(server, TEXT) == (first, len(TEXT) - 1)
    stats = call(server, "GET", "/stats")["ssd_cache"]
    assert stats["restores"] == 1
    assert stats["longest_durable_prefix_tokens"] >= len(TEXT)
    server.process.terminate()
    assert server.wait() == 0


def test_flush_over_http(serve: Callable[..., Server]):
    server = serve()
    wait_until_usable(server)
    complete(server, TEXT)
    report = call(server, "POST", "/admin/cache/flush")
    assert report["durable"] is True
    assert report["longest_durable_prefix_tokens"] == len(TEXT) + 5
    assert report["entries"] >= 1
    server.process.kill()  # nothing more can be written
    server.wait()
    server = serve()
    wait_until_usable(server)
    assert complete(server, TEXT)[1] == len(TEXT) - 1
    server.process.kill()


def test_a_folder_that_cannot_be_made_is_told_at_once(spawn: Spawn, tiny_model: Path, tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    process = spawn("serve", str(tiny_model), "--port", "0", "--ssd-cache", str(tmp_path / "file" / "kv"))
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "--ssd-cache" in err
    assert "cannot be used" in err


def test_killed_while_writing(serve: Callable[..., Server], tmp_path: Path):
    """What is durable is used, what is not is computed again, and nothing is wrong. More of it:
    tools/crash_disk_cache.py."""
    source = random.Random(int(os.environ.get("STOKER_TEST_SEED", "4")))
    texts = [f"{number} " + TEXT for number in range(4)]
    expected: dict[str, str] = {}
    for _ in range(2):
        server = serve()
        for text in texts:
            answer, _ = complete(server, text)
            assert expected.setdefault(text, answer) == answer
        time.sleep(source.random() * 0.1)
        server.process.kill()
        server.wait()
    server = serve()
    wait_until_usable(server)
    call(server, "POST", "/admin/cache/flush")
    assert list((tmp_path / "kv").glob("*/.writing-*")) == []
    assert all(complete(server, text)[0] == expected[text] for text in texts)
    server.process.terminate()
    server.wait()
