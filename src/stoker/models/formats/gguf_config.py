"""GGUF metadata turned into the config.json that the Hugging Face checkpoint would have.

Only what the file says, plus what its architecture fixes (layer patterns, activation); weights
and tokenizer are not touched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from stoker.errors import CorruptModel, UnsupportedModel
from stoker.models.formats.gguf_file import TensorInfo
from stoker.models.formats.gguf_metadata import Metadata
from stoker.models.formats.gguf_names import ARCHITECTURES
from stoker.models.formats.gguf_rope import ReadFactors, rope_scaling

# GGUF architecture: class name and model_type of the Hugging Face configuration.
_CLASSES = {
    "llama": ("LlamaForCausalLM", "llama"),
    "mistral": ("MistralForCausalLM", "mistral"),
    "smollm3": ("SmolLM3ForCausalLM", "smollm3"),
    "qwen2": ("Qwen2ForCausalLM", "qwen2"),
    "qwen3": ("Qwen3ForCausalLM", "qwen3"),
    "qwen3moe": ("Qwen3MoeForCausalLM", "qwen3_moe"),
    "gemma2": ("Gemma2ForCausalLM", "gemma2"),
    "gemma3": ("Gemma3ForCausalLM", "gemma3_text"),
    "phi3": ("Phi3ForCausalLM", "phi3"),
    "olmo2": ("Olmo2ForCausalLM", "olmo2"),
    "granite": ("GraniteForCausalLM", "granite"),
}

# llama.cpp's own tests for the sizes whose attention scale is not 1/sqrt(head_dim): the
# metadata has no key for it. (Gemma 2 27B, Gemma 3 27B.)
_SCALED_BY_WIDTH = {("gemma2", 46), ("gemma3", 62)}
_GEMMA_LOCAL_ROPE_THETA = 10000.0
_DEFAULT_ROPE_THETA = 10000.0
_SMOLLM3_NO_ROPE_INTERVAL = 4


def hf_config(meta: Metadata, tensors: Mapping[str, TensorInfo], read_factors: ReadFactors) -> dict[str, Any]:
    """Raises UnsupportedModel for an architecture without a name map, CorruptModel for
    metadata that is missing or of the wrong type."""
    architecture = meta.architecture
    if architecture not in ARCHITECTURES:
        raise UnsupportedModel(
            f"{meta.path}: GGUF architecture {architecture!r} is not supported; "
            f"supported: {', '.join(ARCHITECTURES)}"
        )
    if "token_embd.weight" not in tensors:
        raise CorruptModel(f"{meta.path} has no tensor token_embd.weight")
    config = _common(meta, tensors, read_factors)
    if extra := _EXTRA.get(architecture):
        config |= extra(meta, config, tensors)
    return config


def _common(meta: Metadata, tensors: Mapping[str, TensorInfo], read_factors: ReadFactors) -> dict[str, Any]:
    class_name, model_type = _CLASSES[meta.architecture]
    heads = meta.count("attention.head_count")
    hidden_size = meta.count("embedding_length")
    theta = meta.number("rope.freq_base", _DEFAULT_ROPE_THETA)
    context = meta.count("context_length")
    return {
        "architectures": [class_name],
        "model_type": model_type,
        "hidden_size": hidden_size,
        "num_hidden_layers": meta.count("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": meta.count("attention.head_count_kv", heads),
        "head_dim": meta.count("attention.key_length", hidden_size // heads),
        "intermediate_size": meta.count(
            "feed_forward_length", meta.count_or_none("expert_feed_forward_length")
        ),
        "hidden_act": "silu",
        "rms_norm_eps": meta.number("attention.layer_norm_rms_epsilon"),
        "rope_theta": theta,
        "rope_scaling": rope_scaling(meta, read_factors, theta=theta, max_position_embeddings=context),
        "max_position_embeddings": context,
        "vocab_size": tensors["token_embd.weight"].shape[0],
        "tie_word_embeddings": "output.weight" not in tensors,
        "attention_bias": "blk.0.attn_q.bias" in tensors,
        "mlp_bias": "blk.0.ffn_up.bias" in tensors,
        "bos_token_id": meta.token_id("bos"),
        "eos_token_id": meta.token_id("eos"),
        "pad_token_id": meta.token_id("padding"),
    }


Config = dict[str, Any]
Tensors = Mapping[str, TensorInfo]


def _llama(meta: Metadata, config: Config, tensors: Tensors) -> Config:
    if meta.count_or_none("expert_count"):
        raise UnsupportedModel(
            f"{meta.path} is a mixture of experts of the Mixtral kind, which is not supported"
        )
    if window := meta.count_or_none("attention.sliding_window"):
        # Mistral is converted as "llama"; only the window tells them apart, and matters.
        return {"architectures": ["MistralForCausalLM"], "model_type": "mistral", "sliding_window": window}
    return {}


def _mistral(meta: Metadata, config: Config, tensors: Tensors) -> Config:
    return {"sliding_window": meta.count_or_none("attention.sliding_window")}


def _smollm3(meta: Metadata, config: Config, tensors: Tensors) -> Config:
    layers = config["num_hidden_layers"]
    return {
        "no_rope_layer_interval": _SMOLLM3_NO_ROPE_INTERVAL,
        # 1 where rope is applied: all but every fourth layer.
        "no_rope_layers": [int((layer + 1) % _SMOLLM3_NO_ROPE_INTERVAL != 0) for layer in range(layers)],
        "use_sliding_window": False,
        "sliding_window": None,
    }


def _qwen(meta: Metadata, config: Config, tensors: Tensors) -> Config:
    return {"use_sliding_window": False, "sliding_window": None}


def _qwen3moe(meta: Metadata, config: Config, tensors: Tensors) -> Config:
    return _qwen(meta, config, tensors) | {
        "num_experts": meta.count("expert_count"),
        "num_experts_per_tok": meta.count("expert_used_count"),
        "moe_intermediate_size": meta.count("expert_feed_forward_length"),
        "norm_topk_prob": True,  # what llama.cpp computes; the file has no key for it
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
    }


def _gemma2(meta: Metadata, config: Config, tensors: Tensors) -> Config:
    return _gemma(meta, config, every=2) | {
        "attn_logit_softcapping": meta.number("attn_logit_softcapping", 50.0),
        "final_logit_softcapping": meta.number("final_logit_softcapping", 30.0),
    }


def _gemma3(meta: Metadata, config: Config, tensors: Tensors) -> Config:
    return _gemma(meta, config, every=6) | {
        "attn_logit_softcapping": None,
        "final_logit_softcapping": meta.number_or_none("final_logit_softcapping"),
        "rope_local_base_freq": meta.number("rope.freq_base_swa", _GEMMA_LOCAL_ROPE_THETA),
        "use_bidirectional_attention": False,
    }


def _gemma(meta: Metadata, config: Config, *, every: int) -> Config:
    """Every `every`-th layer attends to everything, the others to a window."""
    layers = config["num_hidden_layers"]
    window = meta.count_or_none("attention.sliding_window")
    full = [window is None or (layer + 1) % every == 0 for layer in range(layers)]
    pattern = meta.get("attention.sliding_window_pattern")
    if isinstance(pattern, np.ndarray) and pattern.size == layers:
        full = [not sliding for sliding in pattern.tolist()]
    by_width = (meta.architecture, layers) in _SCALED_BY_WIDTH
    return {
        "hidden_activation": "gelu_pytorch_tanh",
        "hidden_act": "gelu_pytorch_tanh",
        "sliding_window": window,
        "layer_types": ["full_attention" if each else "sliding_attention" for each in full],
        "query_pre_attn_scalar": (
            config["hidden_size"] // config["num_attention_heads"] if by_width else config["head_dim"]
        ),
    }


def _phi3(meta: Metadata, config: Config, tensors: Tensors) -> Config:
    rotary = meta.count("rope.dimension_count", config["head_dim"])
    return {
        "partial_rotary_factor": rotary / config["head_dim"],
        "original_max_position_embeddings": meta.count(
            "rope.scaling.original_context_length", config["max_position_embeddings"]
        ),
        "sliding_window": meta.count_or_none("attention.sliding_window"),
    }


def _olmo2(meta: Metadata, config: Config, tensors: Tensors) -> Config:
    if meta.count_or_none("attention.sliding_window"):
        # OLMo 3 is converted as "olmo2"; only the window tells them apart.
        return {"architectures": ["Olmo3ForCausalLM"], "model_type": "olmo3"}
    return {}


def _granite(meta: Metadata, config: Config, tensors: Tensors) -> Config:
    return {
        "attention_multiplier": meta.number("attention.scale", 1.0),
        "embedding_multiplier": meta.number("embedding_scale", 1.0),
        "residual_multiplier": meta.number("residual_scale", 1.0),
        "logits_scaling": meta.number("logit_scale", 1.0),
    }


_EXTRA: Mapping[str, Callable[[Metadata, Config, Tensors], Config]] = {
    "llama": _llama,
    "mistral": _mistral,
    "smollm3": _smollm3,
    "qwen2": _qwen,
    "qwen3": _qwen,
    "qwen3moe": _qwen3moe,
    "gemma2": _gemma2,
    "gemma3": _gemma3,
    "phi3": _phi3,
    "olmo2": _olmo2,
    "granite": _granite,
}
