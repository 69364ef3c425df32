"""Three programs that transcribe, each in a process of its own that answers one JSON task per line: this one,
faster-whisper, and openai-whisper's own code. All read the same weights.

A task: {"samples": file of float32, "language", "beam", "words", "temperatures"}; an answer: {"text",
"words": [[text, start, end]], "windows": [[first frame, [token ids]]]}.
"""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
FASTER = REPOSITORY / ".peers" / "faster-whisper"
OPENAI = REPOSITORY / ".peers" / "openai-whisper"
FASTER_PACKAGE = "faster-whisper==1.2.1"
OPENAI_PACKAGES = ("openai-whisper==20250625", "tiktoken", "more-itertools", "numba", "llvmlite")

_FASTER = """
import json, sys
import numpy as np
from faster_whisper import WhisperModel
model = WhisperModel(sys.argv[1], device="cpu", cpu_threads=int(sys.argv[2]))
for line in sys.stdin:
    task = json.loads(line)
    segments, _ = model.transcribe(np.fromfile(task["samples"], np.float32), language=task["language"],
                                   beam_size=task["beam"], word_timestamps=task["words"],
                                   temperature=task["temperatures"])
    segments = list(segments)
    print(json.dumps({
        "text": "".join(s.text for s in segments).strip(),
        "words": [[w.word, w.start, w.end] for s in segments for w in s.words or ()],
        "windows": [[s.seek, list(s.tokens)] for s in segments],
    }), flush=True)
"""


class Worker:
    """A context manager; `ask` blocks."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY
        )

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def ask(self, **task: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("a worker ended; what it said is above")
        answer: dict[str, Any] = json.loads(line)
        return answer


def own(model: str, threads: int, *, faithful: bool = False) -> Worker:
    return Worker([*_this("reference" if faithful else "fast"), model, str(threads)])


def faster_whisper(model: str, threads: int, environment: Path = FASTER) -> Worker:
    python = environment / "bin" / "python"
    if not python.exists():
        venv.create(environment, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", FASTER_PACKAGE], check=True)
    return Worker([str(python), "-c", _FASTER, model, str(threads)])


def openai_whisper(model: str, threads: int, folder: Path = OPENAI) -> Worker:
    """Its packages in a folder beside this environment's, whose torch it uses."""
    if not (folder / "whisper").exists():
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder)]
        subprocess.run([*pip, *OPENAI_PACKAGES], check=True)
    return Worker([*_this("openai"), model, str(threads), str(folder)])


def _this(kind: str) -> list[str]:
    return [sys.executable, "-m", "benchmarks.speech_workers", kind]


def _serve_own(model: str, threads: int, *, faithful: bool) -> None:
    import numpy as np
    import torch

    from stoker.kernels import native
    from stoker.speech.types import TranscribeOptions
    from stoker.speech.whisper import load_whisper

    if native.library() is not None:
        native.set_num_threads(threads)
        torch.set_num_threads(1)
    whisper = load_whisper(model, num_threads=threads, faithful=faithful)
    for task in map(json.loads, sys.stdin):
        options = TranscribeOptions(
            language=task["language"],
            beam_size=task["beam"],
            word_timestamps=task["words"],
            temperatures=tuple(task["temperatures"]),
            faithful=faithful,
        )
        result = whisper.transcribe(np.fromfile(task["samples"], np.float32), options)
        words = [[word.text, word.start_s, word.end_s] for word in result.words]
        _answer(result.text, words, [(s.seek, s.tokens) for s in result.segments])


def _serve_openai(model: str, threads: int, folder: str) -> None:
    import warnings

    import numpy as np
    import torch

    sys.path.append(folder)
    warnings.simplefilter("ignore")
    torch.set_num_threads(threads)
    whisper = _openai_model(model)
    for task in map(json.loads, sys.stdin):
        result = whisper.transcribe(
            np.fromfile(task["samples"], np.float32),
            language=task["language"],
            beam_size=task["beam"] if task["beam"] > 1 else None,
            word_timestamps=task["words"],
            temperature=tuple(task["temperatures"]),
            fp16=False,
        )
        # The last pass over the words empties segments it finds too short; ours drops those.
        segments = [s for s in result["segments"] if s["tokens"]]
        words = [
            [w["word"], float(w["start"]), float(w["end"])] for s in segments for w in s.get("words", ())
        ]
        _answer(result["text"], words, [(s["seek"], s["tokens"]) for s in segments])


def _openai_model(path: str) -> Any:
    """Its model with our reader's weights: names of Hugging Face become its own."""
    import torch
    import whisper  # type: ignore[import-not-found, unused-ignore]

    from stoker.speech.whisper.checkpoint import open_whisper

    checkpoint = open_whisper(Path(path))
    d = checkpoint.dims
    model = whisper.model.Whisper(
        whisper.model.ModelDimensions(
            d.num_mels,
            d.audio_ctx,
            d.width,
            d.audio_heads,
            d.audio_layers,
            d.vocab_size,
            d.text_ctx,
            d.width,
            d.text_heads,
            d.text_layers,
        )
    )
    renamed = (
        (".blocks.", ".layers."),
        (".cross_attn_ln.", ".encoder_attn_layer_norm."),
        (".attn_ln.", ".self_attn_layer_norm."),
        (".mlp_ln.", ".final_layer_norm."),
        (".mlp.0.", ".fc1."),
        (".mlp.2.", ".fc2."),
        (".ln_post.", ".layer_norm."),
        ("decoder.ln.", "decoder.layer_norm."),
        (".token_embedding.", ".embed_tokens."),
        (".cross_attn.", ".encoder_attn."),
        (".attn.", ".self_attn."),
        (".query.", ".q_proj."),
        (".key.", ".k_proj."),
        (".value.", ".v_proj."),
        (".out.", ".out_proj."),
    )
    weights = {}
    for name in model.state_dict():
        theirs = name.replace("positional_embedding", "embed_positions.weight")
        for old, new in renamed:
            theirs = theirs.replace(old, new)
        weights[name] = checkpoint.dense(f"model.{theirs}")
    model.load_state_dict(weights)
    heads = torch.zeros(d.text_layers, d.text_heads, dtype=torch.bool)
    for layer, head in checkpoint.alignment_heads:
        heads[layer, head] = True
    model.register_buffer("alignment_heads", heads.to_sparse(), persistent=False)
    return model.eval()


def _answer(text: str, words: list[Any], windows: list[Any]) -> None:
    answer = {"text": text.strip(), "words": words, "windows": [[at, list(tokens)] for at, tokens in windows]}
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    kind, *arguments = sys.argv[1:]
    if kind == "openai":
        _serve_openai(arguments[0], int(arguments[1]), arguments[2])
    else:
        _serve_own(arguments[0], int(arguments[1]), faithful=kind == "reference")
