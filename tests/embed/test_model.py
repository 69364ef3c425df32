"""From texts to vectors: frames, limits, pooling, normalization, prompts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tests.embed.tiny import (
    CASES,
    CLS,
    SEP,
    make_embedding_model,
    reference_states,
    run_passes,
    save_reference,
    word_tokenizer,
    write,
)

from stoker.embed.model import EmbeddingModel, load_embedding_model, shorten
from stoker.embed.packing import Tokens
from stoker.errors import CorruptModel, UnsupportedModel


def embed(model: EmbeddingModel, items: list[Tokens]) -> np.ndarray[Any, Any]:
    return np.array(run_passes(model.passes(items), len(items)), np.float32)


def reference(folder: Path) -> torch.nn.Module:
    from transformers import AutoModel

    model: torch.nn.Module = AutoModel.from_pretrained(folder).eval()
    return model


def test_vectors_are_the_normalized_means(tmp_path: Path) -> None:
    model = load_embedding_model("tiny", make_embedding_model(tmp_path))
    texts = ["w1 w2 w3", "w9", "", "w4 w5 w6", "nothing known"]
    vectors = embed(model, model.tokenize(texts))
    hf = reference(tmp_path)
    for text, vector in zip(texts, vectors, strict=True):
        ids = [CLS, *(6 + int(word[1:]) if word[1:].isdigit() else 1 for word in text.split()), SEP]
        mean = reference_states(hf, ids).mean(0)
        np.testing.assert_allclose(vector, (mean / mean.norm()).numpy(), atol=1e-5)


def test_the_limit_is_the_files_and_truncation_keeps_the_frame(tmp_path: Path) -> None:
    model = load_embedding_model("tiny", make_embedding_model(tmp_path))
    assert model.max_tokens == 40
    (tokens,) = model.tokenize([" ".join(["w1"] * 100)])
    assert len(tokens.ids) == 102
    assert model.truncate(tokens).ids == (CLS, *[7] * 38, SEP)
    (fits,) = model.tokenize([" ".join(["w1"] * 38)])
    assert model.truncate(fits) is fits


def test_without_a_stated_limit_it_is_the_tokenizers_then_the_models(tmp_path: Path) -> None:
    make_embedding_model(tmp_path, sentence_bert_config={})
    assert load_embedding_model("tiny", tmp_path).max_tokens == 64
    word_tokenizer(tmp_path, max_length=30)
    assert load_embedding_model("tiny", tmp_path).max_tokens == 30
    word_tokenizer(tmp_path, max_length=10**30)
    assert load_embedding_model("tiny", tmp_path).max_tokens == 64


def test_framed_ids_are_taken_as_they_are(tmp_path: Path) -> None:
    tokenizer = load_embedding_model("tiny", make_embedding_model(tmp_path)).tokenizer
    assert tokenizer.frame([7, 8]).ids == (CLS, 7, 8, SEP)
    assert tokenizer.frame([CLS, 7, 8, SEP]).ids == (CLS, 7, 8, SEP)
    assert tokenizer.frame([CLS]).ids == (CLS, CLS, SEP)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"pooling_mode_cls_token": True}, lambda x: x[0]),
        ({"pooling_mode_lasttoken": True}, lambda x: x[-1]),
        ({"pooling_mode_max_tokens": True}, lambda x: x.max(0).values),
        ({"pooling_mode_mean_sqrt_len_tokens": True}, lambda x: x.sum(0) / len(x) ** 0.5),
        (
            {"pooling_mode_weightedmean_tokens": True},
            lambda x: sum((n + 1) * row for n, row in enumerate(x)) / sum(range(len(x) + 1)),
        ),
        (
            {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True},
            lambda x: torch.cat([x[0], x.mean(0)]),
        ),
        ({"pooling_mode": "cls"}, lambda x: x[0]),
    ],
)
def test_poolings(tmp_path: Path, config: dict[str, Any], expected: Any) -> None:
    make_embedding_model(tmp_path)
    write(tmp_path / "1_Pooling/config.json", config)
    model = load_embedding_model("tiny", tmp_path)
    vector = embed(model, model.tokenize(["w1 w2 w3"]))[0]
    wanted = expected(reference_states(reference(tmp_path), [CLS, 7, 8, 9, SEP]))
    np.testing.assert_allclose(vector, (wanted / wanted.norm()).numpy(), atol=1e-5)
    assert model.dimension == len(wanted)


def test_dense_stages_and_no_normalization(tmp_path: Path) -> None:
    make_embedding_model(tmp_path)
    modules = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Dense", "Dense")]
    write(tmp_path / "modules.json", [{"path": path, "type": f"x.y.{kind}"} for path, kind in modules])
    facts = {"in_features": 32, "out_features": 5, "activation_function": "torch.nn.modules.activation.Tanh"}
    write(tmp_path / "2_Dense/config.json", facts)
    weight, bias = torch.randn(5, 32), torch.randn(5)
    save_file({"linear.weight": weight, "linear.bias": bias}, tmp_path / "2_Dense/model.safetensors")
    model = load_embedding_model("tiny", tmp_path)
    vector = embed(model, model.tokenize(["w1"]))[0]
    mean = reference_states(reference(tmp_path), [CLS, 7, SEP]).mean(0)
    np.testing.assert_allclose(vector, torch.tanh(weight @ mean + bias).numpy(), atol=1e-5)
    assert model.dimension == 5


def test_prompts_go_before_the_text(tmp_path: Path) -> None:
    prompts = {"prompts": {"query": "w7 ", "document": ""}, "default_prompt_name": "query"}
    make_embedding_model(tmp_path, config_sentence_transformers=prompts)
    pipeline = load_embedding_model("tiny", tmp_path).pipeline
    assert pipeline.prompts == {"query": "w7 ", "document": ""}
    assert pipeline.default_prompt == "w7 "


def test_without_stages_a_decoder_gives_its_last_state(tmp_path: Path) -> None:
    save_reference(next(case for case in CASES if case.id == "qwen3"), tmp_path)
    model = load_embedding_model("tiny", tmp_path)
    vector = embed(model, [Tokens((7, 8, 9))])[0]
    last = reference_states(reference(tmp_path), [7, 8, 9])[-1]
    np.testing.assert_allclose(vector, (last / last.norm()).numpy(), atol=1e-4)


def test_unknown_stages_are_refused(tmp_path: Path) -> None:
    make_embedding_model(tmp_path)
    write(tmp_path / "modules.json", [{"path": "", "type": "x.Transformer"}, {"path": "1", "type": "x.LSTM"}])
    with pytest.raises(UnsupportedModel, match="LSTM"):
        load_embedding_model("tiny", tmp_path)
    write(tmp_path / "modules.json", [{"path": "../elsewhere", "type": "x.Transformer"}])
    with pytest.raises(CorruptModel, match="elsewhere"):
        load_embedding_model("tiny", tmp_path)
    write(tmp_path / "modules.json", {"not": "a list"})
    with pytest.raises(CorruptModel, match=r"modules\.json"):
        load_embedding_model("tiny", tmp_path)


def test_shortened_vectors_are_of_length_one() -> None:
    vectors = np.array([[3, 4, 12], [0, 0, 1]], np.float32)
    np.testing.assert_allclose(shorten(vectors, 2), [[0.6, 0.8], [0, 0]], atol=1e-6)
    assert shorten(vectors, 3) is vectors
    assert shorten(vectors, None) is vectors
