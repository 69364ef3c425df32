"""Sentences per second of all-MiniLM-L6-v2, beside sentence-transformers and onnxruntime where installed.

    python benchmarks/embeddings.py FOLDER [--onnx FILE] [--peers NAME ...] [--sentences 2000] [--rounds 3]

All run in this process, in alternated rounds, on the same sentences of mixed length, from text to vectors.
Nothing is kept between rounds: stoker's cache of vectors is not asked here.
onnxruntime runs the graph that onnx_graph.py makes, as fastembed does it (batches of 256 in the order given,
padded to their longest), and once more with the texts sorted by length and batches of 32, which is the best
that can be done for it.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Encode = Callable[[list[str]], np.ndarray[Any, Any]]
WORDS = (
    "the", "of", "and", "to", "in", "model", "weather", "river", "music", "history", "engine", "water",
    "light", "small", "bright", "quickly", "never", "because", "although", "Berlin",
    "quantum", "biology", "football",
)  # fmt: skip
ORT_BATCH = 256
ORT_SORTED_BATCH = 32


def make_sentences(count: int) -> list[str]:
    """Lengths as in a collection of passages: many short, a long tail up to the model's limit."""
    source = random.Random(0)
    lengths = [min(200, max(3, int(source.lognormvariate(3.0, 0.8)))) for _ in range(count)]
    return [" ".join(source.choices(WORDS, k=length)) for length in lengths]


def stoker_encoder(folder: Path, threads: int) -> Encode:
    from stoker.app_embed import encoder_numerics
    from stoker.config import resolve
    from stoker.embed.model import load_embedding_model
    from stoker.embed.service import EmbedService, Part
    from stoker.kernels import native

    native.set_num_threads(threads)
    numerics = encoder_numerics(resolve({}), "cpu")
    service = EmbedService(
        lambda: Part("model", lambda: load_embedding_model("model", folder, numerics=numerics)),
        num_threads=threads,
    )
    loaded = service.embedding()
    assert loaded is not None

    def encode(texts: list[str]) -> np.ndarray[Any, Any]:
        items = [loaded.model.truncate(item) for item in loaded.model.tokenize(texts)]
        job = loaded.start(loaded.model.passes(items), len(items), loaded.model.dimension)
        return job.future.result()

    return encode


def sentence_transformers_encoder(folder: Path, threads: int) -> Encode:
    import sentence_transformers
    import torch

    model = sentence_transformers.SentenceTransformer(str(folder), device="cpu")

    def encode(texts: list[str]) -> np.ndarray[Any, Any]:
        torch.set_num_threads(threads)
        return np.asarray(model.encode(texts, show_progress_bar=False))

    return encode


def onnxruntime_encoder(folder: Path, graph: Path, threads: int, *, sort: bool) -> Encode:
    import onnxruntime
    from tokenizers import Tokenizer

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(graph), options)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(256)
    tokenizer.enable_padding()
    names = {given.name for given in session.get_inputs()}

    batch = ORT_SORTED_BATCH if sort else ORT_BATCH

    def encode(texts: list[str]) -> np.ndarray[Any, Any]:
        order = sorted(range(len(texts)), key=lambda index: len(texts[index])) if sort else range(len(texts))
        parts = []
        for first in range(0, len(texts), batch):
            encodings = tokenizer.encode_batch([texts[index] for index in order[first : first + batch]])
            mask = np.array([encoding.attention_mask for encoding in encodings], np.int64)
            inputs = {
                "input_ids": np.array([encoding.ids for encoding in encodings], np.int64),
                "attention_mask": mask,
                "token_type_ids": np.zeros_like(mask),
            }
            states = session.run(None, {name: inputs[name] for name in names})[0]
            mean = (states * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
            parts.append(mean / np.linalg.norm(mean, axis=1, keepdims=True))
        return np.concatenate(parts)[np.argsort(order)]

    return encode


PEERS = ("sentence-transformers", "onnxruntime", "onnxruntime-sorted")


def available(folder: Path, graph: Path, threads: int, peers: list[str]) -> dict[str, Encode]:
    encoders = {"stoker": stoker_encoder(folder, threads)}
    if importlib.util.find_spec("sentence_transformers") and "sentence-transformers" in peers:
        encoders["sentence-transformers"] = sentence_transformers_encoder(folder, threads)
    if importlib.util.find_spec("onnxruntime") and graph.exists():
        for name in PEERS[1:]:
            if name in peers:
                sort = name.endswith("sorted")
                encoders[name] = onnxruntime_encoder(folder, graph, threads, sort=sort)
    return encoders


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--onnx", type=Path, help="default: FOLDER/onnx/model.onnx")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS)
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()

    sentences = make_sentences(given.sentences)
    graph = given.onnx or given.folder / "onnx" / "model.onnx"
    encoders = available(given.folder, graph, given.threads, given.peers)
    seconds: dict[str, list[float]] = {name: [] for name in encoders}
    vectors = {name: encode(sentences[:64]) for name, encode in encoders.items()}  # warm, and compared below
    for _ in range(given.rounds):
        for name, encode in encoders.items():
            started = time.perf_counter()
            encode(sentences)
            seconds[name].append(time.perf_counter() - started)

    report = {}
    for name, times in seconds.items():
        rate = len(sentences) / statistics.median(times)
        cosine = float((vectors[name] * vectors["stoker"]).sum(1).min())
        report[name] = {"sentences_per_second": rate, "seconds": times, "least_cosine_to_stoker": cosine}
        ratio = statistics.median(a / b for a, b in zip(times, seconds["stoker"], strict=True))
        print(f"{name:<24} {rate:8.0f} sentences/s   stoker {ratio:.2f}x   least cosine to it {cosine:.6f}")
    if given.json:
        given.json.write_text(json.dumps({"sentences": given.sentences, "results": report}, indent=2) + "\n")


if __name__ == "__main__":
    main()
