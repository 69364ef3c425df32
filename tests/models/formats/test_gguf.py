"""Every architecture: names, values and configuration equal the Hugging Face checkpoint's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import gguf
import pytest
import torch
from gguf import GGMLQuantizationType as Kind

from stoker.errors import CorruptModel, UnsupportedModel
from stoker.models.formats.gguf import GgufCheckpoint
from stoker.models.weights import QuantizedTensor

from .tiny_gguf import CASES, PLUS_ONE, Case, Tiny, make_tiny, write_gguf

# What a configuration class holds that is not about the model, or that no file states and that
# changes nothing (the sizes of unused parts, dropout, the saved dtype).
_NOT_STATED = {
    "architectures", "attention_dropout", "dtype", "initializer_range", "name_or_path", "_name_or_path",
    "transformers_version", "max_window_layers", "pretraining_tp", "resid_pdrop", "embd_pdrop",
    "router_aux_loss_coef", "output_router_logits", "layer_types", "use_sliding_window",
}  # fmt: skip


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Case], Tiny]:
    made: dict[str, Tiny] = {}

    def get(case: Case) -> Tiny:
        if case.id not in made:
            made[case.id] = make_tiny(case, tmp_path_factory.mktemp(case.id))
        return made[case.id]

    return get


def _dense(weight: torch.Tensor | QuantizedTensor) -> torch.Tensor:
    return weight.dequantize() if isinstance(weight, QuantizedTensor) else weight.float()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_names_and_values(case: Case, tiny: Callable[[Case], Tiny], tmp_path: Path) -> None:
    model = tiny(case)
    write_gguf(model, tmp_path / "model.gguf")
    checkpoint = GgufCheckpoint(tmp_path / "model.gguf")
    assert set(checkpoint.names()) == set(model.weights)
    for name, expected in model.weights.items():
        weight = checkpoint.get(name)
        assert isinstance(weight, torch.Tensor)
        if case.architecture in PLUS_ONE and name.endswith("norm.weight"):
            # 1 was added and rounded in the file; what is left is exact to that rounding.
            torch.testing.assert_close(weight, expected, rtol=0, atol=2**-22)
        else:
            assert torch.equal(weight, expected), name


@pytest.mark.parametrize("kind", [Kind.Q4_0, Kind.Q8_0, Kind.F16, Kind.BF16], ids=lambda kind: kind.name)
@pytest.mark.parametrize(
    "case", [c for c in CASES if c.id in ("llama", "qwen3moe", "phi3")], ids=lambda c: c.id
)
def test_quantized_rows_follow_their_order(
    case: Case, kind: Kind, tiny: Callable[[Case], Tiny], tmp_path: Path
) -> None:
    """Rows are quantized one by one, so reordering them must not change a value."""
    model = tiny(case)
    write_gguf(model, tmp_path / "model.gguf", lambda _: kind)
    checkpoint = GgufCheckpoint(tmp_path / "model.gguf")
    for name, original in model.weights.items():
        weight = checkpoint.get(name)
        if original.ndim == 1:
            assert torch.equal(_dense(weight), original)
            continue
        assert isinstance(weight, QuantizedTensor) == (kind in (Kind.Q4_0, Kind.Q8_0))
        stored = gguf.quants.quantize(original.float().numpy(), kind)
        expected = torch.from_numpy(gguf.quants.dequantize(stored, kind))
        assert torch.equal(_dense(weight), expected), name


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_config(case: Case, tiny: Callable[[Case], Tiny], tmp_path: Path) -> None:
    """transformers' own class, given our dict, must hold what it held when the model was made."""
    model = tiny(case)
    write_gguf(model, tmp_path / "model.gguf")
    config = GgufCheckpoint(tmp_path / "model.gguf").config
    assert config["architectures"] == [case.model_class]
    # The file has no tokenizer, which is where the ids of special tokens are said.
    ids = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    rebuilt = type(model.config)(**(config | ids)).to_dict()
    original = model.config.to_dict()
    differing = {
        key: (rebuilt.get(key), value)
        for key, value in original.items()
        if key not in _NOT_STATED and rebuilt.get(key) != value
    }
    assert differing == {}
    if "layer_types" in original and case.architecture in ("gemma2", "gemma3"):
        assert rebuilt["layer_types"] == original["layer_types"]


def _minimal(path: Path, architecture: str, **extra: int) -> gguf.GGUFWriter:
    writer = gguf.GGUFWriter(path, architecture)
    numbers = {"context_length": 8, "embedding_length": 4, "block_count": 1, "feed_forward_length": 4,
               "attention.head_count": 2} | extra  # fmt: skip
    for key, value in numbers.items():
        writer.add_uint32(f"{architecture}.{key}", value)
    writer.add_float32(f"{architecture}.attention.layer_norm_rms_epsilon", 1e-6)
    return writer


def _finish(writer: gguf.GGUFWriter) -> None:
    writer.add_tensor("token_embd.weight", torch.zeros(3, 4).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_unknown_architecture_is_named(tmp_path: Path) -> None:
    _finish(_minimal(tmp_path / "model.gguf", "falcon"))
    with pytest.raises(UnsupportedModel, match=r"'falcon'.*supported: llama"):
        GgufCheckpoint(tmp_path / "model.gguf")


def test_mixtral_is_refused(tmp_path: Path) -> None:
    _finish(_minimal(tmp_path / "model.gguf", "llama", expert_count=8))
    with pytest.raises(UnsupportedModel, match="mixture of experts"):
        GgufCheckpoint(tmp_path / "model.gguf")


def test_missing_metadata_is_named(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "llama")
    writer.add_uint32("llama.context_length", 8)
    _finish(writer)
    with pytest.raises(CorruptModel, match=r"lacks the metadata key llama\."):
        GgufCheckpoint(tmp_path / "model.gguf")


def test_missing_weight_is_named(tmp_path: Path) -> None:
    _finish(_minimal(tmp_path / "model.gguf", "llama"))
    checkpoint = GgufCheckpoint(tmp_path / "model.gguf")
    assert "lm_head.weight" not in checkpoint
    with pytest.raises(CorruptModel, match=r"lm_head\.weight"):
        checkpoint.get("lm_head.weight")


def test_shards_are_read_as_one(tiny: Callable[[Case], Tiny], tmp_path: Path) -> None:
    model = tiny(CASES[0])
    whole = tmp_path / "whole.gguf"
    write_gguf(model, whole)
    reader = gguf.GGUFReader(whole)
    half = len(reader.tensors) // 2
    for number, tensors in enumerate((reader.tensors[:half], reader.tensors[half:])):
        writer = gguf.GGUFWriter(tmp_path / f"model-0000{number + 1}-of-00002.gguf", "llama")
        writer.add_uint16("split.count", 2)
        if number == 0:
            for field in reader.fields.values():
                if field.name.startswith("llama."):
                    writer.add_key_value(field.name, field.contents(), field.types[0])
        for tensor in tensors:
            writer.add_tensor(tensor.name, tensor.data)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    checkpoint = GgufCheckpoint(tmp_path / "model-00001-of-00002.gguf")
    for name, expected in model.weights.items():
        assert torch.equal(_dense(checkpoint.get(name)), expected)

    with pytest.raises(CorruptModel, match="open the first"):
        GgufCheckpoint(tmp_path / "model-00002-of-00002.gguf")
    (tmp_path / "model-00002-of-00002.gguf").unlink()
    with pytest.raises(CorruptModel, match="is missing"):
        GgufCheckpoint(tmp_path / "model-00001-of-00002.gguf")
