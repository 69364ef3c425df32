"""How long running chats wait while a recording is transcribed beside them, in the real server.

    python -m benchmarks.speech_stall smollm2-135m-instruct whisper-base

A chat streams all the time. The longest time between two of its tokens is taken three times: alone, beside
a take that first loads the weights, and beside one that finds them loaded. The measure is one window's
encoder, timed afterwards in this process with as many threads; the server stops between its layers.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import numpy as np

from benchmarks.report import table
from benchmarks.servers import RunningServer, ServerSpec
from benchmarks.speech_clips import JFK, RATE, Samples
from stoker.speech.audio import read_audio

_ALONE_S = 3.0


class Chat:
    """Streams one answer after another; remembers when each token came. A context manager."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._gaps: list[tuple[float, float]] = []  # when it ended, how long it was

    def __enter__(self) -> Chat:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def gaps_during(self, work: Callable[[], object]) -> list[float]:
        began = time.perf_counter()
        work()
        ended = time.perf_counter()
        # A gap that was open when the work ended belongs to it too.
        time.sleep(0.3)
        return [length for at, length in self._gaps if at > began and at - length < ended]

    def _run(self) -> None:
        question = {"role": "user", "content": "Tell a very long story about a lighthouse."}
        body = {"messages": [question], "max_tokens": 1000, "stream": True, "seed": 1}
        with httpx.Client(base_url=self._url, timeout=120) as client:
            while not self._over.is_set():
                with client.stream("POST", "/chat/completions", json=body) as response:
                    last = None
                    for line in response.iter_lines():
                        if self._over.is_set():
                            return
                        if not line.startswith("data: {") or not json.loads(line[6:])["choices"]:
                            continue
                        now = time.perf_counter()
                        if last is not None:
                            self._gaps.append((now, now - last))
                        last = now


def encoder_times(folder: Path, threads: int, clip: Samples) -> list[float]:
    """Seconds of one window's spectrogram, encoder and cross keys: a take's first steps."""
    import torch

    from stoker.kernels import native
    from stoker.speech.types import TranscribeOptions
    from stoker.speech.whisper import load_whisper

    native.set_num_threads(threads)
    torch.set_num_threads(1)
    model, times = load_whisper(folder, num_threads=threads), []
    with torch.inference_mode():
        for _ in range(6):
            take = model.begin(TranscribeOptions(language="en"))
            take.feed(clip)
            steps = take.finish()
            began = time.perf_counter()
            for _ in range(model.dims.audio_layers + 1):
                next(steps)
            times.append(time.perf_counter() - began)
    return times[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("chat_model")
    parser.add_argument("speech_model")
    parser.add_argument("--seconds", type=float, default=60.0, help="of speech in each take")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()

    from stoker.library.registry import find_model

    folder = find_model(arguments.speech_model, kinds=("speech",)).path
    spaced = np.concatenate([read_audio(JFK), np.zeros(2 * RATE, np.float32)])
    clip = np.resize(spaced, int(arguments.seconds * RATE))
    command = [sys.executable, "-m", "stoker", "serve", arguments.chat_model, "--port", "{port}"]
    command += [
        "--threads",
        str(arguments.threads),
        "--whisper-model",
        str(folder),
        "--whisper-idle-unload",
        "60",
    ]
    spec = ServerSpec("stoker", "", command)
    rows = []
    with tempfile.TemporaryDirectory() as scratch, RunningServer(spec, Path(scratch) / "log") as server:
        url = server.endpoint.url

        def transcribe() -> None:
            headers = {"content-type": "audio/pcm;rate=16000"}
            with httpx.Client(base_url=url, timeout=120) as client:
                id = client.post("/audio/sessions", json={"language": "en"}).json()["id"]
                path = f"/audio/sessions/{id}"
                content = clip.astype("<f4").tobytes()
                client.post(f"{path}/audio", content=content, headers=headers).raise_for_status()
                client.post(f"{path}/finish").raise_for_status()

        with Chat(url) as chat:
            for name, work in (
                ("alone", lambda: time.sleep(_ALONE_S)),
                ("beside a take that loads the weights", transcribe),
                ("beside the next take", transcribe),
            ):
                began = time.perf_counter()
                gaps = sorted(chat.gaps_during(work))
                took = time.perf_counter() - began
                median = statistics.median(gaps)
                rows.append(
                    [name, f"{took:.1f}", str(len(gaps)), f"{1000 * median:.0f}", f"{1000 * gaps[-1]:.0f}"]
                )
    print(table(["the chat", "seconds", "tokens", "median gap, ms", "longest gap, ms"], rows))
    times = encoder_times(folder, arguments.threads, clip[: 30 * RATE])
    print(f"one window's encoder: {1000 * statistics.median(times):.0f} ms, at most {1000 * max(times):.0f}")


if __name__ == "__main__":
    main()
