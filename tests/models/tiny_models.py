"""Tiny random models made by transformers, one case per family and per variant worth a test."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch

VOCABULARY = 96


@dataclass(frozen=True)
class Case:
    """`config` goes to the configuration class of the transformers model named `architecture`."""

    id: str
    architecture: str
    config: dict[str, Any]
    lengths: tuple[int, ...] = (21, 9, 14)  # of the token sequences to compare
    max_context: int | None = None  # given to load_model


_SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
_LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
# For the 6 dimension pairs of a head, the ramp runs from pair 1.38 to 4.82 (to whole pairs: 1 to 5).
_YARN = {
    "rope_type": "yarn",
    "rope_theta": 10.0,
    "factor": 4.0,
    "beta_fast": 1.5,
    "beta_slow": 0.4,
    "original_max_position_embeddings": 16,
}


def _long_rope(pairs: int) -> dict[str, Any]:
    return {
        "rope_type": "longrope",
        "rope_theta": 10000.0,
        "short_factor": [1.0 + 0.1 * i for i in range(pairs)],
        "long_factor": [1.5 + 0.8 * i for i in range(pairs)],
    }


def _llama(id: str, **config: Any) -> Case:
    return Case(f"llama-{id}", "LlamaForCausalLM", _SIZES | config)


def _case(id: str, architecture: str, **config: Any) -> Case:
    return Case(id, architecture, _SIZES | config)


_PHI_LONG = _SIZES | {"rope_parameters": _long_rope(8), "original_max_position_embeddings": 16}
_PHI4_MINI = _PHI_LONG | {
    "rope_parameters": _long_rope(6) | {"partial_rotary_factor": 0.75},
    "tie_word_embeddings": True,
}
_GEMMA = {"head_dim": 16, "query_pre_attn_scalar": 20, "sliding_window": 6}
_GEMMA3 = _SIZES | _GEMMA | {"hidden_size": 48, "num_hidden_layers": 7, "num_attention_heads": 3}
_GEMMA3 |= {"num_key_value_heads": 1}
_GRANITE = {
    "embedding_multiplier": 3.0,
    "attention_multiplier": 0.4,
    "residual_multiplier": 0.22,
    "logits_scaling": 2.5,
}

CASES = (
    _llama("plain"),
    _llama("multi-query-tied-bias", num_key_value_heads=1, tie_word_embeddings=True, attention_bias=True),
    _llama("mlp-bias", mlp_bias=True, num_key_value_heads=4, hidden_act="gelu"),
    _llama("head-dim", head_dim=20),
    _llama("rope-linear", rope_parameters={"rope_type": "linear", "rope_theta": 100.0, "factor": 3.0}),
    _llama("rope-dynamic", rope_parameters={"rope_type": "dynamic", "rope_theta": 100.0, "factor": 3.0}),
    _llama("rope-llama3", rope_parameters=_LLAMA3),
    _llama("rope-yarn", rope_parameters=_YARN),
    _llama(
        "rope-yarn-mscale", rope_parameters=_YARN | {"truncate": False, "mscale": 0.7, "mscale_all_dim": 1.3}
    ),
    _llama("rope-yarn-attention-factor", rope_parameters=_YARN | {"attention_factor": 1.21}),
    _case("mistral-window", "MistralForCausalLM", sliding_window=6, head_dim=16),
    _case("mistral-full", "MistralForCausalLM", sliding_window=None),
    _case("smollm3", "SmolLM3ForCausalLM", num_hidden_layers=5),
    _case(
        "smollm3-window",
        "SmolLM3ForCausalLM",
        num_hidden_layers=4,
        no_rope_layer_interval=2,
        use_sliding_window=True,
        sliding_window=5,
        attention_bias=True,
        mlp_bias=True,
    ),
    _case("qwen2", "Qwen2ForCausalLM"),
    _case(
        "qwen2-window",
        "Qwen2ForCausalLM",
        use_sliding_window=True,
        sliding_window=6,
        max_window_layers=1,
        rope_parameters=_YARN,
    ),
    _case("qwen3", "Qwen3ForCausalLM", head_dim=16, tie_word_embeddings=True),
    _case("qwen3-bias", "Qwen3ForCausalLM", head_dim=16, attention_bias=True),
    _case(
        "qwen3-moe",
        "Qwen3MoeForCausalLM",
        head_dim=16,
        num_experts=6,
        num_experts_per_tok=2,
        moe_intermediate_size=24,
        norm_topk_prob=True,
        mlp_only_layers=[1],
    ),
    _case(
        "qwen3-moe-sparse-step",
        "Qwen3MoeForCausalLM",
        head_dim=16,
        num_experts=5,
        num_experts_per_tok=3,
        moe_intermediate_size=24,
        decoder_sparse_step=2,
        use_sliding_window=True,
        sliding_window=6,
    ),
    _case("gemma2", "Gemma2ForCausalLM", **_GEMMA, attn_logit_softcapping=2.0, final_logit_softcapping=3.0),
    Case("gemma3", "Gemma3ForCausalLM", _GEMMA3),
    Case(
        "gemma3-rope-linear",
        "Gemma3ForCausalLM",
        _GEMMA3
        | {
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "rope_theta": 1000.0, "factor": 8.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
            }
        },
    ),
    Case(
        "gemma3-with-vision",
        "Gemma3ForConditionalGeneration",
        {
            "text_config": _GEMMA3,
            "vision_config": {
                "hidden_size": 16,
                "intermediate_size": 16,
                "num_hidden_layers": 1,
                "num_attention_heads": 1,
                "image_size": 28,
                "patch_size": 14,
            },
            "mm_tokens_per_image": 4,
            "image_token_index": VOCABULARY - 1,
        },
    ),
    _case("phi3-window", "Phi3ForCausalLM", sliding_window=7),
    Case("phi3-longrope-short", "Phi3ForCausalLM", _PHI_LONG, lengths=(16, 3, 11), max_context=16),
    Case("phi3-longrope-long", "Phi3ForCausalLM", _PHI_LONG, lengths=(30, 17, 21)),
    Case("phi4-mini-short", "Phi3ForCausalLM", _PHI4_MINI, lengths=(16, 3, 11), max_context=16),
    Case("phi4-mini-long", "Phi3ForCausalLM", _PHI4_MINI, lengths=(30, 17, 21)),
    _case("olmo2", "Olmo2ForCausalLM"),
    _case("olmo2-bias", "Olmo2ForCausalLM", attention_bias=True, num_key_value_heads=4),
    _case("granite", "GraniteForCausalLM", **_GRANITE),
    _case("granite-bias", "GraniteForCausalLM", **_GRANITE, attention_bias=True, mlp_bias=True),
)


@dataclass(frozen=True)
class Reference:
    """A saved model, token sequences, and what transformers says about them in float32."""

    folder: Path
    sequences: list[list[int]]
    logits: list[torch.Tensor] = field(repr=False)  # [length, VOCABULARY] each
    model: Any = field(repr=False)


def make_reference(case: Case, folder: Path) -> Reference:
    import transformers

    torch.manual_seed(sum(map(ord, case.id)))
    model_class = getattr(transformers, case.architecture)
    # The configuration classes write into the dicts they are given.
    config = model_class.config_class(**_deep_copy(case.config))
    model = model_class._from_config(config, attn_implementation="eager").eval()
    randomize(model)
    model.save_pretrained(folder)
    generator = torch.Generator().manual_seed(1)
    sequences = [torch.randint(1, VOCABULARY - 1, (n,), generator=generator).tolist() for n in case.lengths]
    return Reference(folder, sequences, [expected_logits(model, s) for s in sequences], model)


def expected_logits(model: Any, sequence: list[int]) -> torch.Tensor:
    with torch.inference_mode():
        return model(torch.tensor([sequence])).logits[0].float()


def randomize(model: torch.nn.Module) -> None:
    """Weights large enough that attention is far from uniform, norms and biases that matter."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 1.3 / parameter.shape[-1] ** 0.5)
            elif "norm" in name:
                parameter.add_(torch.randn_like(parameter) * 0.3)
            else:
                parameter.normal_(0, 0.3)


def _deep_copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _deep_copy(item) for key, item in value.items()}
    return list(value) if isinstance(value, list) else value


@cache
def by_id() -> dict[str, Case]:
    return {case.id: case for case in CASES}
