"""Media parts are checked before a text-only model refuses them, in every protocol; nothing is fetched."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.fronts import Front, make_front

from stoker.api import ApiSettings

GIF = "R0lGODlhAQABAAAAACw="
NO_VISION = "model has no vision sidecar"
REJECTED = "prompt build failed: image url rejected: "
PRIVATE = REJECTED + "private addresses are not allowed"


def chat(*parts: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "/v1/chat/completions", {"messages": [{"role": "user", "content": list(parts)}]}


def image(url: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


async def refusal(front: Front, path: str, body: dict[str, Any]) -> str:
    response = await front.post(path, body)
    assert response.status_code == 400
    assert not front.engine.requests
    return str(response.json()["error"]["message"])


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (image(f"data:image/gif;base64,{GIF}"), NO_VISION),
        (image("https://example.com/a.png"), NO_VISION),
        (image("https://no-such-host.invalid/a.png"), NO_VISION),  # names are not looked up for a refusal
        ({"type": "image", "data": GIF}, NO_VISION),
        ({"type": "image_url", "image_url": "https://example.com/a.png"}, NO_VISION),
        (image("data:image/gif,GIF89a"), "prompt build failed: image data url must be base64"),
        (image("DATA:image/gif;base64,####"), "prompt build failed: image data url is not valid base64"),
        ({"type": "image", "data": "#"}, "prompt build failed: image data url is not valid base64"),
        (image("ftp://example.com/a.png"), REJECTED + "only http and https are allowed"),
        (image("file:///etc/passwd"), REJECTED + "only http and https are allowed"),
        (image("http:///a.png"), REJECTED + "it has no host"),
        (image("https://me@example.com/a.png"), REJECTED + "it must not carry a user name"),
        (image("http://localhost/a.png"), PRIVATE),
        (image("http://a.localhost.:8080/"), PRIVATE),
        (image("http://127.0.0.1/a.png"), PRIVATE),
        (image("http://[::1]/a.png"), PRIVATE),
        (image("http://[::ffff:10.0.0.1]/"), PRIVATE),
        (image("http://169.254.169.254/latest"), PRIVATE),
        (image(None), "messages[0].content[0] must have a url or base64 data"),
        (image(7), "messages[0].content[0] must have a url or base64 data"),
        ({"type": "image_url"}, "messages[0].content[0] must have a url or base64 data"),
        (
            {"type": "audio_url", "audio_url": {"url": "http://10.0.0.1/a.wav"}},
            PRIVATE.replace("image", "audio"),
        ),
        (
            {"type": "input_audio", "input_audio": {"data": GIF, "format": "wav"}},
            "model tiny/bytes does not take audio content parts",
        ),
        (
            {"type": "video_url", "video_url": {"url": "https://example.com/a.mp4"}},
            "model tiny/bytes does not take video content parts",
        ),
    ],
)
async def test_chat(front: Front, part: dict[str, Any], message: str) -> None:
    assert await refusal(front, *chat(part)) == message


async def test_video_beside_audio(front: Front) -> None:
    parts = (
        {"type": "video", "data": GIF},
        {"type": "audio", "data": GIF},
    )
    expected = "video and audio content parts cannot be combined"
    assert await refusal(front, *chat(*parts)) == expected


async def test_the_flag_lifts_the_rule_on_destinations_and_no_other() -> None:
    front = make_front(settings=ApiSettings(allow_private_media=True))
    assert await refusal(front, *chat(image("http://127.0.0.1/a.png"))) == NO_VISION
    assert (await refusal(front, *chat(image("ftp://127.0.0.1/a.png")))).startswith(REJECTED)


@pytest.mark.parametrize(
    ("url", "message"), [("https://example.com/a.png", NO_VISION), ("http://10.1.2.3/a.png", PRIVATE)]
)
async def test_the_other_protocols(front: Front, url: str, message: str) -> None:
    block = {"type": "image", "source": {"type": "url", "url": url}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [block]}
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]}
    for messages in (
        [{"role": "user", "content": [block]}],
        [{"role": "user", "content": "x"}, call, {"role": "user", "content": [result]}],
    ):
        body = {"model": "m", "max_tokens": 5, "messages": messages}
        assert await refusal(front, "/v1/messages", body) == message
    item = {"role": "user", "content": [{"type": "input_image", "image_url": url}]}
    assert await refusal(front, "/v1/responses", {"input": [item]}) == message
