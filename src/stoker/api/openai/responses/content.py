"""The `content` of an input item: a string, or parts of text and media."""

from __future__ import annotations

from typing import Any

from stoker.api.as_chat import Part, joined
from stoker.api.fields import invalid

Content = str | list[Part]

_TEXTS = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}


def content_of(value: Any, at: str) -> Content:
    """Text alone as one string, joined by newlines; with media the parts of a chat message."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise invalid(at, f"{at} must be a string or an array of content parts")
    return joined([_part(part, f"{at}[{number}]") for number, part in enumerate(value)])


def _part(part: Any, at: str) -> Part:
    if not isinstance(part, dict) or not isinstance(part.get("type"), str):
        raise invalid(at, f"{at} must be an object with a type")
    kind = part["type"]
    if kind in _TEXTS:
        text = part.get(_TEXTS[kind])
        if not isinstance(text, str):
            raise invalid(f"{at}.{_TEXTS[kind]}", f"{at}.{_TEXTS[kind]} must be a string")
        return {"type": "text", "text": text}
    if kind == "input_image":
        return _image(part, at)
    if kind == "input_audio":
        return {"type": "input_audio", "input_audio": part.get("input_audio")}
    raise invalid(f"{at}.type", f"{at}.type must be one of 'input_text', 'output_text', 'input_image'")


def _image(part: dict[str, Any], at: str) -> Part:
    url = part.get("image_url")
    if isinstance(url, dict):  # the chat protocol's spelling
        url = url.get("url")
    if not isinstance(url, str):
        raise invalid(f"{at}.image_url", f"{at}.image_url must be a string: this server stores no files")
    return {"type": "image_url", "image_url": {"url": url}}
