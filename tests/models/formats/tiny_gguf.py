"""Tiny random models made by transformers, and what llama.cpp's converter makes of them.

The conversion here is written from the converter's conventions, not from our reader: names
come from the gguf package, Q and K rows are interleaved, Gemma's norms are stored plus one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Kind
from safetensors.torch import load_file

VOCABULARY = 64
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
PERMUTED = ("llama", "smollm3", "granite")
PLUS_ONE = ("gemma2", "gemma3")


@dataclass(frozen=True)
class Case:
    id: str
    architecture: str  # GGUF's name
    model_class: str  # of transformers
    config: dict[str, Any] = field(default_factory=dict)
    # Metadata beyond what `_common_metadata` writes: key below the architecture -> value.
    metadata: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, list[float]] = field(default_factory=dict)  # extra ones


def long_factors(pairs: int) -> tuple[list[float], list[float]]:
    return [1.0 + 0.125 * i for i in range(pairs)], [1.5 + 0.75 * i for i in range(pairs)]


_GRANITE = {
    "embedding_multiplier": 3.0,
    "attention_multiplier": 0.5,
    "residual_multiplier": 0.25,
    "logits_scaling": 2.5,
}
_GRANITE_METADATA = {
    "embedding_scale": 3.0,
    "attention.scale": 0.5,
    "residual_scale": 0.25,
    "logit_scale": 2.5,
}
_GEMMA = {"head_dim": 32, "query_pre_attn_scalar": 32, "sliding_window": 16}
_SHORT, _LONG = long_factors(8)

CASES = (
    Case("llama", "llama", "LlamaForCausalLM", {"rope_theta": 5000.0}),
    Case(
        "llama-tied-bias",
        "llama",
        "LlamaForCausalLM",
        {"tie_word_embeddings": True, "attention_bias": True},
    ),
    Case("llama-head-dim", "llama", "LlamaForCausalLM", {"head_dim": 32, "num_key_value_heads": 4}),
    Case(
        "mistral",
        "llama",
        "MistralForCausalLM",
        {"sliding_window": 16},
        {"attention.sliding_window": 16},
    ),
    Case("smollm3", "smollm3", "SmolLM3ForCausalLM", {"num_hidden_layers": 5}),
    Case("qwen2", "qwen2", "Qwen2ForCausalLM"),
    Case("qwen2-yarn", "qwen2", "Qwen2ForCausalLM",
        {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}},
        {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 64},
    ),
    Case("qwen3", "qwen3", "Qwen3ForCausalLM", {"head_dim": 32, "tie_word_embeddings": True}),
    Case(
        "qwen3moe",
        "qwen3moe",
        "Qwen3MoeForCausalLM",
        {"head_dim": 32, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
         "norm_topk_prob": True},
        {"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 32},
    ),
    Case(
        "gemma2",
        "gemma2",
        "Gemma2ForCausalLM",
        _GEMMA,
        {"attention.sliding_window": 16, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0},
    ),
    Case(
        "gemma3",
        "gemma3",
        "Gemma3ForCausalLM",
        _GEMMA | {"num_hidden_layers": 7},
        {"attention.sliding_window": 16},
    ),
    Case(
        "gemma3-linear",
        "gemma3",
        "Gemma3ForCausalLM",
        _GEMMA | {"rope_scaling": {"rope_type": "linear", "factor": 8.0}},
        {"attention.sliding_window": 16, "rope.scaling.type": "linear", "rope.scaling.factor": 8.0},
    ),
    Case(
        "phi3",
        "phi3",
        "Phi3ForCausalLM",
        {"sliding_window": 32, "original_max_position_embeddings": 128},
        {"attention.sliding_window": 32, "rope.scaling.original_context_length": 128},
    ),
    Case(
        "phi3-longrope",
        "phi3",
        "Phi3ForCausalLM",
        {
            "original_max_position_embeddings": 32,
            "rope_scaling": {"rope_type": "longrope", "short_factor": _SHORT, "long_factor": _LONG,
                             "original_max_position_embeddings": 32},
        },
        {"attention.sliding_window": 0, "rope.scaling.original_context_length": 32},
        {"rope_factors_short.weight": _SHORT, "rope_factors_long.weight": _LONG},
    ),
    Case("olmo2", "olmo2", "Olmo2ForCausalLM"),
    Case("granite", "granite", "GraniteForCausalLM", _GRANITE, _GRANITE_METADATA),
)  # fmt: skip


@dataclass
class Tiny:
    """A saved model: its configuration object and its weights under Hugging Face names."""

    case: Case
    config: Any
    weights: dict[str, torch.Tensor]
    folder: Path


def make_tiny(case: Case, folder: Path) -> Tiny:
    import transformers

    torch.manual_seed(sum(map(ord, case.id)))
    model_class = getattr(transformers, case.model_class)
    model = model_class(model_class.config_class(**(SIZES | case.config)))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.5)
    model.save_pretrained(folder)
    return Tiny(case, model.config, load_file(folder / "model.safetensors"), folder)


def write_gguf(tiny: Tiny, path: Path, kind_of: Callable[[str], Kind] | None = None) -> None:
    """Convert as llama.cpp does. `kind_of` gives the type of a matrix by its Hugging Face name;
    F32 without it. Vectors are always F32, as the converter keeps them."""
    case = tiny.case
    writer = gguf.GGUFWriter(path, case.architecture)
    for key, value in (_common_metadata(tiny) | case.metadata).items():
        _add(writer, f"{case.architecture}.{key}", value)
    for name, values in case.tensors.items():
        writer.add_tensor(name, np.array(values, np.float32))
    for name, tensor in sorted(stack_experts(tiny.weights).items()):
        kind = kind_of(name) if kind_of and tensor.ndim > 1 else Kind.F32
        data = gguf.quants.quantize(_as_stored(case.architecture, name, tensor, tiny.config), kind)
        writer.add_tensor(gguf_name(case.architecture, name), data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def stack_experts(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    stacked: dict[str, list[torch.Tensor]] = {}
    for name, tensor in sorted(weights.items()):
        head, found, tail = name.partition(".experts.")
        key = f"{head}.experts.{tail.partition('.')[2]}" if found else name
        stacked.setdefault(key, []).append(tensor)
    return {name: torch.stack(parts) if ".experts." in name else parts[0] for name, parts in stacked.items()}


def gguf_name(architecture: str, name: str) -> str:
    number = next(key for key, value in gguf.MODEL_ARCH_NAMES.items() if value == architecture)
    found = gguf.get_tensor_name_map(number, 16).get_name(name, try_suffixes=(".weight", ".bias"))
    assert found is not None, name
    return found


def interleave(tensor: torch.Tensor, heads: int) -> torch.Tensor:
    """Row i and row i + d/2 of every head become neighbours."""
    size = tensor.shape[0] // heads
    order = [
        head * size + half * size // 2 + i
        for head in range(heads)
        for i in range(size // 2)
        for half in (0, 1)
    ]
    return tensor[order]


def _as_stored(architecture: str, name: str, tensor: torch.Tensor, config: Any) -> np.ndarray[Any, Any]:
    tensor = tensor.float()
    if architecture in PERMUTED and "q_proj" in name:
        tensor = interleave(tensor, config.num_attention_heads)
    if architecture in PERMUTED and "k_proj" in name:
        tensor = interleave(tensor, config.num_key_value_heads)
    if architecture in PLUS_ONE and name.endswith("norm.weight"):
        tensor = tensor + 1
    return tensor.numpy()


def _common_metadata(tiny: Tiny) -> dict[str, Any]:
    config = tiny.config
    rope = config.rope_parameters
    metadata = {
        "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size,
        "block_count": config.num_hidden_layers,
        "feed_forward_length": config.intermediate_size,
        "attention.head_count": config.num_attention_heads,
        "attention.head_count_kv": config.num_key_value_heads,
        "attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        "rope.freq_base": rope.get("full_attention", rope)["rope_theta"],
        "vocab_size": config.vocab_size,
    }
    if head_dim := getattr(config, "head_dim", None):
        metadata |= {"attention.key_length": head_dim, "attention.value_length": head_dim}
    return metadata


def _add(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    if isinstance(value, str):
        writer.add_string(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    else:
        writer.add_uint32(key, value)
