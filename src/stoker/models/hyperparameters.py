"""The numbers every family has, read from config.json in its older and newer spellings.

What only one family has (multipliers, soft caps, windows) is read in that family's file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stoker.errors import CorruptModel


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    norm_eps: float
    activation: str  # Hugging Face's name of the MLP's activation
    ties_embeddings: bool | None  # None: the config does not say
    max_context: int  # positions that will be served

    @classmethod
    def of(cls, config: Mapping[str, Any], max_context: int | None = None) -> Hyperparameters:
        """`max_context` lowers the limit the config states. Raises CorruptModel for a missing key."""
        hidden_size = required_int(config, "hidden_size")
        num_heads = required_int(config, "num_attention_heads")
        limit = context_limit(config)
        return cls(
            hidden_size=hidden_size,
            intermediate_size=required_int(config, "intermediate_size"),
            num_layers=required_int(config, "num_hidden_layers"),
            num_heads=num_heads,
            num_kv_heads=int(config.get("num_key_value_heads") or num_heads),
            head_dim=int(config.get("head_dim") or hidden_size // num_heads),
            vocab_size=required_int(config, "vocab_size"),
            norm_eps=float(config.get("rms_norm_eps", 1e-6)),
            activation=str(config.get("hidden_activation") or config.get("hidden_act") or "silu"),
            ties_embeddings=config.get("tie_word_embeddings"),
            max_context=limit if max_context is None else min(max_context, limit),
        )


def required_int(config: Mapping[str, Any], key: str) -> int:
    value = config.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise CorruptModel(f"The model's configuration needs a positive whole number {key}, not {value!r}.")
    return value


def rope_parameters(config: Mapping[str, Any], default_theta: float = 10_000.0) -> dict[str, Any]:
    """One flat dict of rope settings: `rope_parameters` of newer configs, or `rope_scaling` and
    the `rope_theta` beside it of older ones. What stands beside it fills the gaps."""
    parameters = dict(config.get("rope_parameters") or config.get("rope_scaling") or {})
    parameters.setdefault("rope_type", parameters.get("type") or "default")
    # An explicit null means the same as an absent key.
    theta = parameters.get("rope_theta") or config.get("rope_theta") or default_theta
    rotated = parameters.get("partial_rotary_factor") or config.get("partial_rotary_factor") or 1.0
    # Phi-3 keeps the length of pre-training beside the dict, and there it takes precedence.
    original = config.get("original_max_position_embeddings") or parameters.get(
        "original_max_position_embeddings"
    )
    return parameters | {
        "rope_theta": theta,
        "partial_rotary_factor": rotated,
        "original_max_position_embeddings": original or required_int(config, "max_position_embeddings"),
        "max_position_embeddings": required_int(config, "max_position_embeddings"),
    }


def context_limit(config: Mapping[str, Any]) -> int:
    """Positions the model can serve. Qwen's YaRN configs leave `max_position_embeddings` at the
    length before stretching, so the stretched length counts when it is larger."""
    limit = required_int(config, "max_position_embeddings")
    parameters = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if parameters.get("rope_type", parameters.get("type")) != "yarn":
        return limit
    original = parameters.get("original_max_position_embeddings") or 0
    return max(limit, int(original * (parameters.get("factor") or 1)))


def windows_by_type(layer_types: Sequence[str], window: int | None) -> tuple[int | None, ...]:
    """The window of each layer, from `layer_types` ("sliding_attention" or "full_attention")."""
    return tuple(window if kind == "sliding_attention" else None for kind in layer_types)
