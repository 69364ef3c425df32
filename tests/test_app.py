"""stoker.app: the decisions it takes for a machine, and how the settings reach the parts."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from tests.cli.tiny import CONTEXT, make_tiny_model

from stoker import app, machine
from stoker.config import SettingError, Settings, resolve
from stoker.core import GenerationRequest
from stoker.errors import ContextLengthExceeded
from stoker.fit import Fit
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
    blocks = app.kv_blocks(LAYERS, dtype=dtype, wanted_tokens=wanted, room_bytes=budget)
    assert blocks == -(-tokens // BLOCK_SIZE)


def test_a_kv_budget_limits_the_rows_and_not_the_cache():
    blocks = app.kv_blocks(
        LAYERS,
        dtype=torch.float32,
        wanted_tokens=10**6,
        rows_bytes=2048 * 320,
        cache_bytes=2048 * 3200,
        room_bytes=10**9,
    )
    assert blocks == (320 + 3200) // BLOCK_SIZE


FIT = Fit(usable_bytes=0, weights_bytes=1_000_000, transient_bytes=5_000, token_bytes=1_000, window=4096)


def test_room_for_keys_and_values(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(machine, "available_memory", lambda: 10_000_000)
    assert app.kv_room_bytes(settings(), "cpu", FIT) == 5_000_000
    assert app.kv_room_bytes(settings(kv_budget="1.5"), "cpu", FIT) == 1_500_000_000
    budget = settings(memory_budget="0.003")
    fit = dataclasses.replace(FIT, usable_bytes=app.usable_bytes(budget, "cpu"))
    assert app.kv_room_bytes(budget, "cpu", fit) == 3_000_000 - 1_000_000 - 5_000


@pytest.mark.parametrize(
    ("limit", "budget", "cap"),
    [
        (None, None, None),
        ("64", None, 64),
        ("5000", None, None),  # a limit never enlarges, so it is not in force
        (None, "0.003", 1984),  # 1,995,000 bytes, in whole blocks of 32 tokens
        ("64", "0.003", 64),
        ("3000", "0.003", 1984),
        (None, "1", None),  # there is more room than the model can use
    ],
)
def test_the_operators_cap(limit: str | None, budget: str | None, cap: int | None):
    given = {"context_limit": limit, "memory_budget": budget}
    chosen = settings(**{name: value for name, value in given.items() if value is not None})
    fit = dataclasses.replace(FIT, usable_bytes=app.usable_bytes(chosen, "cpu"))
    assert app.enforced_context(chosen, fit) == cap


def test_a_memory_budget_that_does_not_hold_the_model(model: Path):
    with pytest.raises(SettingError, match=r"0\.001 GB does not hold the model: it needs at least"):
        app.load_served_model(settings(memory_budget="0.001", batch="1024"), find_model(str(model)))


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


def test_a_memory_budget_shortens_the_context_that_is_told(model: Path):
    chosen = settings(threads="1", memory_budget="0.002", batch="1")
    served = app.load_served_model(chosen, find_model(str(model)))
    try:
        room = 2 * 10**6 - served.fit.weights_bytes - served.fit.transient_bytes
        tokens = room // (2 * 2 * 32 * served.numerics.kv.itemsize)
        assert CONTEXT > served.engine.max_context == served.text.max_context
        assert tokens - BLOCK_SIZE < served.engine.max_context <= tokens
        # The cache shares the room: nothing is set aside beyond it.
        assert served.engine.stats().kv_capacity_bytes <= room
        with pytest.raises(ContextLengthExceeded, match=f"{served.engine.max_context} tokens") as refused:
            served.engine.submit(GenerationRequest("r", (1,) * served.engine.max_context))
        assert (refused.value.type, refused.value.code) == ("memory_admission", "context_over_budget")
        with pytest.raises(ContextLengthExceeded) as refused:  # without tokenizing it
            served.text.prompt_from_text("x" * 10**6)
        assert (refused.value.type, refused.value.code) == ("memory_admission", "context_over_budget")
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
        assert state.figures.fit is not None
        assert state.figures.fit.weights_bytes == pytest.approx(
            model.joinpath("model.safetensors").stat().st_size, rel=0.1
        )
    finally:
        served.close()
