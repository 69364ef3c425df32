"""`system` and `messages` of a Messages request to messages of a chat.

A user turn's tool results come first, each as a message of its own; the rest of the turn follows.
System turns in the middle stay where they are: the template's shaping folds them so that the prefix
before them keeps its tokens.
"""

from __future__ import annotations

from typing import Any

from stoker.api.anthropic.blocks import block_parts, content_parts, each_block
from stoker.api.as_chat import Part, joined
from stoker.api.fields import invalid

Message = dict[str, Any]

# Claude Code puts a line with a checksum of the request in front of its system prompt. It says
# nothing to a model, and as it differs each time it would keep the prompt cache from ever matching.
_BILLING_LINE = "x-anthropic-billing-header:"


def read_conversation(system: Any, messages: Any) -> list[Message]:
    """Raises InvalidRequest naming the place."""
    if messages is None or messages == []:
        raise invalid("messages", "messages: at least one message is required")
    if not isinstance(messages, list):
        raise invalid("messages", "messages must be an array")
    converted = _system(system)
    for number, message in enumerate(messages):
        at = f"messages[{number}]"
        if not isinstance(message, dict):
            raise invalid(at, f"{at} must be an object")
        for turn in _turns(message, at):
            _append(converted, turn)
    if not converted:
        raise invalid("messages", "messages hold nothing to reply to")
    return converted


def _system(system: Any) -> list[Message]:
    if system is None:
        return []
    texts = []
    for block, at in each_block(system, "system"):
        if block["type"] != "text":
            raise invalid(f"{at}.type", f"{at}.type must be 'text'")
        texts += [part["text"] for part in block_parts(block, at)]
    text = "\n".join(text for text in texts if not text.startswith(_BILLING_LINE))
    return [{"role": "system", "content": text}] if text else []


def _turns(message: dict[str, Any], at: str) -> list[Message]:
    role = message.get("role")
    if not isinstance(role, str):
        raise invalid(f"{at}.role", f"{at}.role must be a string")
    blocks = each_block(message.get("content"), f"{at}.content")
    if role == "assistant":
        return _assistant_turn(blocks)
    if role == "system":
        parts = [part for block, where in blocks for part in block_parts(block, where)]
        return [{"role": "system", "content": joined(parts)}]
    return _user_turns(blocks)


def _user_turns(blocks: list[tuple[dict[str, Any], str]]) -> list[Message]:
    results: list[Message] = []
    parts: list[Part] = []
    for block, at in blocks:
        if block["type"] == "tool_result":
            results.append(_tool_result(block, at))
        else:
            parts += block_parts(block, at)
    rest = [{"role": "user", "content": joined(parts)}] if parts or not results else []
    return [*results, *rest]


def _tool_result(block: dict[str, Any], at: str) -> Message:
    id, content = block.get("tool_use_id"), block.get("content")
    if not isinstance(id, str):
        raise invalid(f"{at}.tool_use_id", f"{at}.tool_use_id must be a string")
    parts = [] if content is None else content_parts(content, f"{at}.content")
    if block.get("is_error") is True:
        # Chat templates have no field for it; without a word the model would take it for a result.
        parts = [{"type": "text", "text": "Error:"}, *parts]
    return {"role": "tool", "tool_call_id": id, "content": joined(parts)}


def _assistant_turn(blocks: list[tuple[dict[str, Any], str]]) -> list[Message]:
    parts: list[Part] = []
    calls: list[dict[str, Any]] = []
    thoughts: list[str] = []
    for block, at in blocks:
        if block["type"] == "tool_use":
            calls.append(_tool_use(block, at))
        elif block["type"] == "thinking":
            thoughts.append(_thought(block, at))
        elif block["type"] != "redacted_thinking":
            parts += block_parts(block, at)
    text = joined(parts)
    if not text and not calls:
        return []
    turn: Message = {"role": "assistant", "content": text}
    if calls:
        turn["tool_calls"] = calls
    if any(thoughts):
        turn["reasoning_content"] = "\n".join(thoughts)  # the template decides which turns keep it
    return [turn]


def _tool_use(block: dict[str, Any], at: str) -> dict[str, Any]:
    id, name, arguments = block.get("id"), block.get("name"), block.get("input")
    if not isinstance(id, str) or not isinstance(name, str):
        raise invalid(at, f"{at} must have an id and a name string")
    if not isinstance(arguments, dict):
        raise invalid(f"{at}.input", f"{at}.input must be an object")
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _thought(block: dict[str, Any], at: str) -> str:
    thought = block.get("thinking")
    if not isinstance(thought, str):
        raise invalid(f"{at}.thinking", f"{at}.thinking must be a string")
    return thought


def _append(messages: list[Message], turn: Message) -> None:
    """The protocol lets one side speak twice in a row and means one turn by it; templates do not."""
    last = messages[-1] if messages else None
    if last is None or last["role"] != turn["role"] or turn["role"] not in ("user", "assistant"):
        messages.append(turn)
    elif "tool_calls" not in last and "tool_calls" not in turn:
        messages[-1] = {**last, **turn, "content": joined([*_parts(last), *_parts(turn)])}
    else:
        messages.append(turn)


def _parts(message: Message) -> list[Part]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
