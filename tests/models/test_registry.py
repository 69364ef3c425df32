"""Finding a family by configuration, and saying so clearly when there is none."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.errors import CorruptModel, UnsupportedModel
from stoker.models import load_model, supported_architectures
from stoker.models.registry import all_families, find_family

from .checkpoints import MemoryCheckpoint


def refusal(config: dict[str, Any]) -> str:
    with pytest.raises(UnsupportedModel) as caught:
        load_model(MemoryCheckpoint(config, {}))
    return caught.value.message


def test_the_promised_architectures_are_supported() -> None:
    assert set(supported_architectures()) >= {
        "LlamaForCausalLM",
        "MistralForCausalLM",
        "SmolLM3ForCausalLM",
        "Qwen2ForCausalLM",
        "Qwen3ForCausalLM",
        "Qwen3MoeForCausalLM",
        "Gemma2ForCausalLM",
        "Gemma3ForCausalLM",
        "Gemma3ForConditionalGeneration",
        "Phi3ForCausalLM",
        "Olmo2ForCausalLM",
        "GraniteForCausalLM",
    }


def test_no_name_belongs_to_two_families() -> None:
    architectures = [name for family in all_families() for name in family.ARCHITECTURES]
    model_types = [name for family in all_families() for name in family.MODEL_TYPES]
    assert len(set(architectures)) == len(architectures)
    assert len(set(model_types)) == len(model_types)


def test_an_unknown_architecture_is_named_with_the_supported_ones() -> None:
    message = refusal({"architectures": ["MambaForCausalLM"], "model_type": "llama"})
    assert "MambaForCausalLM" in message
    assert all(name in message for name in supported_architectures())


@pytest.mark.parametrize("config", [{"model_type": "mamba"}, {"architectures": [], "model_type": "mamba"}])
def test_without_an_architecture_the_model_type_is_named(config: dict[str, Any]) -> None:
    assert "mamba" in refusal(config)


def test_an_empty_configuration_is_refused() -> None:
    assert "not supported" in refusal({})


def test_the_model_type_decides_when_no_architecture_is_named() -> None:
    assert "LlamaForCausalLM" in find_family({"model_type": "llama"}).ARCHITECTURES


def test_an_encoder_under_a_language_model_s_name_is_refused() -> None:
    config = {"architectures": ["Gemma3ForCausalLM"], "use_bidirectional_attention": True}
    assert "encoder" in refusal(config)


@pytest.mark.parametrize("value", [None, "96", 0, True, 2.5])
def test_a_missing_size_is_named(value: object) -> None:
    with pytest.raises(CorruptModel, match="hidden_size"):
        load_model(MemoryCheckpoint({"architectures": ["LlamaForCausalLM"], "hidden_size": value}, {}))
