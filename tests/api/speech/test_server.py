"""The server that only transcribes, unloading, and what the chat server says about transcription."""

from __future__ import annotations

from tests.api.speech.fronts import SESSIONS, chat_server, speech_server
from tests.speech.sounds import tone, wav16

from stoker import __version__

WAV = wav16(tone(1.0))
UNLOAD = "/admin/transcription/unload"
BLOCK = {"resident", "loads", "unloads", "requests", "last_load_ms", "idle_unload_sec"}


async def test_health_and_stats() -> None:
    server = speech_server()
    health = (await server.get("/health")).json()
    assert health["status"] == "ok"
    assert set(health["transcription"]) == BLOCK | {"sessions"}
    assert health["transcription"]["loads"] == 0
    await server.transcribe(WAV)
    await server.post(SESSIONS)
    stats = (await server.get("/stats")).json()
    assert set(stats) == {"model", "transcription", "uptime_s"}
    assert stats["model"] == "tiny/whisper"
    block = stats["transcription"]
    assert (block["loads"], block["unloads"], block["requests"], block["sessions"]) == (2, 1, 1, 1)
    assert block["resident"] is True
    assert block["idle_unload_sec"] == 0
    server.front.sessions.close()


async def test_card_and_models() -> None:
    server = speech_server()
    card = (await server.get("/v1")).json()
    assert (card["name"], card["version"], card["model"], card["mode"]) == (
        "stoker",
        __version__,
        "tiny/whisper",
        "transcription",
    )
    assert "POST /v1/audio/transcriptions" in card["endpoints"]
    (row,) = (await server.get("/v1/models")).json()["data"]
    assert (row["id"], row["object"], row["transcription"], row["resident"]) == (
        "tiny/whisper",
        "model",
        True,
        False,
    )
    assert row["capabilities"] == {"transcription": True, "translation": True, "chat_completions": False}
    one = (await server.get("/v1/models/tiny/whisper")).json()
    assert (one["id"], one["data"]) == ("tiny/whisper", [row])
    assert (await server.get("/v1/models/other")).json()["data"] == []


async def test_everything_else_is_404() -> None:
    server = speech_server()
    for path in ("/v1/chat/completions", "/v1/completions", "/admin/cache/flush"):
        response = await server.post(path, json={})
        assert (response.status_code, response.json()) == (404, {"error": {"message": "not found"}})
    assert (await server.get("/fit")).status_code == 404


async def test_its_documentation() -> None:
    paths = (await speech_server().get("/openapi.json")).json()["paths"]
    assert "/v1/audio/transcriptions" in paths
    assert "/v1/chat/completions" not in paths


async def test_unloading() -> None:
    server = speech_server(idle_unload_s=None)
    nothing = (await server.post(UNLOAD)).json()
    assert set(nothing) == BLOCK | {"unloaded"}
    assert nothing["unloaded"] is False
    await server.transcribe(WAV)
    done = (await server.post(UNLOAD)).json()
    assert (done["unloaded"], done["resident"], done["loads"], done["unloads"]) == (True, False, 1, 1)
    assert done["idle_unload_sec"] is None
    assert done["last_load_ms"] > 0


async def test_an_open_session_is_not_unloaded() -> None:
    server = speech_server(idle_unload_s=60.0)
    id = (await server.post(SESSIONS)).json()["id"]
    answer = (await server.post(UNLOAD)).json()
    assert (answer["unloaded"], answer["resident"]) == (False, True)
    async with server.client() as client:
        await client.delete(f"{SESSIONS}/{id}")
    assert (await server.post(UNLOAD)).json()["unloaded"] is True


async def test_preloaded_weights_stay_for_the_first_take() -> None:
    server = speech_server(idle_unload_s=None)
    server.service.preload()
    assert (await server.get("/health")).json()["transcription"]["resident"] is True
    assert (await server.transcribe(WAV)).json()["mlx_bun"]["timings"]["load_ms"] == 0


async def test_the_chat_server_says_so_in_its_stats_only() -> None:
    server = chat_server()
    assert "transcription" not in (await server.get("/stats")).json()
    await server.transcribe(WAV)
    block = (await server.get("/stats")).json()["transcription"]
    assert (block["requests"], block["sessions"]) == (1, 0)
    assert (await server.get("/health")).content == b'{"status": "ok"}'
