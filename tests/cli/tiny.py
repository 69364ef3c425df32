"""A random Llama of a few thousand weights with a character tokenizer and a chat template.

It never emits its end token when sampled greedily, so that replies are as long as the test wants.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ("<|im_start|>", "<|im_end|>")
HIDDEN, HEADS, INTERMEDIATE, LAYERS = 32, 2, 48, 2
CONTEXT = 100_000


def make_tiny_model(folder: Path, *, chat: bool = True) -> Path:
    """Writes the model into `folder` and returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    characters = [chr(code) for code in range(0x21, 0x7F)] + [
        "Ġ",
        "Ċ",
    ]  # byte-level names of space and newline
    tokenizer = Tokenizer(models.BPE({c: i for i, c in enumerate(characters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    tokenizer.save(str(folder / "tokenizer.json"))
    vocabulary = tokenizer.get_vocab_size()
    end = tokenizer.token_to_id("<|im_end|>")
    _write(
        folder / "tokenizer_config.json",
        {"eos_token": "<|im_end|>"} | ({"chat_template": TEMPLATE} if chat else {}),
    )
    _write(folder / "generation_config.json", {"eos_token_id": end})
    _write(
        folder / "config.json",
        {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": HIDDEN,
            "intermediate_size": INTERMEDIATE,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS,
            "num_key_value_heads": HEADS,
            "vocab_size": vocabulary,
            "max_position_embeddings": CONTEXT,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10000.0,
            "hidden_act": "silu",
            "tie_word_embeddings": False,
            "eos_token_id": end,
            "torch_dtype": "float32",
        },
    )
    save_file(_weights(vocabulary), str(folder / "model.safetensors"), metadata={"format": "pt"})
    return folder


def _weights(vocabulary: int) -> dict[str, torch.Tensor]:
    source = torch.Generator().manual_seed(7)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=source) * 0.3

    weights = {
        "model.embed_tokens.weight": random(vocabulary, HIDDEN),
        "model.norm.weight": torch.ones(HIDDEN),
    }
    head = random(vocabulary, HIDDEN)
    head[-len(SPECIAL) :] = 0  # a logit of 0 is never the largest
    weights["lm_head.weight"] = head
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            weights[f"{prefix}self_attn.{name}.weight"] = random(HIDDEN, HIDDEN)
        weights[f"{prefix}mlp.gate_proj.weight"] = random(INTERMEDIATE, HIDDEN)
        weights[f"{prefix}mlp.up_proj.weight"] = random(INTERMEDIATE, HIDDEN)
        weights[f"{prefix}mlp.down_proj.weight"] = random(HIDDEN, INTERMEDIATE)
        for name in ("input_layernorm", "post_attention_layernorm"):
            weights[f"{prefix}{name}.weight"] = torch.ones(HIDDEN)
    return weights


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")
