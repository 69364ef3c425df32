"""GGUF tensor names and the Hugging Face names they stand for, per architecture.

A `Source` says which GGUF tensor a Hugging Face weight comes from and what must be undone on
the way: llama.cpp's converter reorders Q and K rows for its rope, adds 1 to Gemma's norm
weights, and stacks the experts of a layer into one tensor.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_TOP = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
_ATTENTION = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_qkv": "self_attn.qkv_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
}
_MLP = {
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
# Norm before attention, norm before the MLP.
_PRE_NORMS = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}
# Gemma 2 and 3 norm on both sides of attention and of the MLP.
_SANDWICH_NORMS = {
    "attn_norm": "input_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
# OLMo 2 norms only what attention and the MLP return.
_POST_NORMS = {
    "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_EXPERTS = {
    "ffn_gate_exps": "gate_proj",
    "ffn_up_exps": "up_proj",
    "ffn_down_exps": "down_proj",
}
_STANDARD = _ATTENTION | _MLP | _PRE_NORMS

_LAYER_NAMES: Mapping[str, Mapping[str, str]] = {
    "llama": _STANDARD,
    "mistral": _STANDARD,
    "smollm3": _STANDARD,
    "granite": _STANDARD,
    "qwen2": _STANDARD,
    "qwen3": _STANDARD,
    "qwen3moe": _STANDARD | {"ffn_gate_inp": "mlp.gate"},
    # Phi-3 keeps gate and up in one matrix, in both formats.
    "phi3": _STANDARD | {"ffn_up": "mlp.gate_up_proj"},
    "gemma2": _ATTENTION | _MLP | _SANDWICH_NORMS,
    "gemma3": _ATTENTION | _MLP | _SANDWICH_NORMS,
    "olmo2": _ATTENTION | _MLP | _POST_NORMS,
}
ARCHITECTURES = tuple(_LAYER_NAMES)

_ROPE_PERMUTED = frozenset({"llama", "mistral", "smollm3", "granite"})
_NORMS_PLUS_ONE = frozenset({"gemma2", "gemma3"})
# Not weights: they become part of the configuration (gguf_rope.py).
_ROPE_TENSORS = frozenset({"rope_freqs", "rope_factors_long", "rope_factors_short"})

_LAYER = re.compile(r"blk\.(\d+)\.(\w+)\.(weight|bias)")


@dataclass(frozen=True, slots=True)
class Source:
    """Where a Hugging Face weight comes from."""

    tensor: str  # name in the GGUF file
    rope_heads: int | None = None  # undo the rope row order of this many heads
    minus_one: bool = False
    expert: int | None = None  # slice of the outermost dimension


def weight_sources(
    architecture: str, tensors: Iterable[tuple[str, tuple[int, ...]]], config: Mapping[str, Any]
) -> dict[str, Source]:
    """Hugging Face name -> source, for every tensor (name, shape) this architecture knows.
    Unknown tensors are left out: newer converters add helpers that a family does not need."""
    layer_names = _LAYER_NAMES[architecture]
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    sources: dict[str, Source] = {}
    for name, shape in tensors:
        module, _, suffix = name.rpartition(".")
        minus_one = architecture in _NORMS_PLUS_ONE and module.endswith("norm")
        if module in _TOP:
            sources[f"{_TOP[module]}.{suffix}"] = Source(name, minus_one=minus_one)
            continue
        match = _LAYER.fullmatch(name)
        if match is None:
            continue
        layer, leaf, suffix = match.groups()
        prefix = f"model.layers.{layer}"
        if leaf in _EXPERTS and len(shape) == 3:
            for expert in range(shape[0]):
                target = f"{prefix}.mlp.experts.{expert}.{_EXPERTS[leaf]}.{suffix}"
                sources[target] = Source(name, expert=expert)
        elif leaf in layer_names:
            rope_heads = heads.get(leaf) if architecture in _ROPE_PERMUTED else None
            sources[f"{prefix}.{layer_names[leaf]}.{suffix}"] = Source(name, rope_heads, minus_one)
    return sources


def is_rope_tensor(name: str) -> bool:
    """Whether a tensor holds rope factors (`rope_freqs.weight`, `blk.0.rope_factors_long.weight`)."""
    return any(part in _ROPE_TENSORS for part in name.split("."))
