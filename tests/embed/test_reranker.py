"""Cross-encoders against transformers, pair by pair, and Qwen3-Reranker's yes or no."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.embed.tiny import CLS, SEP, make_cross_encoder, run_passes, word_tokenizer, write

from stoker.embed.reranker import QwenPairs, Reranker, load_reranker
from stoker.errors import InvalidRequest, UnsupportedModel

DOCUMENTS = ["w9", "w10 w11 w12", "w2 w3", "w30 w31 w32 w33 w34 w35"]


def scores(model: Reranker, query: str, documents: list[str]) -> list[float]:
    items = model.tokenize(query, documents)
    return [row[0] for row in run_passes(model.passes(items), len(items))]


@pytest.mark.parametrize("kind", ["bert", "xlm-roberta", "modernbert"])
def test_scores_are_those_of_transformers(kind: str, tmp_path: Path) -> None:
    hf = make_cross_encoder(tmp_path, kind)
    model = load_reranker("tiny", tmp_path)
    for document, score in zip(DOCUMENTS, scores(model, "w1 w2", DOCUMENTS), strict=True):
        ids = [6 + int(word[1:]) for word in document.split()]
        pair = torch.tensor([[CLS, 7, 8, SEP, *ids, SEP]])
        types = {"token_type_ids": torch.tensor([[0] * 4 + [1] * (len(ids) + 1)])} if kind == "bert" else {}
        with torch.inference_mode():
            logit = hf(input_ids=pair, **types).logits[0, 0]
        assert score == pytest.approx(torch.sigmoid(logit).item(), abs=1e-4)


def test_a_long_document_is_cut_at_its_end_or_refused(tmp_path: Path) -> None:
    make_cross_encoder(tmp_path)
    model = load_reranker("tiny", tmp_path)
    long = " ".join(["w5"] * 100)
    (tokens,) = model.tokenize("w1", [long])
    assert tokens.ids == (CLS, 7, SEP, *[11] * 60, SEP)
    assert len(tokens.ids) == model.max_tokens == 64
    assert tokens.num_first == 3
    with pytest.raises(InvalidRequest, match=r"documents\[1\] is too long: it has 100 tokens.*leaves 60"):
        model.tokenize("w1", ["w5", long], truncate=False)
    with pytest.raises(InvalidRequest, match="query is too long"):
        model.tokenize(long, ["w5"])
    with pytest.raises(InvalidRequest, match="instruction"):
        model.tokenize("w1", ["w5"], "w7")


def test_a_classifier_of_several_labels_is_no_reranker(tmp_path: Path) -> None:
    import json

    make_cross_encoder(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    write(tmp_path / "config.json", config | {"id2label": {"0": "a", "1": "b"}})
    with pytest.raises(UnsupportedModel, match="2 labels"):
        load_reranker("tiny", tmp_path)


def test_a_language_model_is_asked_for_yes_or_no(tmp_path: Path) -> None:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=120,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=256,
        initializer_range=0.3,
    )
    hf = Qwen3ForCausalLM(config).eval()
    hf.save_pretrained(tmp_path)
    word_tokenizer(tmp_path)
    model = load_reranker("tiny", tmp_path)
    assert isinstance(model.format, QwenPairs)
    yes, no = 4, 5
    items = model.tokenize("w1 w2", DOCUMENTS)
    for tokens, row in zip(items, run_passes(model.passes(items), len(items)), strict=True):
        with torch.inference_mode():
            logits = hf(input_ids=torch.tensor([tokens.ids])).logits[0, -1]
        expected = torch.softmax(logits[[no, yes]], 0)[1].item()  # as its authors compute it
        assert row[0] == pytest.approx(expected, abs=1e-4)
    cut = model.tokenize("w1", [" ".join(["w5"] * 400)])[0]
    assert len(cut.ids) == 256
    after = model.format.after
    assert cut.ids[-len(after) :] == after  # the question is still asked
