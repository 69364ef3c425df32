"""One-shot transcription: every field, both encodings, every format, every refusal."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest
from tests.api.speech.fronts import TRANSCRIPTIONS, SpeechServer, chat_server, error
from tests.speech.fakes import FakeWhisper
from tests.speech.sounds import RATE, encoded, tone, wav16

from stoker.api import ApiSettings
from stoker.api.speech import multipart, upload
from stoker.speech.errors import SpeechUnavailable
from stoker.speech.service import SpeechService

WAV = wav16(tone(1.0))
BASE64 = base64.b64encode(WAV).decode()


@pytest.fixture
def server() -> SpeechServer:
    return chat_server()


async def test_the_plainest_request(server: SpeechServer) -> None:
    response = await server.transcribe(WAV)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert set(body) == {"text", "mlx_bun"}
    assert body["text"] == "Hello there."
    facts = body["mlx_bun"]
    assert set(facts) == {"model", "language", "duration", "timings"}
    assert (facts["model"], facts["language"], facts["duration"]) == ("tiny/whisper", "en", 1.0)
    assert set(facts["timings"]) == {"load_ms", "transcribe_ms", "total_ms"}
    assert facts["timings"]["load_ms"] > 0
    assert response.headers["x-mlx-bun-language"] == "en"
    assert json.loads(response.headers["x-mlx-bun-timings"]) == facts["timings"]
    options = server.model.takes[0].options
    assert options.task == "transcribe"
    assert options.temperatures == (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    assert server.model.takes[0].num_samples == RATE


async def test_translation(server: SpeechServer) -> None:
    response = await server.transcribe(WAV, "/v1/audio/translations", response_format="verbose_json")
    assert response.json()["task"] == "translate"
    assert server.model.takes[0].options.task == "translate"


async def test_parts_that_state_their_types(server: SpeechServer) -> None:
    """As Open WebUI sends them: a charset on the field, and a file that does not say it is sound."""
    parts = {
        "model": (None, b"whisper-base", "text/plain; charset=utf-8"),
        "language": (None, b"fr", "text/plain; charset=utf-8"),
        "file": ("take.wav", WAV, "application/octet-stream"),
    }
    response = await server.post(TRANSCRIPTIONS, files=parts)
    assert response.json()["text"] == "Hello there."
    assert server.model.takes[0].options.language == "fr"
    assert server.model.takes[0].num_samples == RATE


@pytest.mark.parametrize(
    "text", [BASE64, "data:audio/wav;base64," + BASE64, "\n".join((BASE64[:76], BASE64[76:]))]
)
@pytest.mark.parametrize("place", ["file", "audio", "input_audio"])
async def test_json(server: SpeechServer, text: str, place: str) -> None:
    body: dict[str, Any] = {place: {"data": text} if place == "input_audio" else text}
    response = await server.post(TRANSCRIPTIONS, json=body)
    assert response.json()["text"] == "Hello there."


async def test_verbose_json_with_words(server: SpeechServer) -> None:
    response = await server.post(
        TRANSCRIPTIONS,
        json={"file": BASE64, "response_format": "verbose_json", "timestamp_granularities": ["word"]},
    )
    body = response.json()
    assert (body["task"], body["language"], body["duration"]) == ("transcribe", "en", 1.0)
    (segment,) = body["segments"]
    assert segment["text"] == " Hello there."
    assert segment["tokens"] == [50364, 2425, 50414]
    assert (segment["id"], segment["seek"], segment["start"], segment["end"]) == (0, 0, 0.0, 1.0)
    assert {"temperature", "avg_logprob", "compression_ratio", "no_speech_prob"} < set(segment)
    assert body["words"] == segment["words"]
    assert [word["word"] for word in body["words"]] == [" Hello", " there."]
    times = [time for word in body["words"] for time in (word["start"], word["end"])]
    assert times == sorted(times)
    assert times[-1] <= 1.0


@pytest.mark.parametrize("name", ["timestamp_granularities[]", "timestamp_granularities"])
@pytest.mark.parametrize("values", [["word"], ["segment"], ["segment", "word"], []])
async def test_granularities_in_a_form(server: SpeechServer, name: str, values: list[str]) -> None:
    response = await server.transcribe(WAV, response_format="verbose_json", **{name: values})
    body = response.json()
    assert body["segments"]
    assert ("words" in body) == ("word" in values)
    assert ("words" in body["segments"][0]) == ("word" in values)


@pytest.mark.parametrize("format", ["json", "text", "srt", "vtt"])
async def test_words_need_verbose_json(server: SpeechServer, format: str) -> None:
    fields = {"timestamp_granularities[]": "word", "response_format": format}
    message = error(await server.transcribe(WAV, **fields))
    assert message == "timestamp_granularities[]=word requires response_format=verbose_json"
    fields["timestamp_granularities[]"] = "segment"
    assert (await server.transcribe(WAV, **fields)).status_code == 200


@pytest.mark.parametrize(
    ("format", "kind", "body"),
    [
        ("text", "text/plain; charset=utf-8", "Hellö there.\n"),
        ("srt", "application/x-subrip; charset=utf-8", "1\n00:00:00,000 --> 00:00:01,000\nHellö there.\n\n"),
        ("vtt", "text/vtt; charset=utf-8", "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\nHellö there.\n\n"),
    ],
)
async def test_text_formats_are_bare(format: str, kind: str, body: str) -> None:
    response = await chat_server(FakeWhisper([" Hellö there."])).transcribe(WAV, response_format=format)
    assert response.headers["content-type"] == kind
    assert response.content.decode() == body
    assert "x-mlx-bun-timings" in response.headers
    assert response.headers["x-mlx-bun-language"] == "en"


async def test_options_reach_the_model(server: SpeechServer) -> None:
    body = {
        "file": BASE64,
        "language": "german",
        "prompt": "Names: Ada.",
        "temperature": 0,
        "beam_size": 5,
        "vocabulary": ["Ada", " Kubernetes "],
        "condition_on_previous_text": False,
        "no_speech_threshold": 0.3,
        "without_timestamps": True,
        "faithful": True,
        "audio_ctx": 512,
    }
    response = await server.post(TRANSCRIPTIONS, json=body)
    options = server.model.takes[0].options
    assert (options.language, options.initial_prompt) == ("de", "Names: Ada.")
    assert (options.temperatures, options.beam_size, options.audio_ctx) == ((0.0,), 5, 512)
    assert options.vocabulary == ("Ada", "Kubernetes")
    assert (options.condition_on_previous_text, options.without_timestamps, options.faithful) == (
        False,
        True,
        True,
    )
    assert options.no_speech_threshold == 0.3
    vocabulary = response.json()["mlx_bun"]["vocabulary"]
    assert vocabulary == {
        "included": ["Ada", "Kubernetes"],
        "omitted": [],
        "token_count": 5,
        "token_budget": 223,
    }


async def test_form_values_are_parsed(server: SpeechServer) -> None:
    fields = {
        "temperature": "0.5",
        "vocabulary": "Ada, Kubernetes ,,",
        "condition_on_previous_text": "0",
        "without_timestamps": "TRUE",
        "beam_size": "",
        "no_speech_threshold": "abc",
        "faithful": "maybe",
        "stream": "false",
        "unknown": "field",
    }
    assert (await server.transcribe(WAV, **fields)).status_code == 200
    options = server.model.takes[0].options
    assert options.temperatures == (0.5,)
    assert options.vocabulary == ("Ada", "Kubernetes")
    assert (options.condition_on_previous_text, options.without_timestamps) == (False, True)
    assert (options.beam_size, options.no_speech_threshold, options.faithful) == (1, 0.6, False)


async def test_a_term_per_part(server: SpeechServer) -> None:
    await server.transcribe(WAV, **{"vocabulary[]": ["Ada, Countess", "Kubernetes"]})
    assert server.model.takes[0].options.vocabulary == ("Ada, Countess", "Kubernetes")


BAD = [
    ("response_format", "xml", "response_format must be one of json, verbose_json, text, srt, vtt"),
    ("temperature", 1.5, "temperature must be in [0, 1]"),
    ("temperature", -0.1, "temperature must be in [0, 1]"),
    ("beam_size", 0, "beam_size must be an integer in [1, 16]"),
    ("beam_size", 17, "beam_size must be an integer in [1, 16]"),
    ("beam_size", 2.5, "beam_size must be an integer in [1, 16]"),
    ("vad_threshold", 0, "vad_threshold must be in (0, 1)"),
    ("vad_threshold", 1, "vad_threshold must be in (0, 1)"),
    ("audio_ctx", 63, "audio_ctx must be an integer in [64, 1500]"),
    ("audio_ctx", 1501, "audio_ctx must be an integer in [64, 1500]"),
    ("timestamp_granularities", "letter", "timestamp_granularities must hold segment or word"),
    ("vad_min_speech_ms", -1, "vad_min_speech_ms must be at least 0"),
]


@pytest.mark.parametrize(("name", "value", "message"), BAD)
async def test_bad_fields(server: SpeechServer, name: str, value: Any, message: str) -> None:
    assert error(await server.post(TRANSCRIPTIONS, json={"file": BASE64, name: value})) == message
    assert error(await server.transcribe(WAV, **{name: str(value)})) == message
    assert (
        error(await server.post(TRANSCRIPTIONS, json={"file": BASE64, name: value, "stream": True}))
        == message
    )
    assert not server.model.takes


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("language", 5),
        ("prompt", ["x"]),
        ("temperature", "0.5"),
        ("temperature", True),
        ("beam_size", "5"),
        ("vocabulary", [1]),
        ("vocabulary", {"a": 1}),
        ("stream", "yes"),
        ("vad", 1),
        ("no_speech_threshold", "x"),
        ("timestamp_granularities", {"word": True}),
        ("timestamp_granularities", [["word"]]),
        ("response_format", ["json"]),
        ("response_format", {"type": "json"}),
        ("audio_ctx", 10**400),
    ],
)
async def test_wrong_types_in_json(server: SpeechServer, name: str, value: Any) -> None:
    assert name in error(await server.post(TRANSCRIPTIONS, json={"file": BASE64, name: value}))


async def test_beams_need_temperature_0(server: SpeechServer) -> None:
    fields = {"beam_size": 5, "temperature": 0.4}
    assert error(await server.transcribe(WAV, **fields)) == "beam_size requires temperature 0"
    assert (await server.transcribe(WAV, beam_size=1, temperature=0.4)).status_code == 200


@pytest.mark.parametrize("terms", [["x"] * 8193, ["x" * (16 * 1024 + 1)]])
async def test_too_much_vocabulary(server: SpeechServer, terms: list[str]) -> None:
    message = error(await server.post(TRANSCRIPTIONS, json={"file": BASE64, "vocabulary": terms}))
    assert message == "vocabulary: at most 8192 terms of at most 16 KiB each"
    most = ["x"] * 8191 + ["x" * 16 * 1024]
    assert (await server.post(TRANSCRIPTIONS, json={"file": BASE64, "vocabulary": most})).status_code == 200


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("en", "en"),
        ("EN", "en"),
        ("English", "en"),
        ("en-US", "en"),
        ("zh-CN", "zh"),
        ("jv", "jw"),
        ("auto", None),
        ("", None),
        (None, None),
    ],
)
async def test_languages(server: SpeechServer, given: str | None, meant: str | None) -> None:
    response = await server.post(TRANSCRIPTIONS, json={"file": BASE64, "language": given})
    assert server.model.takes[0].options.language == meant
    assert response.json()["mlx_bun"]["language"] == (meant or "en")


@pytest.mark.parametrize("given", ["xx", "klingon", "e", "123", "en us de"])
async def test_unknown_languages(server: SpeechServer, given: str) -> None:
    message = error(await server.transcribe(WAV, language=given))
    assert message.startswith(f"unsupported language: {given}")
    assert "de" in message


async def test_a_language_only_the_checkpoint_refuses(server: SpeechServer) -> None:
    assert error(await server.transcribe(WAV, language="cantonese")) == "unsupported language: yue"


async def test_missing_and_empty_uploads(server: SpeechServer) -> None:
    form = await server.post(TRANSCRIPTIONS, files={"other": ("x", WAV)})
    assert error(form) == "`file` (audio upload) is required"
    assert error(await server.transcribe(b"")) == "empty audio upload"
    for value in (None, 5, "***", "data:audio/wav,plain", [], "A"):
        body = {} if value is None else {"file": value}
        message = error(await server.post(TRANSCRIPTIONS, json=body))
        assert message == "`file` must be base64 audio (optionally a data: URL)"
    for value in ("", "data:audio/wav;base64,"):
        assert error(await server.post(TRANSCRIPTIONS, json={"file": value})) == "empty audio upload"


async def test_other_content_types(server: SpeechServer) -> None:
    for kind in ("audio/wav", "text/plain", "application/x-www-form-urlencoded", ""):
        response = await server.post(TRANSCRIPTIONS, content=WAV, headers={"content-type": kind})
        assert error(response, 415) == "content-type must be multipart/form-data or application/json"


BOUNDARY = {"content-type": "multipart/form-data; boundary=xyz"}
DISPOSITION = b'Content-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no form at all",
        b"--xyz\r\n" + DISPOSITION + WAV,
        b"--xyz\r\n\r\nno disposition\r\n--xyz--\r\n",
        b"--xyz\r\nContent-Disposition: form-data\r\n\r\nno name\r\n--xyz--\r\n",
        b"--xyz\r\n" + b"X: " + b"y" * 10_000 + b"\r\n\r\n\r\n--xyz--\r\n",
        b"--xyz\r\n" + DISPOSITION + WAV + b"\r\n--xyz\r\n" + DISPOSITION + WAV + b"\r\n--xyz--\r\n",
        b'--xyz\r\nContent-Disposition: form-data; name="prompt"\r\n\r\n\xff\xfe\r\n--xyz--\r\n',
    ],
)
async def test_malformed_forms(server: SpeechServer, body: bytes) -> None:
    error(await server.post(TRANSCRIPTIONS, content=body, headers=BOUNDARY))
    assert (await server.transcribe(WAV)).status_code == 200


async def test_a_form_without_a_boundary(server: SpeechServer) -> None:
    response = await server.post(
        TRANSCRIPTIONS, content=b"x", headers={"content-type": "multipart/form-data"}
    )
    assert "boundary" in error(response)


async def test_bounds_on_forms(server: SpeechServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multipart, "MAX_FIELD_BYTES", 1000)
    assert "larger than 1000 bytes" in error(await server.transcribe(WAV, prompt="x" * 1001))
    monkeypatch.setattr(multipart, "MAX_PARTS", 3)
    assert "more than 3 parts" in error(await server.transcribe(WAV, a="1", b="2", c="3"))
    monkeypatch.setattr(upload, "MAX_AUDIO_BYTES", 5000)
    assert error(await server.transcribe(WAV)) == "the audio is larger than 5000 bytes"
    assert (
        error(await server.post(TRANSCRIPTIONS, json={"file": BASE64}))
        == "the audio is larger than 5000 bytes"
    )


async def test_the_operators_limit_on_bodies() -> None:
    server = chat_server(settings=ApiSettings(max_audio_body_bytes=10_000))
    response = await server.transcribe(WAV)
    assert response.status_code == 413
    assert not server.model.takes


async def test_a_large_upload_goes_to_disk(server: SpeechServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multipart, "MEMORY_BYTES", 1000)
    assert (await server.transcribe(WAV)).json()["text"] == "Hello there."


async def test_bytes_decide_not_names(server: SpeechServer) -> None:
    mp3 = encoded(tone(1.0), "mp3", "libmp3lame", 44_100)
    for name, kind in (("a.wav", "audio/wav"), ("a", "application/octet-stream"), ("a.txt", "text/plain")):
        response = await server.post(TRANSCRIPTIONS, files={"file": (name, mp3, kind)})
        assert response.json()["text"] == "Hello there."


async def test_undecodable_and_too_short(server: SpeechServer) -> None:
    assert error(await server.transcribe(b"This is text.")).startswith("undecodable audio: ")
    assert error(await server.transcribe(wav16(tone(0.05)))) == "audio is shorter than 0.1 s"
    assert error(await server.transcribe(b"This is text.", stream="true")).startswith("undecodable audio: ")


@pytest.mark.parametrize("vad", ["true", "false"])
async def test_silent_clips(vad: str) -> None:
    server = chat_server(FakeWhisper([""]))
    noise = np.random.default_rng(1).standard_normal(5 * RATE) * 1e-4
    for sound in (np.zeros(5 * RATE), noise, np.zeros(1600)):
        response = await server.transcribe(wav16(sound), vad=vad, response_format="verbose_json")
        assert response.status_code == 200
        assert response.json()["text"] == ""
        if vad == "true":
            assert response.json()["segments"] == []
            assert response.json()["mlx_bun"]["vad"] == {"speech": False, "segments": []}
            assert "vad_ms" in response.json()["mlx_bun"]["timings"]
            assert not server.model.takes
    for format, body in (("text", "\n"), ("srt", ""), ("vtt", "WEBVTT\n\n")):
        response = await server.transcribe(wav16(np.zeros(RATE)), vad=vad, response_format=format)
        if vad == "true":
            assert response.text == body


async def test_no_checkpoint() -> None:
    def find() -> Any:
        raise SpeechUnavailable("no Whisper model; stoker get whisper-base, or --whisper-model")

    server = chat_server(service=SpeechService(find))
    for response in (
        await server.transcribe(WAV),
        await server.transcribe(WAV, stream="true"),
        await server.transcribe(WAV, "/v1/audio/translations"),
        await server.post(TRANSCRIPTIONS, json={"file": BASE64}),
        await server.post("/v1/audio/sessions"),
    ):
        assert "stoker get" in error(response, 503)


async def test_missing_vad_weights(tmp_path: Any) -> None:
    server = chat_server(vad_weights=tmp_path / "none.jit")
    assert "--vad-model" in error(await server.transcribe(WAV, vad="true"), 503)
    assert (await server.transcribe(WAV)).status_code == 200


async def test_a_failure_is_a_500() -> None:
    server = chat_server(FakeWhisper(fail_in_window=0))
    assert error(await server.transcribe(WAV), 500) == "transcription failed: the fake was told to fail"


async def test_a_server_without_speech() -> None:
    from tests.api.fronts import make_front

    response = await make_front().post(TRANSCRIPTIONS, {"file": BASE64})
    assert error(response, 503)
