"""Reading weights into layers: fusing, quantizing, sharing, and refusing what does not fit."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
import torch

from stoker.errors import CorruptModel, UnsupportedModel
from stoker.models import load_model
from stoker.models.layers.linear import Linear, SideBySide
from stoker.models.layers.mlp import GatedMLP
from stoker.models.quantize import quantize
from stoker.models.weights import QuantizedTensor

from .checkpoints import MemoryCheckpoint
from .dense_kv import DenseKV
from .stepping import ragged, run_schedule
from .tiny_models import Reference

References = Callable[[str], Reference]
LAYER = "model.layers.1"


@pytest.fixture
def llama(reference: References) -> MemoryCheckpoint:
    """Biases on q, k, v and o; tied embeddings."""
    return MemoryCheckpoint.open(reference("llama-multi-query-tied-bias").folder)


def logits_of(checkpoint: MemoryCheckpoint, sequence: list[int], **options: object) -> torch.Tensor:
    model = load_model(checkpoint, **options)  # type: ignore[arg-type]
    return run_schedule(model, DenseKV(model.facts.layers), [sequence], ragged([len(sequence)]))[0]


def with_dense(checkpoint: MemoryCheckpoint) -> MemoryCheckpoint:
    """The same weights without quantization."""
    weights = {
        name: weight.dequantize() if isinstance(weight, QuantizedTensor) else weight
        for name, weight in checkpoint.weights.items()
    }
    return MemoryCheckpoint(checkpoint.config, weights)


@pytest.mark.parametrize(
    "name",
    [
        "model.embed_tokens.weight",
        f"{LAYER}.self_attn.k_proj.weight",
        f"{LAYER}.self_attn.o_proj.bias",
        f"{LAYER}.mlp.up_proj.weight",
        f"{LAYER}.input_layernorm.weight",
        "model.norm.weight",
    ],
)
def test_a_missing_weight_is_named(llama: MemoryCheckpoint, name: str) -> None:
    del llama.weights[name]
    with pytest.raises(CorruptModel, match=name):
        load_model(llama)


def test_an_untied_model_needs_its_head(reference: References) -> None:
    checkpoint = MemoryCheckpoint.open(reference("llama-plain").folder)
    del checkpoint.weights["lm_head.weight"]
    with pytest.raises(CorruptModel, match=r"lm_head\.weight"):
        load_model(checkpoint)
    del checkpoint.config["tie_word_embeddings"]  # nothing said and no head: tied
    model = load_model(checkpoint)
    assert model.head is model.embedding


@pytest.mark.parametrize(
    "name",
    [f"{LAYER}.mlp.down_proj.weight", f"{LAYER}.self_attn.q_proj.bias", f"{LAYER}.input_layernorm.weight"],
)
def test_a_misshapen_weight_is_named_with_both_shapes(llama: MemoryCheckpoint, name: str) -> None:
    expected = list(llama.weights[name].shape)
    weight = llama.weights[name]
    assert isinstance(weight, torch.Tensor)
    llama.weights[name] = weight[..., :-1]
    with pytest.raises(CorruptModel) as caught:
        load_model(llama)
    assert name in caught.value.message
    assert str(expected) in caught.value.message
    assert str([*expected[:-1], expected[-1] - 1]) in caught.value.message


def test_an_unknown_activation_or_rope_is_refused(llama: MemoryCheckpoint) -> None:
    with pytest.raises(UnsupportedModel, match="snake"):
        load_model(MemoryCheckpoint(llama.config | {"hidden_act": "snake"}, llama.weights))
    with pytest.raises(UnsupportedModel, match="spiral"):
        load_model(
            MemoryCheckpoint(llama.config | {"rope_parameters": {"rope_type": "spiral"}}, llama.weights)
        )


def test_incomplete_rope_settings_are_named(llama: MemoryCheckpoint) -> None:
    rope = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0}
    with pytest.raises(CorruptModel, match="high_freq_factor"):
        load_model(MemoryCheckpoint(llama.config | {"rope_parameters": rope}, llama.weights))


def test_longrope_factors_must_fit_the_head(reference: References) -> None:
    checkpoint = MemoryCheckpoint.open(reference("phi3-longrope-long").folder)
    rope = checkpoint.config["rope_parameters"] | {"long_factor": [1.0] * 5}
    with pytest.raises(CorruptModel, match="long_factor has 5 entries"):
        load_model(MemoryCheckpoint(checkpoint.config | {"rope_parameters": rope}, checkpoint.weights))


def test_leftovers_of_the_decoder_are_logged(
    llama: MemoryCheckpoint, caplog: pytest.LogCaptureFixture
) -> None:
    llama.weights["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(6)
    llama.weights["vision_tower.weight"] = torch.ones(6)
    with caplog.at_level(logging.DEBUG, "stoker.models"):
        load_model(llama)
        assert caplog.records == []
        llama.weights["model.layers.0.self_attn.extra.weight"] = torch.ones(6)
        load_model(llama)
    assert "model.layers.0.self_attn.extra.weight" in caplog.text
    assert "vision_tower" not in caplog.text


def test_tied_weights_are_held_once(llama: MemoryCheckpoint) -> None:
    tied = load_model(llama)
    assert tied.head is tied.embedding
    config = llama.config | {"tie_word_embeddings": False}
    weights = llama.weights | {"lm_head.weight": llama.weights["model.embed_tokens.weight"]}
    untied = load_model(MemoryCheckpoint(config, weights))
    assert untied.head is not untied.embedding
    assert untied.nbytes == tied.nbytes + tied.embedding.nbytes


def test_alike_projections_become_one_product(llama: MemoryCheckpoint) -> None:
    layer = load_model(llama).layers[0]
    assert isinstance(layer.attention.qkv, Linear)
    assert layer.attention.qkv.matrix.out_features == 6 * 16  # 4 query heads, a key and a value head
    assert isinstance(layer.mlp, GatedMLP)
    assert isinstance(layer.mlp.gate_up, Linear)


@pytest.mark.parametrize("mixed", ["q_proj", "k_proj", "v_proj"])
def test_unlike_projections_still_give_the_same_logits(llama: MemoryCheckpoint, mixed: str) -> None:
    """One of q, k, v in another kind than the rest, as in GGUF files that mix widths."""
    name = f"{LAYER}.self_attn.{mixed}.weight"
    weight = llama.weights[name]
    assert isinstance(weight, torch.Tensor)
    llama.weights[name] = quantize(weight, 8, 16)
    assert isinstance(load_model(llama).layers[1].attention.qkv, SideBySide)
    sequence = [5, 9, 2, 60, 33]
    torch.testing.assert_close(
        logits_of(llama, sequence), logits_of(with_dense(llama), sequence), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize(("bits", "correlation"), [(4, 0.7), (8, 0.999)])
def test_quantizing_on_load(reference: References, bits: int, correlation: float) -> None:
    # phi4-mini here has hidden size 64, one group. Random weights suffer most from 4 bits; a mistake
    # in nibble order or signs leaves no correlation at all.
    expected = reference("phi4-mini-long")
    checkpoint = MemoryCheckpoint.open(expected.folder)
    dense, packed = load_model(checkpoint), load_model(checkpoint, quantize=bits)  # type: ignore[arg-type]
    assert packed.nbytes < dense.nbytes * (bits + 8) / 32
    logits = run_schedule(packed, DenseKV(packed.facts.layers), expected.sequences, ragged([30, 17, 21]))
    pair = torch.stack((torch.cat(logits).flatten(), torch.cat(expected.logits).flatten()))
    assert torch.corrcoef(pair)[0, 1] > correlation


def test_quantized_on_load_equals_quantized_beforehand(reference: References) -> None:
    checkpoint = MemoryCheckpoint.open(reference("phi4-mini-long").folder)
    beforehand = {
        name: quantize(weight, 4, 64)
        if isinstance(weight, torch.Tensor) and weight.dim() == 2 and weight.shape[1] == 64
        else weight
        for name, weight in checkpoint.weights.items()
    }
    # intermediate_size is 80: no group size divides it, down_proj stays dense
    assert not isinstance(beforehand["model.layers.0.mlp.down_proj.weight"], QuantizedTensor)
    sequence = [5, 9, 2, 60, 33]
    torch.testing.assert_close(
        logits_of(checkpoint, sequence, quantize=4),
        logits_of(MemoryCheckpoint(checkpoint.config, beforehand), sequence),
    )
