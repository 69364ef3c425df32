"""Checks a request's `messages` and brings them to one plain form.

The result: role is system, user, assistant or tool; `content` is a string; `tool_calls`, where
present, is a non-empty list with string names and string or object arguments. What a particular
template wants on top of that is `shaping.py`'s work.
"""

from __future__ import annotations

from typing import Any, NoReturn

from stoker.chat.traits import Message
from stoker.errors import InvalidRequest

_ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",  # OpenAI's form of 2023
}
_TEXT_PARTS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
MEDIA_PARTS = {
    "image_url": "image",
    "input_image": "image",
    "image": "image",
    "video_url": "video",
    "video": "video",
    "input_audio": "audio",
    "audio_url": "audio",
    "audio": "audio",
}
# Names for an assistant's earlier thinking; templates read the first, gpt-oss's the second.
_REASONING_FIELDS = ("reasoning_content", "reasoning", "thinking")


def normalize_messages(messages: object, model_id: str = "this model") -> list[Message]:
    """Plain copies of the messages. Raises InvalidRequest naming the place and what belongs there.

    Several text parts are joined by a newline. Keys that are null count as absent.
    """
    if not isinstance(messages, list) or not messages:
        raise InvalidRequest("messages required", param="messages")
    _refuse_media(messages, model_id)
    return [_normalize(message, f"messages[{i}]") for i, message in enumerate(messages)]


def _normalize(message: object, at: str) -> Message:
    if not isinstance(message, dict):
        _fail(at, "must be an object")
    role = message.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        _fail(f"{at}.role", "must be one of " + ", ".join(f"'{name}'" for name in _ROLES))
    plain = {key: value for key, value in message.items() if value is not None}
    plain["role"] = _ROLES[role]
    plain["content"] = _text(message.get("content"), f"{at}.content")
    if plain["role"] == "assistant":
        _normalize_calls(plain, at)
        _normalize_reasoning(plain, at)
    else:
        plain.pop("tool_calls", None)
    return plain


def _text(content: object, at: str) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        _fail(at, "must be a string, null or an array of parts")
    return "\n".join(_part_text(part, f"{at}[{i}]") for i, part in enumerate(content))


def _part_text(part: object, at: str) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        _fail(at, "must be an object with a type")
    kind = part.get("type")
    if not isinstance(kind, str) or kind not in _TEXT_PARTS:
        _fail(f"{at}.type", "must be one of 'text', 'input_text', or a media type the model takes")
    text = part.get(_TEXT_PARTS[kind])
    if not isinstance(text, str):
        _fail(f"{at}.{_TEXT_PARTS[kind]}", "must be a string")
    return text


def _normalize_calls(message: Message, at: str) -> None:
    legacy = message.pop("function_call", None)
    calls = message.pop("tool_calls", None)
    if calls is None and legacy is not None:
        calls = [{"type": "function", "function": legacy}]
    if calls is None:
        return
    if not isinstance(calls, list):
        _fail(f"{at}.tool_calls", "must be an array")
    if calls:
        message["tool_calls"] = [_call(call, f"{at}.tool_calls[{i}]") for i, call in enumerate(calls)]


def _call(call: object, at: str) -> Message:
    if not isinstance(call, dict):
        _fail(at, "must be an object")
    function = call.get("function")
    if not isinstance(function, dict):
        _fail(f"{at}.function", "must be an object")
    if not isinstance(function.get("name"), str):
        _fail(f"{at}.function.name", "must be a string")
    arguments = function.get("arguments")
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, str | dict):
        _fail(f"{at}.function.arguments", "must be a string or an object")
    plain = {key: value for key, value in call.items() if value is not None}
    return {"type": "function", **plain, "function": {**function, "arguments": arguments}}


def _normalize_reasoning(message: Message, at: str) -> None:
    """An explicit `reasoning_content` wins over its aliases, even when it is empty."""
    name = next((name for name in _REASONING_FIELDS if name in message), None)
    if name is None:
        return
    reasoning = message[name]
    if not isinstance(reasoning, str):
        _fail(f"{at}.{name}", "must be a string")
    message["reasoning_content"] = reasoning
    message.setdefault("thinking", reasoning)
    message.pop("reasoning", None)


def _refuse_media(messages: list[Any], model_id: str) -> None:
    """No model here takes media yet; none may answer as if it had not been sent."""
    kinds = {
        MEDIA_PARTS[kind]
        for message in messages
        if isinstance(message, dict) and isinstance(message.get("content"), list)
        for part in message["content"]
        if isinstance(part, dict) and isinstance(kind := part.get("type"), str) and kind in MEDIA_PARTS
    }
    if not kinds:
        return
    if {"video", "audio"} <= kinds:
        raise InvalidRequest("video and audio content parts cannot be combined", param="messages")
    if "image" in kinds:
        raise InvalidRequest("model has no vision sidecar", param="messages")
    kind = kinds.pop()
    raise InvalidRequest(f"model {model_id} does not take {kind} content parts", param="messages")


def _fail(at: str, expected: str) -> NoReturn:
    raise InvalidRequest(f"{at} {expected}", param=at)
