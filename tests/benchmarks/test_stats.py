"""Figures of hand-made streams, worked out by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest
from benchmarks.stats import ServerError, Stream, medians, percentile, read_stream, summarize
from benchmarks.wire import Exchange

_HEAD = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"


def _frame(choice: dict[str, Any] | None, **more: Any) -> bytes:
    choices = [] if choice is None else [choice]
    return b"data: " + json.dumps({"choices": choices, **more}).encode() + b"\n\n"


def _stream(sent: float, times: tuple[float, ...], num_tokens: int | None = None) -> Stream:
    count = num_tokens or len(times)
    return Stream(sent, times, times[-1], count, None, None, "length", "")


def test_a_chat_stream() -> None:
    usage = {
        "completion_tokens": 7,
        "prompt_tokens": 40,
        "prompt_tokens_details": {"cached_tokens": 32},
    }
    exchange = Exchange(
        10.0,
        (
            (10.1, _HEAD + _frame({"delta": {"role": "assistant", "content": ""}, "finish_reason": None})),
            (10.5, _frame({"delta": {"content": "Hel"}, "finish_reason": None})),
            (11.0, _frame({"delta": {"reasoning": "lo"}, "finish_reason": None})),
            (13.5, _frame({"delta": {}, "finish_reason": "length"})),
            (13.6, _frame(None, usage=usage) + b"data: [DONE]\n\n"),
        ),
    )
    stream = read_stream(exchange)
    assert stream.text == "Hello"
    assert stream.ttft_s == pytest.approx(0.5)
    assert stream.decode_tokens_per_s == pytest.approx(6 / 3.0)  # 7 tokens, the first one at 10.5
    assert (stream.num_prompt_tokens, stream.num_cached_tokens) == (40, 32)
    assert stream.finish_reason == "length"


def test_a_text_completion_stream_without_usage_counts_its_frames() -> None:
    frames = [_frame({"text": piece, "finish_reason": None}) for piece in ("a", "b", "c")]
    stream = read_stream(Exchange(0.0, ((1.0, _HEAD + b"".join(frames)),)))
    assert stream.num_tokens == 3
    assert stream.decode_tokens_per_s is None  # all at once: no time to divide by


@pytest.mark.parametrize(
    ("wire", "words"),
    [
        (b'HTTP/1.1 400 Bad Request\r\n\r\n{"error": {"message": "messages required"}}', "messages required"),
        (b"HTTP/1.1 503 Busy\r\n\r\nnot json", "503"),
        (_HEAD + b'data: {"error": {"message": "out of memory"}}\n\n', "out of memory"),
        (_HEAD + b"data: [DONE]\n\n", "no text"),
    ],
)
def test_anything_but_a_finished_stream_is_an_error(wire: bytes, words: str) -> None:
    with pytest.raises(ServerError, match=words):
        read_stream(Exchange(0.0, ((1.0, wire),)))


def test_percentiles_are_nearest_rank() -> None:
    values = [15.0, 20.0, 35.0, 40.0, 50.0]
    assert [percentile(values, p) for p in (0.05, 0.30, 0.40, 0.50, 1.00)] == [15.0, 20.0, 20.0, 35.0, 50.0]


def test_summary_of_two_concurrent_streams() -> None:
    first = _stream(0.0, (1.0, 2.0, 3.0))  # 3 tokens, 1 per second after the first
    second = _stream(0.5, (1.0, 1.5, 2.0, 4.5))  # 4 tokens, 3 in 3.5 s
    found = summarize([first, second])
    assert found["aggregate_tokens_per_s"] == pytest.approx(7 / 4.5)
    assert found["decode_tokens_per_s"] == pytest.approx((1 + 3 / 3.5) / 2)
    assert found["ttft_p50_ms"] == pytest.approx(750)
    assert found["ttft_max_ms"] == pytest.approx(1000)
    assert found["gap_p50_ms"] == pytest.approx(1000)  # 0.5 0.5 1 1 2.5
    assert found["gap_p95_ms"] == found["gap_max_ms"] == pytest.approx(2500)
    assert (found["tokens_min"], found["tokens_max"]) == (3, 4)


def test_tokens_of_a_window_share_out_those_that_arrived_together() -> None:
    stream = _stream(0.0, (1.0, 2.0, 3.0, 4.0), num_tokens=8)
    assert stream.tokens_between(2.0, 4.0) == 4.0


def test_medians_are_taken_column_by_column() -> None:
    assert medians([{"a": 1.0, "b": 9.0}, {"a": 3.0, "b": 7.0}, {"a": 2.0, "b": 8.0}]) == {"a": 2.0, "b": 8.0}
