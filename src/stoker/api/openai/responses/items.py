"""Input items of a request: given ids, then turned into messages of a chat.

    {"role": ..., "content": ...}  {"type": "function_call", ...}  {"type": "function_call_output", ...}
    {"type": "reasoning", ...}

A reply comes back as several items (thought, text, calls) that belong to one assistant turn.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any
from uuid import uuid4

from stoker.api.fields import invalid
from stoker.api.openai.responses.content import content_of

Item = dict[str, Any]
Message = dict[str, Any]

_ID_PREFIXES = {"function_call": "fc", "function_call_output": "fco", "reasoning": "rs"}
_SYSTEM_ROLES = ("system", "developer")
_SEPARATOR = "\n\n"


def read_items(value: Any) -> list[Item]:
    """The items of `input`, each with an id. A string is one user message."""
    if value is None:
        return []
    if isinstance(value, str):
        value = [{"role": "user", "content": [{"type": "input_text", "text": value}]}]
    if not isinstance(value, list):
        raise invalid("input", "input must be a string or an array of items")
    return [_with_id(item, f"input[{number}]") for number, item in enumerate(value)]


def _with_id(item: Any, at: str) -> Item:
    if not isinstance(item, dict):
        raise invalid(at, f"{at} must be an object")
    kind = "message" if item.get("type") is None else item["type"]
    if not isinstance(kind, str):
        raise invalid(f"{at}.type", f"{at}.type must be a string")
    if kind == "item_reference":
        # Leaving it out would drop a part of the conversation without a word.
        raise invalid(at, f"{at}: item_reference is not supported; send the item or previous_response_id")
    given = item.get("id")
    id = given if isinstance(given, str) and given else new_id(_ID_PREFIXES.get(kind, "msg"))
    return {**item, "id": id, "type": kind}


def new_id(prefix: str) -> str:
    return f"{prefix}_{uuid4().hex[:24]}"


def to_messages(instructions: str | None, items: list[Item]) -> list[Message]:
    """Chat messages. Raises InvalidRequest naming the item.

    Instructions and the system items at the start become one leading system message. Later ones
    stay in their place, so that what is before them keeps its tokens; the template's shaping fits
    them in.
    """
    system = [instructions] if instructions else []
    messages: list[Message] = []
    for number, item in enumerate(items):
        at = f"input[{number}]"
        role = item.get("role")
        if isinstance(role, str) and role in _SYSTEM_ROLES and not messages:
            content = content_of(item.get("content"), f"{at}.content")
            if not isinstance(content, str):
                raise invalid(f"{at}.content", f"{at}.content must be text")
            system.append(content)
        else:
            _convert(item, at, messages)
    if leading := _SEPARATOR.join(text for text in system if text):
        messages.insert(0, {"role": "system", "content": leading})
    if not messages:
        raise invalid("input", "input holds nothing to reply to")
    return messages


def _convert(item: Item, at: str, messages: list[Message]) -> None:
    kind, role = item["type"], item.get("role")
    if kind == "function_call":
        _add_to_reply(messages, {"tool_calls": [_call(item, at)]})
    elif kind == "function_call_output":
        messages.append(_output(item, at))
    elif kind == "reasoning":
        if thought := _thought(item):
            _add_to_reply(messages, {"reasoning_content": thought})
    elif role == "assistant":
        _add_to_reply(messages, {"content": content_of(item.get("content"), f"{at}.content")})
    elif isinstance(role, str):
        role = "system" if role in _SYSTEM_ROLES else "user"
        messages.append({"role": role, "content": content_of(item.get("content"), f"{at}.content")})
    elif kind == "message":
        raise invalid(f"{at}.role", f"{at}.role must be a string")
    # Anything else is a hosted tool's trace, which says nothing to a local model.


def _add_to_reply(messages: list[Message], news: Message) -> None:
    """Adds to the assistant turn at the end, or begins one. A thought, or text behind a call,
    begins a new one."""
    last = messages[-1] if messages and messages[-1]["role"] == "assistant" else None
    begins = last is None or "reasoning_content" in news or ("content" in news and "tool_calls" in last)
    if last is None or begins:
        last = {"role": "assistant", "content": ""}
        messages.append(last)
    if "tool_calls" in news:
        last["tool_calls"] = [*last.get("tool_calls", []), *news["tool_calls"]]
    elif "content" in news and last["content"]:
        last["content"] = f"{last['content']}\n{news['content']}"
    else:
        last |= news


def _call(item: Item, at: str) -> dict[str, Any]:
    id, name, arguments = item.get("call_id"), item.get("name"), item.get("arguments")
    if not isinstance(id, str) or not isinstance(name, str):
        raise invalid(at, f"{at} must have a call_id and a name string")
    if not isinstance(arguments, str):
        raise invalid(f"{at}.arguments", f"{at}.arguments must be a string")
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _output(item: Item, at: str) -> Message:
    id, output = item.get("call_id"), item.get("output")
    if not isinstance(id, str):
        raise invalid(f"{at}.call_id", f"{at}.call_id must be a string")
    if isinstance(output, list) and output and all(_is_part(part) for part in output):
        output = content_of(output, f"{at}.output")
    elif not isinstance(output, str):
        output = json.dumps(output, ensure_ascii=False)
    return {"role": "tool", "tool_call_id": id, "content": output}


def _is_part(value: Any) -> bool:
    return isinstance(value, dict) and str(value.get("type", "")).startswith("input_")


def _thought(item: Item) -> str:
    """What was thought: the content, else the summary, else what we put into the opaque field."""
    for name in ("content", "summary"):
        parts = item.get(name)
        texts = (
            [part.get("text") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
        )
        if found := [text for text in texts if isinstance(text, str) and text]:
            return "\n".join(found)
    return decode_thought(item.get("encrypted_content"))


def encode_thought(thought: str) -> str:
    """`encrypted_content`, for clients that keep no other state. A local server has no one to hide
    it from: it is only encoded."""
    return base64.urlsafe_b64encode(thought.encode()).decode()


def decode_thought(value: Any) -> str:
    """ "" for what is not ours."""
    try:
        return base64.urlsafe_b64decode(value).decode() if isinstance(value, str) else ""
    except (ValueError, binascii.Error):
        return ""
