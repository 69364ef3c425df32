"""A tiny random Whisper: transformers' model as the reference, and the same weights in every format.

Two seconds a window, three languages, a tokenizer of single bytes.
"""

from __future__ import annotations

import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
from safetensors.torch import save_file
from tokenizers import decoders, models, pre_tokenizers

AUDIO_CTX, TEXT_CTX, WIDTH, HEADS, LAYERS, NUM_MELS = 100, 64, 32, 4, 2, 80
EOT = 256
SPECIALS = (
    "<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|de|>", "<|ja|>", "<|translate|>",
    "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>",
)  # fmt: skip
TIMESTAMP_BEGIN = EOT + len(SPECIALS)
VOCAB_SIZE = TIMESTAMP_BEGIN + 1501


def tiny_tokenizer() -> tokenizers.Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = tokenizers.Tokenizer(models.BPE({char: i for i, char in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(SPECIALS))
    return tokenizer


def tiny_reference(seed: int = 0, width: int = WIDTH) -> Any:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    torch.manual_seed(seed)
    config = WhisperConfig(
        vocab_size=VOCAB_SIZE, num_mel_bins=NUM_MELS, d_model=width, encoder_layers=LAYERS,
        decoder_layers=LAYERS, encoder_attention_heads=HEADS, decoder_attention_heads=HEADS,
        encoder_ffn_dim=2 * width, decoder_ffn_dim=2 * width, max_source_positions=AUDIO_CTX,
        max_target_positions=TEXT_CTX, pad_token_id=EOT, bos_token_id=EOT, eos_token_id=EOT,
        decoder_start_token_id=EOT + 1, suppress_tokens=None, begin_suppress_tokens=None, init_std=0.3,
    )  # fmt: skip
    model = WhisperForConditionalGeneration(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):  # transformers begins with zeros, which would hide a lost bias
                parameter.copy_(0.1 * torch.randn_like(parameter))
    return model


def state(model: Any) -> dict[str, torch.Tensor]:
    return {
        k: v.detach().clone().contiguous() for k, v in model.state_dict().items() if k != "proj_out.weight"
    }


def write_common(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    tiny_tokenizer().save(str(folder / "tokenizer.json"))


def write_hf(model: Any, folder: Path, dtype: torch.dtype = torch.float32) -> Path:
    write_common(folder)
    save_file({k: v.to(dtype) for k, v in state(model).items()}, folder / "model.safetensors")
    config = model.config.to_dict() | {"model_type": "whisper"}
    (folder / "config.json").write_text(json.dumps(config, default=str))
    (folder / "generation_config.json").write_text(json.dumps({"alignment_heads": [[1, 0], [1, 3]]}))
    return folder


def write_ct2(model: Any, folder: Path, dtype: str = "float16") -> Path:
    """Fused as CTranslate2 fuses; int8 rows with a scale each, w = code / scale."""
    write_common(folder)
    s = {k.removeprefix("model."): v for k, v in state(model).items()}
    variables: dict[str, torch.Tensor] = {
        "encoder/num_heads": torch.tensor(HEADS, dtype=torch.int16),
        "decoder/num_heads": torch.tensor(HEADS, dtype=torch.int16),
    }

    def put(name: str, value: torch.Tensor, *, matrix: bool = False) -> None:
        if dtype == "int8" and matrix:
            scale = 127 / value.abs().amax(dim=1)
            variables[name] = (value * scale[:, None]).round().to(torch.int8)
            variables[f"{name}_scale"] = scale
        else:
            variables[name] = value.half() if dtype == "float16" else value

    for side in ("encoder", "decoder"):
        put(f"{side}/position_encodings/encodings", s[f"{side}.embed_positions.weight"])
        for leaf, theirs in (("weight", "gamma"), ("bias", "beta")):
            put(f"{side}/layer_norm/{theirs}", s[f"{side}.layer_norm.{leaf}"])
        for layer in range(LAYERS):
            ours, prefix = f"{side}.layers.{layer}", f"{side}/layer_{layer}"
            groups = {"self_attention": ("self_attn", (("q", "k", "v"), ("out",)))}
            if side == "decoder":
                groups["attention"] = ("encoder_attn", (("q",), ("k", "v"), ("out",)))
            for theirs, (name, fused) in groups.items():
                for index, parts in enumerate(fused):
                    weight = torch.cat([s[f"{ours}.{name}.{p}_proj.weight"] for p in parts])
                    missing = torch.zeros(WIDTH)
                    bias = torch.cat([s.get(f"{ours}.{name}.{p}_proj.bias", missing) for p in parts])
                    put(f"{prefix}/{theirs}/linear_{index}/weight", weight, matrix=True)
                    put(f"{prefix}/{theirs}/linear_{index}/bias", bias)
                put(f"{prefix}/{theirs}/layer_norm/gamma", s[f"{ours}.{name}_layer_norm.weight"])
                put(f"{prefix}/{theirs}/layer_norm/beta", s[f"{ours}.{name}_layer_norm.bias"])
            for index, name in enumerate(("fc1", "fc2")):
                put(f"{prefix}/ffn/linear_{index}/weight", s[f"{ours}.{name}.weight"], matrix=True)
                put(f"{prefix}/ffn/linear_{index}/bias", s[f"{ours}.{name}.bias"])
            put(f"{prefix}/ffn/layer_norm/gamma", s[f"{ours}.final_layer_norm.weight"])
            put(f"{prefix}/ffn/layer_norm/beta", s[f"{ours}.final_layer_norm.bias"])
    for conv in ("conv1", "conv2"):
        put(f"encoder/{conv}/weight", s[f"encoder.{conv}.weight"])
        put(f"encoder/{conv}/bias", s[f"encoder.{conv}.bias"])
    put("decoder/embeddings/weight", s["decoder.embed_tokens.weight"], matrix=True)

    codes = {torch.float32: 0, torch.int8: 1, torch.int16: 2, torch.float16: 4}

    def text(value: str) -> bytes:
        return struct.pack("<H", len(value) + 1) + value.encode() + b"\0"

    out = [struct.pack("<I", 6), text("WhisperSpec"), struct.pack("<II", 3, len(variables))]
    for name, value in variables.items():
        data = value.contiguous().numpy().tobytes()
        out += [text(name), struct.pack("<B", value.dim()), struct.pack(f"<{value.dim()}I", *value.shape)]
        out += [struct.pack("<BI", codes[value.dtype], len(data)), data]
    out += [struct.pack("<I", 1), text("decoder/projection/weight"), text("decoder/embeddings/weight")]
    (folder / "model.bin").write_bytes(b"".join(out))
    (folder / "config.json").write_text(json.dumps({"alignment_heads": [[1, 0], [1, 3]]}))
    return folder


_MLX = (
    ("encoder.layer_norm", "encoder.ln_post"), ("decoder.layer_norm", "decoder.ln"), (".layers.", ".blocks."),
    ("self_attn_layer_norm", "attn_ln"), ("encoder_attn_layer_norm", "cross_attn_ln"),
    ("final_layer_norm", "mlp_ln"), ("self_attn.", "attn."), ("encoder_attn.", "cross_attn."),
    ("q_proj", "query"), ("k_proj", "key"), ("v_proj", "value"), ("out_proj", "out"), ("fc1", "mlp1"),
    ("fc2", "mlp2"), ("embed_tokens", "token_embedding"),
    ("decoder.embed_positions.weight", "decoder.positional_embedding"),
)  # fmt: skip


def write_mlx(model: Any, folder: Path, container: str = "npz", bits: int | None = None) -> Path:
    write_common(folder)
    arrays: dict[str, torch.Tensor] = {"alignment_heads": torch.tensor([[1, 0], [1, 3]], dtype=torch.int32)}
    for name, value in state(model).items():
        name = name.removeprefix("model.")
        if name == "encoder.embed_positions.weight":
            continue
        for ours, theirs in _MLX:
            name = name.replace(ours, theirs)
        if value.dim() == 3:
            value = value.transpose(1, 2)
        if bits and value.dim() == 2 and "positional" not in name:
            low, high = (f(value.view(len(value), -1, 32), -1) for f in (torch.amin, torch.amax))
            scales = ((high - low) / (2**bits - 1)).half()
            biases = low.half()
            codes = (value.view(len(value), -1, 32) - biases.float()[..., None]) / scales.float()[..., None]
            codes = codes.round().clamp(0, 2**bits - 1).to(torch.int64).view(len(value), -1)
            shifted = codes.view(len(value), -1, 32 // bits) << (bits * torch.arange(32 // bits))
            module = name.removesuffix(".weight")
            arrays[name] = shifted.sum(-1).to(torch.uint32)
            arrays |= {f"{module}.scales": scales, f"{module}.biases": biases}
        else:
            arrays[name] = value.half() if bits else value
    config: dict[str, Any] = {
        "model_type": "whisper", "n_mels": NUM_MELS, "n_audio_ctx": AUDIO_CTX, "n_audio_state": WIDTH,
        "n_audio_head": HEADS, "n_audio_layer": LAYERS, "n_vocab": VOCAB_SIZE, "n_text_ctx": TEXT_CTX,
        "n_text_state": WIDTH, "n_text_head": HEADS, "n_text_layer": LAYERS,
    }  # fmt: skip
    if bits:
        config["quantization"] = {"group_size": 32, "bits": bits}
    (folder / "config.json").write_text(json.dumps(config))
    if container == "npz":
        with zipfile.ZipFile(folder / "weights.npz", "w", zipfile.ZIP_STORED) as archive:
            for name, value in arrays.items():
                with archive.open(f"{name}.npy", "w") as member:
                    np.lib.format.write_array(member, value.contiguous().numpy())
    else:
        save_file({k: v.contiguous() for k, v in arrays.items()}, folder / "weights.safetensors")
    return folder
