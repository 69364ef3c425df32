"""What /metrics and /fit say of the models beside the chat model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from tests.api.fronts import Front, make_front
from tests.api.speech.fronts import chat_server
from tests.embed.services import tiny_service
from tests.fakes import byte_text_model
from tests.speech.sounds import tone, wav16

Samples = dict[tuple[str, str], float]


def samples(text: str) -> Samples:
    """Values by name and `kind`."""
    return {
        (sample.name, sample.labels.get("kind", "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def scrape(front: Front) -> Samples:
    return samples((await front.get("/metrics")).text)


async def test_embeddings_and_reranking(tmp_path: Path) -> None:
    service = tiny_service(tmp_path)
    try:
        front = make_front(embed=service)
        idle = await scrape(front)
        fit = (await front.get("/fit")).json()["report"]
        for kind in ("embedding", "rerank"):  # nothing is loaded by looking
            assert idle["stoker_encoder_resident", kind] == idle["stoker_encoder_bytes", kind] == 0
        assert fit["encoder_bytes"] == 0

        assert (await front.post("/v1/embeddings", {"input": ["w1", "w2", "w3"]})).status_code == 200
        assert (await front.post("/v1/embeddings", {"input": "w1"})).status_code == 200
        busy = await scrape(front)
        assert busy["stoker_encoder_requests_total", "embedding"] == 2
        assert busy["stoker_encoder_items_total", "embedding"] == 4
        assert busy["stoker_encoder_requests_waiting", "embedding"] == 0
        assert busy["stoker_encoder_resident", "embedding"] == 1
        assert busy["stoker_encoder_resident", "rerank"] == 0

        loaded = service.embedding()
        assert loaded is not None
        num_bytes = loaded.model.encoder.nbytes
        assert num_bytes > 0
        assert busy["stoker_encoder_bytes", "embedding"] == num_bytes
        fitted = (await front.get("/fit")).json()["report"]
        assert fitted["encoder_bytes"] == num_bytes
        assert fitted["total_bytes"] == fit["total_bytes"] + num_bytes
    finally:
        service.close()


async def test_an_encoder_served_alone_is_counted_once(tmp_path: Path) -> None:
    service = tiny_service(tmp_path)
    try:
        service.embedding()
        front = make_front(text=replace(byte_text_model(), id="tiny/embedding"), embed=service)
        assert (await front.get("/fit")).json()["report"]["encoder_bytes"] == 0
    finally:
        service.close()


async def test_speech() -> None:
    server = chat_server()
    before = samples((await server.get("/metrics")).text)
    assert before["stoker_transcriptions_total", ""] == before["stoker_speech_model_resident", ""] == 0
    opened = await server.post("/v1/audio/sessions")
    assert opened.status_code == 200
    during = samples((await server.get("/metrics")).text)
    assert during["stoker_transcription_sessions", ""] == 1
    assert during["stoker_speech_model_resident", ""] == 1
    assert during["stoker_speech_model_loads_total", ""] == 1
    async with server.client() as client:
        await client.delete(f"/v1/audio/sessions/{opened.json()['id']}")
    assert (await server.transcribe(wav16(tone(0.5)))).status_code == 200
    after = samples((await server.get("/metrics")).text)
    assert after["stoker_transcription_sessions", ""] == 0
    assert after["stoker_transcriptions_total", ""] >= 1  # the session is counted when its thread ends


async def test_parts_that_are_not_served_are_left_out() -> None:
    names = {name for name, _ in await scrape(make_front())}
    assert not any(
        name.startswith(("stoker_encoder", "stoker_transcription", "stoker_speech")) for name in names
    )
