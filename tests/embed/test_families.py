"""Every family on a tiny random checkpoint, against transformers on one sequence at a time."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.embed.tiny import CASES, SEQUENCES, Case, reference_states, save_reference
from tests.models.checkpoints import MemoryCheckpoint

from stoker.embed.encoder import Encoder
from stoker.embed.loading import EncoderNumerics, build_encoder
from stoker.embed.packing import Tokens, pack_batch
from stoker.errors import CorruptModel, UnsupportedModel
from stoker.models.formats import open_checkpoint


def encode(encoder: Encoder, sequences: list[tuple[int, ...]]) -> list[torch.Tensor]:
    """Hidden states of each sequence."""
    batch = pack_batch([Tokens(ids) for ids in sequences])
    steps = encoder.steps(batch)
    with torch.inference_mode():
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return [end.value[first : first + length] for first, length in batch.sequences()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_states_are_those_of_transformers(case: Case, tmp_path: Path) -> None:
    model = save_reference(case, tmp_path)
    encoder = build_encoder(open_checkpoint(tmp_path))
    sequences = sorted(SEQUENCES, key=len)
    for ids, states in zip(sequences, encode(encoder, sequences), strict=True):
        torch.testing.assert_close(states, reference_states(model, ids), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_sequence_does_not_depend_on_its_neighbours(case: Case, tmp_path: Path) -> None:
    save_reference(case, tmp_path)
    encoder = build_encoder(open_checkpoint(tmp_path))
    sequences = list(SEQUENCES)  # not sorted: slower, and as exact
    for ids, states in zip(sequences, encode(encoder, sequences), strict=True):
        torch.testing.assert_close(states, encode(encoder, [ids])[0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_bfloat16_products_stay_close(case: Case, tmp_path: Path) -> None:
    if case.id in ("qwen3", "embedding-gemma"):
        pytest.skip("decoders have numerics of their own")
    save_reference(case, tmp_path)
    exact = build_encoder(open_checkpoint(tmp_path))
    rounded = build_encoder(open_checkpoint(tmp_path), EncoderNumerics(torch.bfloat16))
    for ids in SEQUENCES:
        mean, other = (encode(encoder, [ids])[0].mean(0) for encoder in (exact, rounded))
        assert torch.cosine_similarity(mean, other, dim=0) > 0.999
        assert not torch.equal(mean, other)


def test_older_checkpoints_carry_the_head_prefix(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.id == "bert")
    model = save_reference(case, tmp_path)
    checkpoint = MemoryCheckpoint.open(tmp_path)
    checkpoint.weights = {f"bert.{name}": weight for name, weight in checkpoint.weights.items()}
    for name in [name for name in checkpoint.weights if "LayerNorm" in name]:
        renamed = name.replace(".weight", ".gamma").replace(".bias", ".beta")
        checkpoint.weights[renamed] = checkpoint.weights.pop(name)
    states = encode(build_encoder(checkpoint), [SEQUENCES[0]])[0]
    torch.testing.assert_close(states, reference_states(model, SEQUENCES[0]), atol=1e-4, rtol=1e-4)


def test_a_missing_or_misshapen_weight_is_named(tmp_path: Path) -> None:
    save_reference(CASES[0], tmp_path)
    checkpoint = MemoryCheckpoint.open(tmp_path)
    name = "encoder.layer.1.output.dense.weight"
    whole = checkpoint.weights.pop(name)
    with pytest.raises(CorruptModel, match=name):
        build_encoder(checkpoint)
    checkpoint.weights[name] = whole[:, :5]  # type: ignore[index]
    with pytest.raises(CorruptModel, match=name):
        build_encoder(checkpoint)


def test_variants_that_are_computed_differently_are_refused(tmp_path: Path) -> None:
    save_reference(CASES[0], tmp_path)
    checkpoint = MemoryCheckpoint.open(tmp_path)
    checkpoint.config["position_embedding_type"] = "relative_key"
    with pytest.raises(UnsupportedModel, match="relative_key"):
        build_encoder(checkpoint)
    checkpoint.config["model_type"] = "mpnet"
    checkpoint.config["architectures"] = ["MPNetModel"]
    with pytest.raises(UnsupportedModel, match="MPNetModel"):
        build_encoder(checkpoint)


def test_nomics_own_configuration_names(tmp_path: Path) -> None:
    """As published: GPT-2's names, and rotary settings of their own."""
    case = next(case for case in CASES if case.id == "nomic-bert")
    model = save_reference(case, tmp_path)
    checkpoint = MemoryCheckpoint.open(tmp_path)
    checkpoint.config = {
        "architectures": ["NomicBertModel"],
        "model_type": "nomic_bert",
        "activation_function": "swiglu",
        "n_embd": 32,
        "n_head": 4,
        "n_inner": 48,
        "n_layer": 3,
        "n_positions": 64,
        "layer_norm_epsilon": 1e-12,
        "rotary_emb_base": 1000,
        "rotary_emb_fraction": 1.0,
        "rotary_emb_interleaved": False,
        "rotary_scaling_factor": None,
        "prenorm": False,
        "type_vocab_size": 2,
        "vocab_size": checkpoint.config["vocab_size"],
    }
    states = encode(build_encoder(checkpoint), [SEQUENCES[3]])[0]
    torch.testing.assert_close(states, reference_states(model, SEQUENCES[3]), atol=1e-4, rtol=1e-4)
    checkpoint.config["rotary_scaling_factor"] = 2
    with pytest.raises(UnsupportedModel, match="rotary_scaling_factor"):
        build_encoder(checkpoint)
