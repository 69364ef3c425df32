"""stoker.app: the decisions it takes for a machine, and how the settings reach the parts."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.cli.tiny import CONTEXT, make_tiny_model

from stoker import app, machine
from stoker.config import SettingError, Settings, resolve
from stoker.kv.base import LayerSpec
from stoker.kv.blocks import BLOCK_SIZE
from stoker.library import find_model


def settings(**flags: str) -> Settings:
    return resolve(flags, environ={})


def test_device(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert app.choose_device("auto") == "mps"
    assert app.choose_device("cpu") == "cpu"
    with pytest.raises(SettingError, match="the device cuda is not available here; available: mps, cpu"):
        app.choose_device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert app.choose_device("auto") == "cuda"


def test_threads(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(machine, "physical_cores", lambda: 6)
    monkeypatch.setenv("OMP_NUM_THREADS", "3,2")
    assert app.choose_threads(5) == 5
    assert app.choose_threads(None) == 3
    for odd in ("", "0", "many"):
        monkeypatch.setenv("OMP_NUM_THREADS", odd)
        assert app.choose_threads(None) == 6


LAYERS = (LayerSpec(2, 64), LayerSpec(4, 32))  # 2 * (2*64 + 4*32) = 512 numbers per token


@pytest.mark.parametrize(
    ("dtype", "wanted", "budget", "tokens"),
    [
        (torch.float32, 1000, 10**9, 1000),  # what is wanted
        (torch.float32, 10**6, 2048 * 320, 320),  # 2048 bytes per token
        (torch.bfloat16, 10**6, 2048 * 320, 640),
        (torch.float32, 10**6, 0, 1),
    ],
)
def test_blocks_of_keys_and_values(dtype: torch.dtype, wanted: int, budget: int, tokens: int):
    blocks = app.kv_blocks(LAYERS, dtype=dtype, wanted_tokens=wanted, budget_bytes=budget)
    assert blocks == -(-tokens // BLOCK_SIZE)


def test_the_budget_is_the_setting_or_half_of_what_is_free(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(machine, "available_memory", lambda: 10_000)
    assert app.kv_budget_bytes(settings(kv_budget="1.5"), "cpu") == 1_500_000_000
    assert app.kv_budget_bytes(settings(), "cpu") == 5_000


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


def test_settings_reach_the_engine_and_the_text(model: Path):
    chosen = settings(
        threads="1",
        batch="3",
        max_queued="7",
        prefill_chunk="16",
        prompt_cache="0",
        context_limit="128",
        temperature="0.1",
        top_k="9",
    )
    served = app.load_served_model(chosen, find_model(str(model)))
    try:
        config = served.engine.config
        assert (config.max_rows, config.max_queued, config.prefill_chunk) == (3, 7, 16)
        assert served.engine.max_context == served.text.max_context == 128
        # rows, tokens, layers, k+v, numbers in each
        numbers = 3 * 128 * 2 * 2 * 32
        assert served.engine.stats().kv_capacity_bytes == numbers * served.numerics.kv.itemsize
        assert (served.text.id, served.device) == ("tiny", "cpu")
        sampling = served.sampling(seed=5)
        assert (sampling.temperature, sampling.top_k, sampling.top_p, sampling.seed) == (0.1, 9, 0.0, 5)
        newline = served.text.tokenizer.encode("\n", add_special=False)
        assert config.newline_ids == frozenset(newline)
        assert len(newline) == 1
    finally:
        served.close()


def test_a_small_budget_shortens_the_context_that_is_told(model: Path):
    served = app.load_served_model(settings(threads="1", kv_budget="0.001"), find_model(str(model)))
    try:
        tokens = 10**6 // (2 * 2 * 32 * served.numerics.kv.itemsize)
        assert CONTEXT > served.engine.max_context == served.text.max_context
        assert tokens <= served.engine.max_context < tokens + BLOCK_SIZE
    finally:
        served.close()


def test_the_application_knows_the_operators_limits(model: Path):
    chosen = settings(threads="1", batch="1", context_limit="64", kv_budget="0.5", api_key="k")
    served = app.load_served_model(chosen, find_model(str(model)))
    try:
        _, state = app.build_app(served)
        assert state.settings.api_key == "k"
        assert state.batch_mode == "off"
        assert (state.figures.global_layers, state.figures.sliding_layers) == (2, 0)
        assert (state.figures.enforced_context_tokens, state.figures.kv_budget_bytes) == (64, 500_000_000)
        assert state.figures.weights_bytes == pytest.approx(
            model.joinpath("model.safetensors").stat().st_size, rel=0.1
        )
    finally:
        served.close()
