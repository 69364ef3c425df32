"""Every family against transformers in float32, along every way of cutting a sequence into steps."""

from __future__ import annotations

import copy
from array import array
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from stoker.kv.base import RowSpan
from stoker.kv.paged import PagedKV
from stoker.models import load_model
from stoker.models.base import StepBatch
from stoker.models.formats import open_checkpoint
from stoker.models.layers.decoder import Decoder

from .checkpoints import MemoryCheckpoint
from .dense_kv import DenseKV
from .stepping import SCHEDULES, mixed, run_schedule
from .tiny_models import CASES, VOCABULARY, Case, Reference, expected_logits

MAX_RELATIVE_ERROR = 1e-4

References = Callable[[str], Reference]


@cache
def load(folder: Path, max_context: int | None) -> Decoder:
    return load_model(open_checkpoint(folder), max_context=max_context)


def assert_close(actual: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    for got, want in zip(actual, expected, strict=True):
        assert got.shape == want.shape
        error = (got - want).abs().max() / want.abs().max()
        assert error < MAX_RELATIVE_ERROR


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_logits_match_transformers(reference: References, case: Case, schedule: str) -> None:
    expected = reference(case.id)
    model = load(expected.folder, case.max_context)
    steps = SCHEDULES[schedule](case.lengths)
    assert_close(run_schedule(model, DenseKV(model.facts.layers), expected.sequences, steps), expected.logits)


@pytest.mark.parametrize("case_id", ["llama-plain", "gemma2", "gemma3", "qwen3-moe-sparse-step"])
def test_the_paged_layout_gives_the_same_logits(reference: References, case_id: str) -> None:
    expected = reference(case_id)
    model = load(expected.folder, None)
    steps = mixed([len(sequence) for sequence in expected.sequences])
    kv = PagedKV(model.facts.layers, num_blocks=8)
    assert_close(run_schedule(model, kv, expected.sequences, steps), expected.logits)


def test_logits_come_only_for_the_positions_asked_for(reference: References) -> None:
    expected = reference("llama-plain")
    model = load(expected.folder, None)
    sequence = expected.sequences[0]

    def step(logits_at: list[int]) -> torch.Tensor:
        kv = DenseKV(model.facts.layers)
        row = kv.new_row()
        kv.reserve(row, len(sequence))
        batch = StepBatch(
            token_ids=array("q", sequence),
            positions=array("q", range(len(sequence))),
            logits_at=array("q", logits_at),
            plan=kv.plan([RowSpan(row, 0, len(sequence))]),
        )
        return model.forward(batch, kv)

    assert_close([step([20, 3])], [expected.logits[0][[20, 3]]])
    assert step([]).shape == (0, VOCABULARY)


# How the same settings are spelled in config.json files written before transformers 5, where
# rope settings stood beside each other and defaults were left out.
OLDER_SPELLINGS: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "llama3": (
        "llama-rope-llama3",
        {
            "rope_theta": 500.0,
            "rope_scaling": {
                "type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 32,
            },
        },
        ("rope_parameters", "attention_bias", "mlp_bias", "head_dim"),
    ),
    "gemma3": (
        "gemma3-rope-linear",
        {
            "rope_theta": 1000.0,
            "rope_local_base_freq": 50.0,
            "rope_scaling": {"rope_type": "linear", "factor": 8.0},
            "sliding_window_pattern": 6,
        },
        ("rope_parameters", "layer_types", "_sliding_window_pattern", "tie_word_embeddings"),
    ),
    "gemma2": ("gemma2", {"rope_theta": 10000.0}, ("rope_parameters", "layer_types")),
    "phi3 su": (
        "phi3-longrope-long",
        {
            "rope_theta": 10000.0,
            "rope_scaling": {
                "type": "su",
                "short_factor": [1.0] * 8,
                "long_factor": [1.5 + 0.8 * i for i in range(8)],
            },
        },
        ("rope_parameters",),
    ),
    "qwen2 window": (
        "qwen2-window",
        {
            "rope_scaling": {
                "type": "yarn",
                "factor": 4.0,
                "beta_fast": 1.5,
                "beta_slow": 0.4,
                "original_max_position_embeddings": 16,
            },
            "rope_theta": 10.0,
        },
        ("rope_parameters", "layer_types", "hidden_act"),
    ),
    "qwen3 moe": ("qwen3-moe", {"num_experts": 6}, ("num_local_experts", "decoder_sparse_step")),
    "smollm3": ("smollm3", {"rope_theta": 2000000.0}, ("rope_parameters", "layer_types", "no_rope_layers")),
    "no architecture": ("olmo2", {}, ("architectures",)),
}


@pytest.mark.parametrize("spelling", OLDER_SPELLINGS)
def test_older_configs_mean_the_same(reference: References, spelling: str) -> None:
    case_id, added, dropped = OLDER_SPELLINGS[spelling]
    expected = reference(case_id)
    checkpoint = MemoryCheckpoint.open(expected.folder)
    config = {key: value for key, value in checkpoint.config.items() if key not in dropped}
    model = load_model(MemoryCheckpoint(config | added, checkpoint.weights))
    steps = SCHEDULES["ragged"]([len(sequence) for sequence in expected.sequences])
    assert_close(run_schedule(model, DenseKV(model.facts.layers), expected.sequences, steps), expected.logits)


@pytest.mark.parametrize("case_id", ["llama-plain", "qwen3", "qwen3-moe", "gemma3", "olmo2"])
def test_bfloat16_is_at_least_as_exact_as_transformers(reference: References, case_id: str) -> None:
    expected = reference(case_id)
    model = load_model(open_checkpoint(expected.folder), torch.bfloat16)
    steps = SCHEDULES["chunked"]([len(sequence) for sequence in expected.sequences])
    ours = run_schedule(model, DenseKV(model.facts.layers), expected.sequences, steps)

    theirs_model = copy.deepcopy(expected.model).to(torch.bfloat16)
    theirs = [expected_logits(theirs_model, sequence) for sequence in expected.sequences]

    def error(logits: list[torch.Tensor]) -> float:
        return float((torch.cat(logits) - torch.cat(expected.logits)).square().mean().sqrt())

    assert error(ours) < 1.1 * error(theirs)


def test_longrope_is_chosen_by_the_context_that_is_served(reference: References) -> None:
    folder = reference("phi3-longrope-long").folder
    assert load_model(open_checkpoint(folder)).facts.max_context == 64
    assert load_model(open_checkpoint(folder), max_context=16).facts.max_context == 16
    assert load_model(open_checkpoint(folder), max_context=1000).facts.max_context == 64


def test_facts(reference: References) -> None:
    facts = load(reference("gemma3").folder, None).facts
    assert facts.vocab_size == VOCABULARY
    assert [layer.window for layer in facts.layers] == [6, 6, 6, 6, 6, None, 6]
    assert {(layer.num_kv_heads, layer.head_dim) for layer in facts.layers} == {(1, 16)}


def test_a_window_wider_than_the_context_is_none(reference: References) -> None:
    model = load_model(open_checkpoint(reference("mistral-window").folder), max_context=6)
    assert {layer.window for layer in model.facts.layers} == {None}
