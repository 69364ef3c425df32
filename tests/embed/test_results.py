"""Vectors kept from earlier requests: the same to the bit, never another text's, within their memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.api.fronts import Front, make_front
from tests.embed.tiny import make_embedding_model

from stoker.config import resolve
from stoker.embed.model import load_embedding_model
from stoker.embed.packing import Tokens
from stoker.embed.results import ENTRY_BYTES, ResultCache, key_of
from stoker.embed.service import EmbedService, Part
from stoker.fit import prefix_cache_bytes, vector_cache_bytes

KEYS = [key_of(Tokens((number,))) for number in range(8)]
WIDTH = 16
ENTRY = WIDTH * 4 + ENTRY_BYTES


def vector(number: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.full(WIDTH, number, np.float32)


def test_the_least_recently_used_goes_first() -> None:
    cache = ResultCache(3 * ENTRY)
    cache.add({KEYS[number]: vector(number) for number in range(3)})
    assert set(cache.find(KEYS[:1])) == {KEYS[0]}
    cache.add({KEYS[3]: vector(3)})
    assert set(cache.find(KEYS)) == {KEYS[0], KEYS[2], KEYS[3]}
    stats = cache.stats()
    assert (stats.entries, stats.bytes, stats.max_bytes) == (3, 3 * ENTRY, 3 * ENTRY)


def test_what_is_larger_than_the_memory_is_not_kept() -> None:
    for max_bytes in (0, ENTRY - 1):
        cache = ResultCache(max_bytes)
        cache.add({KEYS[0]: vector(0)})
        assert not cache.find(KEYS[:1])
        assert cache.stats().bytes == 0


def test_adding_again_counts_once() -> None:
    cache = ResultCache(10 * ENTRY)
    for _ in range(3):
        cache.add({KEYS[0]: vector(0)})
    assert cache.stats().bytes == ENTRY


def test_keys_are_of_the_whole_sequence() -> None:
    sequences = [(1,), (1, 2), (2, 1), (12,), (1, 0), (256,), (65536,), (1, 2, 3)]
    assert len({key_of(Tokens(ids)) for ids in sequences}) == len(sequences)


def test_the_prompt_caches_memory_is_shared_out() -> None:
    settings = resolve({"prompt_cache": 8.0}, environ={})
    assert vector_cache_bytes(settings) == 128 * 2**20
    assert prefix_cache_bytes(settings) + vector_cache_bytes(settings) == 8 * 2**30
    assert vector_cache_bytes(resolve({"prompt_cache": 0.0}, environ={})) == 0
    alone = resolve({"prompt_cache": 8.0, "embedding_model": "none"}, environ={})
    assert prefix_cache_bytes(alone) == 8 * 2**30


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_embedding_model(tmp_path_factory.mktemp("models") / "embedding")


def serve(folder: Path, result_bytes: int) -> tuple[Front, EmbedService]:
    service = EmbedService(
        lambda: Part("tiny", lambda: load_embedding_model("tiny", folder)), result_bytes=result_bytes
    )
    return make_front(embed=service), service


@pytest.fixture
def caching(folder: Path) -> Iterator[Front]:
    front, service = serve(folder, 1_000_000)
    yield front
    service.close()


@pytest.fixture
def forgetful(folder: Path) -> Iterator[Front]:
    front, service = serve(folder, 0)
    yield front
    service.close()


async def vectors(front: Front, input: Any, **more: Any) -> list[list[float]]:
    response = await front.post("/v1/embeddings", {"input": input, **more})
    assert response.status_code == 200, response.text
    return [row["embedding"] for row in response.json()["data"]]


async def figures(front: Front) -> tuple[int, int, int]:
    """Hits, misses, and texts that were computed."""
    cache = (await front.get("/stats")).json()["embedding_cache"]
    assert front.state.embed is not None
    return cache["hits"], cache["misses"], front.state.embed.stats()["embedding"].items


async def test_a_text_is_computed_once(caching: Front) -> None:
    first = await vectors(caching, ["w1", "w2 w3", "w1"])
    assert first[0] == first[2]
    assert await figures(caching) == (1, 2, 2)
    again = await vectors(caching, ["w2 w3", "w4", "w1"])
    assert (again[0], again[2]) == (first[1], first[0])  # to the bit
    assert await figures(caching) == (3, 3, 3)
    assert await vectors(caching, "w4") == [again[1]]  # nothing to compute at all
    assert await figures(caching) == (4, 3, 3)
    assert caching.state.embed is not None
    assert caching.state.embed.stats()["embedding"].requests == 3


async def test_what_changes_the_vector_is_computed_anew(caching: Front, forgetful: Front) -> None:
    for more in ({}, {"instruction": "w5"}, {"instruction": "w6"}, {"dimensions": 4}, {"dimensions": 9}):
        for _ in range(2):
            (kept,) = await vectors(caching, "w1 w2", **more)
            (cold,) = await vectors(forgetful, "w1 w2", **more)
            assert kept == pytest.approx(cold, abs=1e-6)
    assert await figures(caching) == (7, 3, 3)  # the dimensions are cut from the plain vector
    assert (await figures(forgetful))[2] == 10


async def test_usage_counts_what_was_asked_for(caching: Front) -> None:
    for _ in range(2):
        response = await caching.post("/v1/embeddings", {"input": ["w1 w2", "w1 w2"]})
        assert response.json()["usage"] == {"prompt_tokens": 8, "total_tokens": 8}
