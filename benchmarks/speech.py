"""Speed of transcription beside faster-whisper: the same weights, two processes, one alternated run.

    python -m benchmarks.speech whisper-base tests/speech/jfk.flac [--runs 7]

faster-whisper is installed into a virtual environment of its own the first time. Each task alternates between
the two programs, so that whatever else the machine does hits both.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import Any

PEER = "faster-whisper==1.2.1"
TASKS: dict[str, dict[str, Any]] = {
    "clip, beam 1": {"beam": 1, "repeat": 1},
    "clip, beam 5": {"beam": 5, "repeat": 1},
    "10 minutes, beam 1": {"beam": 1, "repeat": 0},  # 0: the clip again and again until ten minutes
}
_LONG_S = 600
_SILENCE_S = 1.5

# Both workers read one JSON task per line and answer with one: seconds and text.
_PEER_WORKER = """
import json, sys, time
import numpy as np
started = time.perf_counter()
from faster_whisper import WhisperModel
began = time.perf_counter()
model = WhisperModel(sys.argv[1], device="cpu", cpu_threads=int(sys.argv[2]), compute_type=sys.argv[3])
print(json.dumps({"load_s": time.perf_counter() - began}), flush=True)
for line in sys.stdin:
    task = json.loads(line)
    samples = np.fromfile(task["samples"], np.float32)
    began = time.perf_counter()
    segments, _ = model.transcribe(samples, language="en", beam_size=task["beam"])
    text = "".join(segment.text for segment in segments)
    print(json.dumps({"s": time.perf_counter() - began, "text": text.strip()}), flush=True)
"""


def _own_worker(model: str, threads: int) -> None:
    from stoker.preload import preload_torch

    preload_torch()  # as the program does

    import numpy as np
    import torch

    from stoker.kernels import native
    from stoker.speech.types import TranscribeOptions
    from stoker.speech.whisper import load_whisper

    native.set_num_threads(threads)
    torch.set_num_threads(1)
    began = time.perf_counter()
    whisper = load_whisper(model, num_threads=threads)
    print(json.dumps({"load_s": time.perf_counter() - began}), flush=True)
    for line in sys.stdin:
        task = json.loads(line)
        samples = np.fromfile(task["samples"], np.float32)
        began = time.perf_counter()
        result = whisper.transcribe(samples, TranscribeOptions(language="en", beam_size=task["beam"]))
        print(json.dumps({"s": time.perf_counter() - began, "text": result.text}), flush=True)


def _peer_python(folder: Path) -> str:
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", PEER], check=True)
    return str(python)


def _decode(path: Path) -> Any:
    import av
    import numpy as np

    with av.open(str(path)) as container:
        resampler = av.AudioResampler(format="flt", layout="mono", rate=16_000)
        frames = [r for f in container.decode(audio=0) for r in resampler.resample(f)]
        frames += resampler.resample(None)
    return np.concatenate([frame.to_ndarray()[0] for frame in frames]).astype(np.float32)


def _samples(clip: Any, repeat: int) -> Any:
    import numpy as np

    spaced = np.concatenate([clip, np.zeros(int(_SILENCE_S * 16_000), np.float32)])
    return clip if repeat else np.tile(spaced, -(-_LONG_S * 16_000 // len(spaced)))[: _LONG_S * 16_000]


def _start(command: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _answer(worker: subprocess.Popen[str]) -> dict[str, Any]:
    assert worker.stdout is not None
    answer: dict[str, Any] = json.loads(worker.stdout.readline())
    return answer


def _ask(worker: subprocess.Popen[str], task: dict[str, Any]) -> dict[str, Any]:
    assert worker.stdin is not None
    worker.stdin.write(json.dumps(task) + "\n")
    worker.stdin.flush()
    return _answer(worker)


def _compare_loads(commands: dict[str, list[str]], runs: int) -> None:
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(runs):
        for name, command in commands.items():
            worker = _start(command)
            times[name].append(_answer(worker)["load_s"])
            worker.kill()
            worker.communicate()
    _print_ratio("load", times)


def _print_ratio(title: str, times: dict[str, list[float]]) -> None:
    medians = {name: statistics.median(values) for name, values in times.items()}
    ratio = medians["stoker"] / medians["faster-whisper"]
    shown = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in medians.items())
    print(f"{title}: {shown}; ratio {ratio:.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("clip", type=Path)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--compute-type", default="default", help="faster-whisper's own setting")
    parser.add_argument("--environment", type=Path, default=Path(".peers/faster-whisper"))
    parser.add_argument("--only", nargs="+", choices=TASKS, default=list(TASKS), help="of the tasks")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return _own_worker(arguments.model, arguments.threads)

    from stoker.library.registry import find_model

    folder = str(find_model(arguments.model, kinds=("speech",)).path)
    threads = str(arguments.threads)
    commands = {
        "stoker": [sys.executable, __file__, folder, str(arguments.clip), "--worker", "--threads", threads],
        "faster-whisper": [
            _peer_python(arguments.environment),
            "-c",
            _PEER_WORKER,
            folder,
            threads,
            arguments.compute_type,
        ],
    }
    _compare_loads(commands, arguments.runs)
    workers = {name: _start(command) for name, command in commands.items()}
    try:
        for worker in workers.values():
            _answer(worker)  # loaded
        clip = _decode(arguments.clip)
        with tempfile.TemporaryDirectory() as scratch:
            for title in arguments.only:
                task = TASKS[title]
                path = Path(scratch) / "samples"
                _samples(clip, task["repeat"]).tofile(path)
                runs = arguments.runs if task["repeat"] else max(1, arguments.runs // 3)
                times: dict[str, list[float]] = {name: [] for name in workers}
                for turn in range(runs + 1):
                    for name, worker in workers.items():
                        answer = _ask(worker, {"samples": str(path), "beam": task["beam"]})
                        if turn:  # the first warms up
                            times[name].append(answer["s"])
                _print_ratio(title, times)
    finally:
        for worker in workers.values():
            worker.kill()
            worker.wait()


if __name__ == "__main__":
    main()
