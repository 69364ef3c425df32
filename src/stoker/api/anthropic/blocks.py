"""Content blocks of a request to content parts of a chat message.

    {"type": "text", "text": ...}  {"type": "image", "source": {...}}  {"type": "document", ...}

Blocks that are more than content (tool_use, tool_result, thinking) are conversation.py's.
"""

from __future__ import annotations

from typing import Any

from stoker.api.as_chat import Part
from stoker.api.fields import invalid

_OF_A_TURN = ("tool_use", "tool_result", "thinking", "redacted_thinking")
_AUDIO = ("input_audio", "audio", "audio_url")


def content_parts(content: Any, at: str) -> list[Part]:
    """The chat parts of a string or an array of content blocks."""
    return [part for block, where in each_block(content, at) for part in block_parts(block, where)]


def each_block(content: Any, at: str) -> list[tuple[dict[str, Any], str]]:
    """The blocks of `content` with their places; a string is one text block."""
    if isinstance(content, str):
        return [({"type": "text", "text": content}, at)]
    if not isinstance(content, list):
        raise invalid(at, f"{at} must be a string or an array of content blocks")
    blocks = []
    for number, block in enumerate(content):
        where = f"{at}[{number}]"
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            raise invalid(where, f"{where} must be an object with a type")
        blocks.append((block, where))
    return blocks


def block_parts(block: dict[str, Any], at: str) -> list[Part]:
    kind = block["type"]
    if kind == "image":
        return [_image(block, at)]
    if kind == "document":
        return _document(block, at)
    if kind == "search_result":
        return _search_result(block, at)
    if kind in _AUDIO:
        raise invalid(
            f"{at}.type", f"{at}: this protocol has no audio block; send audio to /v1/chat/completions"
        )
    if kind == "text":
        return [_text_part(block.get("text"), f"{at}.text")]
    if kind in _OF_A_TURN:
        raise invalid(f"{at}.type", f"{at}.type must not be '{kind}' in this place")
    # Unknown blocks of later versions: what text they have, rather than a refusal.
    text = block.get("text")
    return [_text_part(text, at)] if isinstance(text, str) else []


def _text_part(text: Any, at: str) -> Part:
    if not isinstance(text, str):
        raise invalid(at, f"{at} must be a string")
    return {"type": "text", "text": text}


def _image(block: dict[str, Any], at: str) -> Part:
    source = _source(block, at)
    kind, where = source.get("type"), f"{at}.source"
    if kind == "url":
        url = source.get("url")
        if not isinstance(url, str):
            raise invalid(f"{where}.url", f"{where}.url must be a string")
    elif kind == "base64":
        data, media_type = source.get("data"), source.get("media_type", "image/png")
        if not isinstance(data, str) or not isinstance(media_type, str):
            raise invalid(where, f"{where} must have a data and a media_type string")
        url = f"data:{media_type};base64,{data}"
    else:
        raise invalid(f"{where}.type", f"{where}.type must be one of 'base64', 'url'")
    return {"type": "image_url", "image_url": {"url": url}}


def _document(block: dict[str, Any], at: str) -> list[Part]:
    source = _source(block, at)
    kind, where = source.get("type"), f"{at}.source"
    title = block.get("title")
    head = [_text_part(title, f"{at}.title")] if title is not None else []
    if kind == "text":
        return [*head, _text_part(source.get("data"), f"{where}.data")]
    if kind == "content":
        return [*head, *content_parts(source.get("content"), f"{where}.content")]
    # Answering without the document would look like an answer with it.
    raise invalid(
        f"{where}.type", f"{where}.type must be one of 'text', 'content': this server does not read PDF files"
    )


def _search_result(block: dict[str, Any], at: str) -> list[Part]:
    head = [block[name] for name in ("title", "source") if isinstance(block.get(name), str)]
    return [_text_part("\n".join(head), at), *content_parts(block.get("content"), f"{at}.content")]


def _source(block: dict[str, Any], at: str) -> dict[str, Any]:
    source = block.get("source")
    if not isinstance(source, dict):
        raise invalid(f"{at}.source", f"{at}.source must be an object")
    return source
