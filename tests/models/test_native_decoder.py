"""The native whole-step decoder: every family against transformers, and its fallbacks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from stoker.kernels import native
from stoker.kv.paged import PagedKV
from stoker.kv.paged_native import NativePagedKV
from stoker.models import load_model
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
