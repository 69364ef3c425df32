"""all-MiniLM-L6-v2 itself: 200 texts of every kind, against sentence-transformers where it is
installed, else against transformers with the pooling written out here.
"""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.embed.tiny import run_passes

from stoker.embed.loading import EncoderNumerics
from stoker.embed.model import EmbeddingModel, load_embedding_model
from stoker.embed.passes import Vectors
from stoker.embed.service import EmbedService, Part

pytestmark = pytest.mark.real_weights

ODD = (
    " ", "\n\t", ".", "?!", "a", "I", "0", "\u200b", "\ufeff", "\u00a0", "日本語のテキスト", "你好，世界",
    "Привет, мир", "مرحبا بالعالم", "שלום עולם", "नमस्ते दुनिया", "안녕하세요", "ไทย", "Ünïcödé çà et là",
    "e\u0301 é", "🎉", "👩‍👩‍👧‍👦 a family", "🇫🇷🇯🇵", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢", "ﬁ ligature", "İstanbul ı", "straße STRASSE",
    "\u0000", "[CLS]", "[SEP] [MASK]", "##ing", "http://example.com/a?b=c&d=%20", "def f(x): return x**2",
    "x" * 500, "ab" * 300, "a b " * 400, "word " * 300, "line one\nline two\r\nline three",
    "tabs\tand  spaces", "\"quoted\" 'single' `tick`",
)  # fmt: skip
WORDS = (
    "the", "of", "and", "to", "in", "model", "weather", "river", "music", "history", "engine", "water",
    "light", "winter", "paper", "small", "bright", "quickly", "never", "because", "although", "Berlin",
    "Tokyo", "quantum", "biology", "lawyer", "invoice", "football", "recipe", "déjà", "naïve", "co-operate",
    "3.14", "2026", "$5.00", "e-mail", "it's", "don't",
)  # fmt: skip


def texts() -> list[str]:
    source = random.Random(6)
    lengths = [*[1, 2, 3, 8, 15, 30] * 26, 100, 190, 250, 400]  # words; the last two are over-long
    return [*ODD, *(" ".join(source.choices(WORDS, k=length)) for length in lengths)]


@pytest.fixture(scope="module")
def model(minilm_path: Path) -> EmbeddingModel:
    return load_embedding_model("minilm", minilm_path)


def own_vectors(model: EmbeddingModel, some: list[str]) -> Vectors:
    items = [model.truncate(item) for item in model.tokenize(some)]
    return np.array(run_passes(model.passes(items), len(items)), np.float32)


@pytest.fixture(scope="module")
def reference(minilm_path: Path) -> Vectors:
    if importlib.util.find_spec("sentence_transformers") is not None:
        import sentence_transformers

        found: Vectors = sentence_transformers.SentenceTransformer(str(minilm_path), device="cpu").encode(
            texts()
        )
        return found
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(minilm_path)
    bert = AutoModel.from_pretrained(minilm_path).eval()
    rows = []
    with torch.inference_mode():
        for text in texts():
            encoded = tokenizer(text, truncation=True, max_length=256, return_tensors="pt")
            mean = bert(**encoded).last_hidden_state[0].mean(0)
            rows.append((mean / mean.norm()).numpy())
    return np.stack(rows)


def test_two_hundred_texts(model: EmbeddingModel, reference: Vectors) -> None:
    assert len(texts()) == 200
    cosines = (own_vectors(model, texts()) * reference).sum(1)
    assert cosines.min() > 0.9999


def test_bfloat16_products_are_exact_enough(minilm_path: Path, reference: Vectors) -> None:
    rounded = load_embedding_model("minilm", minilm_path, numerics=EncoderNumerics(torch.bfloat16))
    some = slice(None, None, 8)  # slow where the hardware does not multiply bfloat16
    cosines = (own_vectors(rounded, texts()[some]) * reference[some]).sum(1)
    assert cosines.min() > 0.999


def test_meaning(minilm_path: Path) -> None:
    """The whole way, lane included."""
    service = EmbedService(lambda: Part("m", lambda: load_embedding_model("m", minilm_path)), num_threads=2)
    loaded = service.embedding()
    assert loaded is not None
    items = loaded.model.tokenize(
        ["How do I bake bread?", "A recipe for a loaf", "The engine will not start"]
    )
    bread, loaf, engine = loaded.start(loaded.model.passes(items), 3, 384).future.result(60)
    assert bread @ loaf > bread @ engine + 0.2
    service.close()
