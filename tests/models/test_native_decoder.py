"""The native whole-step decoder: every family against transformers, and its fallbacks."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable

import pytest
import torch

from stoker.kernels import native
from stoker.kernels.packed import TILE, PackedDenseLinear
from stoker.kv.base import RowSpan
from stoker.kv.paged import PagedKV
from stoker.kv.paged_native import NativePagedKV
from stoker.models import load_model
from stoker.models.base import StepBatch
from stoker.models.formats import open_checkpoint
from stoker.models.native_decoder import NativeDecoder, accelerate

from .stepping import SCHEDULES, mixed, run_schedule
from .tiny_models import CASES, Case, Reference

pytestmark = pytest.mark.skipif(native.library() is None, reason="no native kernels were built")

References = Callable[[str], Reference]
# Experts are routed in torch; a head size that is no multiple of 8 has no native attention.
NATIVE = [case for case in CASES if "moe" not in case.id and case.id != "llama-head-dim"]


def relative_error(actual: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    return max(
        float((got - want).abs().max() / want.abs().max()) for got, want in zip(actual, expected, strict=True)
    )


@pytest.mark.parametrize("case", NATIVE, ids=lambda case: case.id)
def test_logits_match_transformers(reference: References, case: Case) -> None:
    expected = reference(case.id)
    model = accelerate(load_model(open_checkpoint(expected.folder), max_context=case.max_context))
    assert isinstance(model, NativeDecoder)
    for name in ("chunked", "token_by_token", "ragged", "mixed"):
        kv = NativePagedKV(model.facts.layers, num_blocks=16)
        logits = run_schedule(model, kv, expected.sequences, SCHEDULES[name](case.lengths))
        assert relative_error(logits, expected.logits) < 1e-4, name


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize(
    "case_id", ["llama-mlp-bias", "gemma3", "olmo2", "qwen3", "phi3-window", "granite-bias"]
)
def test_quantized_weights_give_what_the_torch_form_gives(
    reference: References, case_id: str, bits: int
) -> None:
    expected = reference(case_id)
    model = load_model(open_checkpoint(expected.folder), quantize=bits)
    steps = mixed([len(sequence) for sequence in expected.sequences])
    plain = run_schedule(model, PagedKV(model.facts.layers, num_blocks=16), expected.sequences, steps)
    fast = accelerate(model)
    assert isinstance(fast, NativeDecoder)
    logits = run_schedule(fast, NativePagedKV(model.facts.layers, num_blocks=16), expected.sequences, steps)
    assert relative_error(logits, plain) < 1e-4


def test_int8_activations_stay_close(reference: References) -> None:
    expected = reference("llama-plain")
    steps = mixed([len(sequence) for sequence in expected.sequences])

    def logits(planes: int) -> list[torch.Tensor]:
        model = load_model(open_checkpoint(expected.folder), quantize=8, int8_planes=planes)
        kv = NativePagedKV(model.facts.layers, num_blocks=16)
        return run_schedule(accelerate(model), kv, expected.sequences, steps)

    exact = logits(0)
    assert 1e-5 < relative_error(logits(1), exact) < 0.1
    assert relative_error(logits(2), exact) < relative_error(logits(1), exact) / 20


def test_models_with_parts_the_kernel_does_not_know_stay_as_they_are(reference: References) -> None:
    model = load_model(open_checkpoint(reference("qwen3-moe").folder))
    assert accelerate(model) is model


def test_another_kv_layout_uses_the_torch_form(reference: References) -> None:
    expected = reference("llama-plain")
    model = accelerate(load_model(open_checkpoint(expected.folder)))
    steps = mixed([len(sequence) for sequence in expected.sequences])
    kv = PagedKV(model.facts.layers, num_blocks=16)
    assert relative_error(run_schedule(model, kv, expected.sequences, steps), expected.logits) < 1e-4


def test_one_model_serves_several_caches_in_turn(reference: References) -> None:
    expected = reference("gemma3")
    model = accelerate(load_model(open_checkpoint(expected.folder)))
    steps = SCHEDULES["chunked"]([len(sequence) for sequence in expected.sequences])
    caches = [NativePagedKV(model.facts.layers, num_blocks=16) for _ in range(2)]
    for kv in [*caches, *caches]:
        assert relative_error(run_schedule(model, kv, expected.sequences, steps), expected.logits) < 1e-4


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("case_id", ["llama-plain", "gemma3", "granite-bias"])
def test_the_likeliest_is_the_first_of_the_largest_logits(
    reference: References, case_id: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "_num_threads", threads)
    expected = reference(case_id)
    model = load_model(open_checkpoint(expected.folder))
    fast = accelerate(model)
    assert isinstance(fast, NativeDecoder)
    kv = NativePagedKV(model.facts.layers, num_blocks=16)
    row, tokens = kv.new_row(), expected.sequences[0]
    kv.reserve(row, len(tokens))
    everywhere = array("q", range(len(tokens)))
    batch = StepBatch(array("q", tokens), everywhere, everywhere, kv.plan([RowSpan(row, 0, len(tokens))]))

    def both() -> tuple[torch.Tensor, list[tuple[int, float]]]:
        return fast.forward(batch, kv).clone(), fast.forward_likeliest(batch, kv)

    def overwrite(vocabulary_row: int, values: torch.Tensor) -> None:
        assert isinstance(model.head, PackedDenseLinear)
        tile, lane = divmod(vocabulary_row, TILE)
        model.head.data[tile, :, lane] = values

    logits, likeliest = both()
    assert likeliest == [(int(line.argmax()), float(line.max())) for line in logits]
    # Twice the same row: the first one counts, wherever the threads' shares begin.
    best = likeliest[-1][0]
    tile, lane = divmod(best, TILE)
    twin = model.head.data[tile, :, lane].clone()
    for other in (best + 1, best - 1):
        overwrite(other, twin)
    logits, likeliest = both()
    assert likeliest[-1] == (best - 1, float(logits[-1, best]))
    overwrite(best, torch.full_like(twin, float("nan")))
    assert all(math.isnan(peak) for _, peak in fast.forward_likeliest(batch, kv))
