"""serve.py from its command line to its JSON file, against a scripted server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from benchmarks.load import Load, interference, long_prompt, short_prompt
from benchmarks.wire import Endpoint
from tests.benchmarks.sse_server import Script, chat_frames, serving

from benchmarks import serve


async def _run(endpoint: Endpoint, *options: str) -> int:
    return await asyncio.to_thread(serve.main, [f"http://127.0.0.1:{endpoint.port}", *options])


async def test_table_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    usage = {"completion_tokens": 5, "prompt_tokens": 9}
    script = Script(chat_frames(["a", "b", "c", "d", "e"], usage), pause_s=0.01)
    out = tmp_path / "out" / "run.json"
    options = ["--model", "m", "--streams", "1,2", "--tokens", "5", "--rounds", "2", "--json", str(out)]
    async with serving(script) as endpoint:
        assert await _run(endpoint, *options) == 0
    assert len(script.requests) == 1 + 2 * (1 + 2 + 2)  # warm-up; per round: one, two, long prompt twice
    result = json.loads(out.read_text())
    assert set(result["medians"]) == {"streams_1", "streams_2", "long_prompt"}
    assert len(result["rounds"]) == 2
    single = result["medians"]["streams_1"]
    # Four tokens in the five pauses between the first text and the finish; sleeping takes 10 ms or longer.
    assert 0 < single["decode_tokens_per_s"] <= 4 / 0.05 * 1.05
    assert single["tokens_min"] == 5
    assert result["machine"]["cores"] >= 1
    printed = capsys.readouterr().out
    assert "aggregate tok/s" in printed
    assert "cold ttft ms" in printed


async def test_requests_ask_for_greedy_streams_with_usage() -> None:
    script = Script(chat_frames(["a", "b"]))
    async with serving(script) as endpoint:
        await _run(
            endpoint, "--model", "m", "--streams", "1", "--rounds", "1", "--long-words", "0", "--tokens", "2"
        )
    body = json.loads(script.requests[-1].partition(b"\r\n\r\n")[2])
    assert body["model"] == "m"
    assert body["temperature"] == 0
    assert body["max_tokens"] == 2
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}


async def test_a_server_that_refuses_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    script = Script([b'{"error": {"message": "no such model"}}'], status="404 Not Found", chunked=False)
    async with serving(script) as endpoint:
        assert await _run(endpoint, "--model", "m") == 1
    assert capsys.readouterr().err.endswith("HTTP 404: no such model\n")


def test_nobody_listening_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert serve.main(["http://127.0.0.1:9", "--model", "m"]) == 1
    assert "127.0.0.1" in capsys.readouterr().err


def test_no_prompt_is_seen_twice() -> None:
    loads = [Load(Endpoint("h", 1), seed=seed) for seed in (1, 2)]
    texts = [make(load, i) for load in loads for i in range(16) for make in (short_prompt, long_prompt)]
    assert len({text[:20] for text in texts}) == len(texts)


async def test_interference_compares_before_and_during(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scripted server is not slowed down by a second stream, so the share kept is about 1."""
    script = Script(chat_frames(["x"] * 60), pause_s=0.02)
    monkeypatch.setattr("benchmarks.load.WARM_UP_S", 0.3)
    async with serving(script) as endpoint:
        found = await interference(Load(endpoint), 2)
    assert found["outlived"] == 1
    assert found["kept_share"] > 0.4
    assert found["gap_max_ms"] < 1000
