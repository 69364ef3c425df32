"""The media parts of a conversation: checked before anything else is made of them.

A model that takes no media refuses them afterwards, so nothing is fetched for it.
"""

from __future__ import annotations

from typing import Any

from stoker.api.fields import invalid
from stoker.api.media.data_url import decode_data_url
from stoker.chat.messages import MEDIA_PARTS


def check_media(messages: Any, *, allow_private: bool) -> None:
    """Raises InvalidRequest for a part without a source, for data that is not base64 or too large, and for
    a URL that the policy on destinations refuses. Anything that is no media part is left alone."""
    for number, message in enumerate(messages if isinstance(messages, list) else ()):
        content = message.get("content") if isinstance(message, dict) else None
        for place, part in enumerate(content if isinstance(content, list) else ()):
            kind = part.get("type") if isinstance(part, dict) else None
            if isinstance(kind, str) and kind in MEDIA_PARTS:
                _check_part(part, kind, f"messages[{number}].content[{place}]", allow_private)


def _check_part(part: dict[str, Any], name: str, at: str, allow_private: bool) -> None:
    # Imports the HTTP client, which a server without media in its requests never needs.
    from stoker.api.media.fetch import MAX_BYTES, MediaFetcher

    kind = MEDIA_PARTS[name]
    url, data = _source(part, name)
    if data is not None:
        url = f"data:;base64,{data}"
    if url is None:
        raise invalid(at, f"{at} must have a url or base64 data")
    if url[:5].lower() == "data:":
        decode_data_url(url, kind, MAX_BYTES[kind])
    else:
        MediaFetcher(allow_private).check(url, kind)


def _source(part: dict[str, Any], name: str) -> tuple[str | None, str | None]:
    """(url, base64 data), in the part itself or in the object under its type's name."""
    inner = part.get(name)
    if isinstance(inner, str):  # {"type": "input_image", "input_image": URL} and its like
        return inner, None
    for place in (inner, part.get("image_url"), part):
        if isinstance(place, str):
            return place, None
        if isinstance(place, dict):
            for key in ("url", "data"):
                if isinstance(found := place.get(key), str):
                    return (found, None) if key == "url" else (None, found)
    return None, None
