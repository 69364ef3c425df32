"""The service: loading once, beside a running engine, and several models on one host."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.cli.tiny import make_tiny_model
from tests.embed.tiny import CASES, run_passes, save_reference

from stoker.core import GenerationRequest, SamplingParams, TokenEvent
from stoker.embed.model import EmbeddingModel, load_embedding_model
from stoker.embed.packing import Tokens
from stoker.embed.service import EmbedService, Part
from stoker.engine import Engine
from stoker.errors import CorruptModel, Unavailable
from stoker.kv.paged_native import paged_kv
from stoker.models import load_model
from stoker.models.formats import open_checkpoint
from stoker.models.native_decoder import accelerate

ITEMS = [Tokens(tuple(range(6, 6 + length))) for length in (3, 9, 9, 30, 1, 17) * 10]


def load(folder: Path, case_id: str) -> EmbeddingModel:
    save_reference(next(case for case in CASES if case.id == case_id), folder)
    return load_embedding_model(case_id, folder)


@pytest.mark.parametrize("case_id", ["bert", "qwen3"])
def test_beside_a_running_chat_both_stay_exact(tmp_path: Path, case_id: str) -> None:
    """qwen3 uses the same native team of threads as the chat model."""
    chat = accelerate(load_model(open_checkpoint(make_tiny_model(tmp_path / "chat")), max_context=512))
    engine = Engine(chat, paged_kv(chat.facts.layers, num_blocks=64, dtype=torch.float32, device="cpu"))
    engine.start()
    model = load(tmp_path / "model", case_id)
    expected = np.array(run_passes(model.passes(ITEMS), len(ITEMS)), np.float32)
    service = EmbedService(lambda: Part(case_id, lambda: model), host=engine.share, num_threads=2)
    loaded = service.embedding()
    assert loaded is not None

    def generate() -> list[int]:
        request = GenerationRequest("r", (1, 2, 3), sampling=SamplingParams(temperature=0), max_tokens=150)
        events = [event for batch in engine.submit(request).batches_blocking() for event in batch]
        return [event.token_id for event in events if isinstance(event, TokenEvent)]

    try:
        alone = generate()
        with ThreadPoolExecutor(1) as other:
            running = other.submit(generate)
            jobs = [loaded.start(model.passes(ITEMS), len(ITEMS), model.dimension) for _ in range(3)]
            for job in jobs:
                np.testing.assert_allclose(job.future.result(60), expected, atol=1e-5)
            assert running.result(60) == alone
    finally:
        service.close()
        engine.close()


def test_a_model_is_loaded_once_whoever_asks_first(tmp_path: Path) -> None:
    model = load(tmp_path, "bert")
    loads: list[int] = []
    together = threading.Barrier(4)

    def slowly() -> EmbeddingModel:
        loads.append(1)
        return model

    service = EmbedService(lambda: Part("m", slowly))

    def ask() -> object:
        together.wait(20)
        return service.embedding()

    with ThreadPoolExecutor(4) as askers:
        found = [future.result(20) for future in [askers.submit(ask) for _ in range(4)]]
    assert len(loads) == 1
    assert all(one is found[0] for one in found)
    service.close()


def test_what_is_not_there_yet_is_looked_for_again(tmp_path: Path) -> None:
    model = load(tmp_path, "bert")
    parts: list[Part[EmbeddingModel]] = []
    service = EmbedService(lambda: parts[0] if parts else None)
    assert service.embedding_id() is None
    assert service.embedding() is None
    parts.append(Part("m", lambda: model))  # downloaded meanwhile
    assert service.embedding_id() == "m"
    loaded = service.embedding()
    assert loaded is not None
    assert loaded.model is model
    assert service.reranker() is None
    service.close()


def test_a_failed_load_is_told_and_tried_again(tmp_path: Path) -> None:
    model = load(tmp_path, "bert")
    outcomes: list[object] = [CorruptModel("damaged"), model]

    def sometimes() -> EmbeddingModel:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        assert isinstance(outcome, EmbeddingModel)
        return outcome

    service = EmbedService(lambda: Part("m", sometimes))
    with pytest.raises(CorruptModel, match="damaged"):
        service.embedding()
    assert service.embedding() is not None
    service.close()


def test_after_closing_nothing_starts(tmp_path: Path) -> None:
    model = load(tmp_path, "bert")
    service = EmbedService(lambda: Part("m", lambda: model))
    loaded = service.embedding()
    assert loaded is not None
    service.close()
    with pytest.raises(Unavailable):
        loaded.start(model.passes(ITEMS), len(ITEMS), model.dimension)
    service.close()  # twice is once
