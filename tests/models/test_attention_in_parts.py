"""The native step shares a long row's attention out among threads; its logits must not show it."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import pytest
import torch
from tests.cli.tiny import make_tiny_model

from stoker.kernels import native
from stoker.kv.base import RowSpan
from stoker.kv.paged import PagedKV
from stoker.kv.paged_native import NativePagedKV
from stoker.models import load_model
from stoker.models.base import CausalLM, StepBatch
from stoker.models.formats import open_checkpoint
from stoker.models.layers.decoder import Decoder
from stoker.models.native_decoder import accelerate

pytestmark = pytest.mark.skipif(native.library() is None, reason="no native kernels were built")

SEQUENCES = [
    [(7 * i * i + 3 * i + seed) % 90 for i in range(length)] for seed, length in enumerate((700, 40))
]
BEFORE_LAST = (
    127,
    128,
    300,
    600,
)  # prompts, a token of which follows: the edges of parts of 128 keys, and more


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    folder = make_tiny_model(tmp_path_factory.mktemp("model"))
    loaded = load_model(open_checkpoint(folder))
    assert isinstance(loaded, Decoder)
    return loaded


def last_logits(
    model: CausalLM, kv: PagedKV, prompts: list[list[int]], beside: Sequence[int] = ()
) -> torch.Tensor:
    """Each prompt computed but for its last token, then the last tokens of all in one step, with the row
    `beside`, which brings two, if there is one."""
    rows = [kv.new_row() for _ in (*prompts, *([beside] if beside else []))]
    steps = [[(row, prompt[:-1], 0)] for row, prompt in zip(rows, prompts, strict=False)]
    steps.append([(row, prompt[-1:], len(prompt) - 1) for row, prompt in zip(rows, prompts, strict=False)])
    if beside:
        steps[-1].append((rows[-1], beside[:2], 0))
    for step in steps:
        tokens, positions = array("q"), array("q")
        for row, new, start in step:
            kv.reserve(row, start + len(new))
            tokens.extend(new)
            positions.extend(range(start, start + len(new)))
        plan = kv.plan([RowSpan(row, start, len(new)) for row, new, start in step])
        with torch.inference_mode():
            logits = model.forward(StepBatch(tokens, positions, array("q", range(len(prompts))), plan), kv)
    return logits.clone()


@pytest.mark.parametrize("length", BEFORE_LAST)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_threads_and_neighbours_change_nothing(
    model: Decoder, length: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompt, other = SEQUENCES[0][: length + 1], SEQUENCES[1]
    fast = accelerate(model)

    def native_logits(threads: int, *arguments: list[list[int]] | list[int]) -> torch.Tensor:
        monkeypatch.setattr(native, "_num_threads", threads)
        kv = NativePagedKV(model.facts.layers, num_blocks=80, dtype=dtype)
        return last_logits(fast, kv, *arguments)[0]

    alone = native_logits(1, [prompt])
    assert torch.equal(native_logits(3, [prompt]), alone)
    assert torch.equal(native_logits(3, [prompt, other]), alone)
    assert torch.equal(native_logits(3, [prompt], other), alone)  # in a step with a row in prefill
    plain = last_logits(model, PagedKV(model.facts.layers, num_blocks=80), [prompt])[0]
    tolerance = 1e-4 if dtype == torch.float32 else 1e-2
    torch.testing.assert_close(alone, plain, rtol=tolerance, atol=tolerance)
