"""The yardstick: transformers' LlamaForCausalLM in float32 on a GGUF file's weights, built without stoker.

Weights are dequantized by the `gguf` package; llama.cpp's reordering of query and key rows is undone here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGUFReader, ReaderTensor
from gguf.quants import dequantize
from transformers import LlamaConfig, LlamaForCausalLM

_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


class Reference:
    """A Llama-family GGUF file in float32 with eager attention."""

    def __init__(self, gguf_path: Path) -> None:
        reader = GGUFReader(gguf_path)
        config = _config(reader)
        with torch.device("meta"):
            self.model = LlamaForCausalLM(config)
        state = {_hf_name(t.name): _weight(t, config) for t in reader.tensors}
        if config.tie_word_embeddings:
            state["lm_head.weight"] = state["model.embed_tokens.weight"]
        self.model.load_state_dict(state, strict=True, assign=True)
        # The rotary frequencies are a buffer outside the state dict, left on the meta device above.
        self.model.model.rotary_emb = type(self.model.model.rotary_emb)(config)
        self.model.eval()

    @torch.inference_mode()
    def logits(self, ids: Sequence[int], first: int = 0) -> torch.Tensor:
        """Logits after each of ids[first:], float32 [len(ids) - first, vocabulary], in one pass."""
        keep = len(ids) - first
        return self.model(torch.tensor([list(ids)]), logits_to_keep=keep, use_cache=False).logits[0]

    @torch.inference_mode()
    def greedy(self, ids: Sequence[int], num_tokens: int) -> list[int]:
        """The likeliest continuation, EOS treated as any other token."""
        prompt = torch.tensor([list(ids)])
        longer = self.model.generate(prompt, do_sample=False, max_new_tokens=num_tokens)
        return longer[0, len(ids) :].tolist()


def _config(reader: GGUFReader) -> LlamaConfig:
    def fact(name: str) -> Any:
        return reader.fields[f"llama.{name}"].contents()

    return LlamaConfig(
        vocab_size=fact("vocab_size"),
        hidden_size=fact("embedding_length"),
        intermediate_size=fact("feed_forward_length"),
        num_hidden_layers=fact("block_count"),
        num_attention_heads=fact("attention.head_count"),
        num_key_value_heads=fact("attention.head_count_kv"),
        max_position_embeddings=fact("context_length"),
        rms_norm_eps=fact("attention.layer_norm_rms_epsilon"),
        rope_parameters={"rope_type": "default", "rope_theta": fact("rope.freq_base")},
        tie_word_embeddings=all(t.name != "output.weight" for t in reader.tensors),
        attn_implementation="eager",
        bos_token_id=None,
        eos_token_id=None,  # no id ends `greedy`
        dtype=torch.float32,
    )


def _hf_name(name: str) -> str:
    if name.startswith("blk."):
        _, layer, part, kind = name.split(".")
        return f"model.layers.{layer}.{_NAMES[part]}.{kind}"
    return {
        "token_embd.weight": "model.embed_tokens.weight",
        "output_norm.weight": "model.norm.weight",
        "output.weight": "lm_head.weight",
    }[name]


def _weight(tensor: ReaderTensor, config: LlamaConfig) -> torch.Tensor:
    dense = np.ascontiguousarray(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
    if ".attn_q." in tensor.name:
        dense = _unpermute(dense, config.num_attention_heads)
    elif ".attn_k." in tensor.name:
        dense = _unpermute(dense, config.num_key_value_heads)
    return torch.from_numpy(dense.copy())


def _unpermute(rows: np.ndarray, num_heads: int) -> np.ndarray:
    """GGUF keeps the two halves of each head's rotary pairs interleaved (x0 y0 x1 y1 ...); transformers wants
    them one after the other (x0 x1 ... y0 y1 ...)."""
    outputs, inputs = rows.shape
    pairs = rows.reshape(num_heads, outputs // num_heads // 2, 2, inputs)
    return pairs.swapaxes(1, 2).reshape(outputs, inputs)
