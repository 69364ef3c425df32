"""Fits a valid conversation to one template, so that nothing in it is lost or refused.

Messages come from `messages.py` (checked, text flattened); the findings about the template from
`traits.py`. Templates that take everything get the messages as they are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stoker.chat.template import ChatTemplate
from stoker.chat.traits import Message, TemplateTraits, as_parts, with_empty_content
from stoker.errors import TemplateError

_SEPARATOR = "\n\n"
_SHORT_ID = 9  # characters
_TOOLS_TEXT = """You can call functions. To call one, answer with a JSON object in tool_call tags:
<tool_call>
{{"name": "function name", "arguments": {{"argument name": "value"}}}}
</tool_call>

The functions:
{tools}"""


def render_conversation(
    template: ChatTemplate,
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, Any]] | None = None,
    template_kwargs: Mapping[str, Any] | None = None,
    add_generation_prompt: bool = True,
) -> str:
    """The prompt text. Raises TemplateError with the template's words when it still refuses.

    A system turn after the first position that the template refuses (or drops, or moves to the
    top) becomes the beginning of the next user turn, so that everything before it keeps its tokens
    and its cache entries. The same happens to a leading system turn.
    """
    traits = template.traits(bool(tools))
    extra = template_kwargs or {}
    if tools and not traits.tools:
        messages = with_tools_described(messages, tools)
    refusal: TemplateError | None = None
    for attempt, offered in _attempts(messages, tools, traits):
        try:
            return template.render_with(attempt, offered, add_generation_prompt, extra)
        except TemplateError as error:
            refusal = refusal or error
    assert refusal is not None  # there is a first attempt
    raise refusal


def _attempts(
    messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] | None, traits: TemplateTraits
) -> Iterator[tuple[list[Message], Sequence[Mapping[str, Any]] | None]]:
    """What to render, the best first: the others are for templates that refuse it."""
    shaped = shape(messages, traits)
    yield shaped, tools
    offered = tools
    if tools:
        described = [with_descriptions(tool) for tool in tools]
        for plainer in (described, [without_null(tool) for tool in described]):
            if plainer != list(offered or ()):
                offered = plainer
                yield shaped, offered
    # The probe found late system turns welcome, yet some templates mind their neighbours.
    folded = shape(fold_system_turns(messages, keep_leading=traits.leading_system), traits)
    if folded != shaped:
        yield folded, offered


def shape(messages: Sequence[Message], traits: TemplateTraits) -> list[Message]:
    """The messages in the spelling the template takes. The originals are not changed."""
    shaped = list(messages)
    if not (traits.late_system and traits.leading_system):
        shaped = fold_system_turns(shaped, keep_leading=traits.leading_system)
    shaped = [_shape_calls(message, traits) for message in shaped]
    if traits.short_call_ids:
        shaped = [_with_short_ids(message) for message in shaped]
    if traits.names_in_ids:
        shaped = _with_names_in_ids(shaped)
    if not traits.tool_results:
        shaped = _results_as_user_turns(shaped)
    if traits.text_as_parts:
        shaped = [as_parts(message) for message in shaped]
    return shaped


def with_tools_described(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[Message]:
    """For templates that know no tools: the tools and how to call them, in front of the system text."""
    listed = "\n".join(json.dumps(tool.get("function", tool), ensure_ascii=False) for tool in tools)
    text = _TOOLS_TEXT.format(tools=listed)
    if messages and messages[0]["role"] == "system":
        own = messages[0]["content"]
        return [{**messages[0], "content": _SEPARATOR.join(filter(None, [text, own]))}, *messages[1:]]
    return [{"role": "system", "content": text}, *messages]


def with_descriptions(tool: Mapping[str, Any]) -> dict[str, Any]:
    """The tool with everything that templates read without asking whether it is there."""
    function = dict(tool.get("function", {}))
    function.setdefault("description", "")
    parameters = {"type": "object", **(function.get("parameters") or {})}
    properties = parameters.get("properties") or {}
    parameters["properties"] = {
        key: {"description": "", **value} if isinstance(value, dict) else value
        for key, value in properties.items()
    }
    return {**tool, "function": {**function, "parameters": parameters}}


def without_null(schema: Any) -> Any:
    """Without the type `null`: Hermes' way of writing types goes through a name it does not know letter by
    letter, for ever."""
    if isinstance(schema, list):
        return [without_null(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    plain = {key: without_null(value) for key, value in schema.items()}
    match schema.get("type"):
        case "null":
            del plain["type"]
        case list(names) if "null" in names:
            others = [name for name in names if name != "null"]
            if others:
                plain["type"] = others[0] if len(others) == 1 else others
            else:
                del plain["type"]
    return plain


def _with_names_in_ids(messages: Sequence[Message]) -> list[Message]:
    """Ids as Kimi K2 writes them, `functions.NAME:NUMBER`, counted through the conversation."""
    new_ids: dict[object, str] = {}
    shaped: list[Message] = []
    num_calls = 0
    for message in messages:
        if message.get("tool_calls"):
            calls = []
            for call in message["tool_calls"]:
                given = call.get("id")
                new_ids[given] = f"functions.{call['function']['name']}:{num_calls}"
                calls.append({**call, "id": new_ids[given]})
                num_calls += 1
            message = {**message, "tool_calls": calls}
        elif message.get("tool_call_id") in new_ids:
            message = {**message, "tool_call_id": new_ids[message["tool_call_id"]]}
        shaped.append(message)
    return shaped


def _with_short_ids(message: Message) -> Message:
    """Ids in nine letters and digits: the same for the same id, in calls and in their results."""
    if message.get("tool_calls"):
        calls = [{**call, "id": _short_id(call.get("id"))} for call in message["tool_calls"]]
        return {**message, "tool_calls": calls}
    if "tool_call_id" in message:
        return {**message, "tool_call_id": _short_id(message["tool_call_id"])}
    return message


def _short_id(given: object) -> str:
    text = given if isinstance(given, str) else ""
    if len(text) == _SHORT_ID and text.isascii() and text.isalnum():
        return text
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:_SHORT_ID]


def fold_system_turns(messages: Sequence[Message], keep_leading: bool) -> list[Message]:
    """Moves system text into user turns.

    Into the beginning of the turn behind it when that is a user's. Otherwise to the end of a user
    turn before it, or, behind an assistant or a tool, into a user turn of its own. Where the text
    goes depends on its neighbours only, so later requests of the same conversation repeat it.
    Several system turns at the start become one.
    """
    folded: list[Message] = []
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "system":
            waiting.append(message["content"])
            continue
        if waiting and keep_leading and not folded:
            folded.append({"role": "system", "content": _SEPARATOR.join(waiting)})
        elif waiting and message["role"] == "user":
            message = {**message, "content": _SEPARATOR.join([*waiting, message["content"]])}
        elif waiting:
            _append_user_text(folded, waiting)
        waiting = []
        folded.append(message)
    if waiting and keep_leading and not folded:
        folded.append({"role": "system", "content": _SEPARATOR.join(waiting)})
    elif waiting:
        _append_user_text(folded, waiting)
    return folded


def _append_user_text(messages: list[Message], texts: list[str]) -> None:
    if messages and messages[-1]["role"] == "user":
        messages[-1] = {**messages[-1], "content": _SEPARATOR.join([messages[-1]["content"], *texts])}
    else:
        messages.append({"role": "user", "content": _SEPARATOR.join(texts)})


def _shape_calls(message: Message, traits: TemplateTraits) -> Message:
    calls = message.get("tool_calls")
    if message["role"] != "assistant" or not calls:
        return message
    if not traits.tool_calls:
        return _calls_as_text(message)
    message = {**message, "tool_calls": [_shape_call(call, traits) for call in calls]}
    if message["content"]:
        return message
    return with_empty_content(message, traits.empty_content)


def _shape_call(call: Message, traits: TemplateTraits) -> Message:
    function = call["function"]
    given = function["arguments"]
    mapping = given if isinstance(given, dict) else _parse_arguments(given)
    arguments: object
    if not traits.object_arguments:
        arguments = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    elif mapping is not None:
        arguments = mapping
    elif traits.text_arguments:
        arguments = given
    else:
        # The template walks over a mapping; a model's own broken output is shown under one key.
        arguments = {"arguments": given}
    return {**call, "function": {**function, "arguments": arguments}}


def _parse_arguments(text: str) -> dict[str, Any] | None:
    """The JSON object in `text`, or None when it holds none."""
    if not text.strip():
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _calls_as_text(message: Message) -> Message:
    """For templates that know no tool calls: the calls written out, so that the model sees them."""
    lines = [message["content"]] if message["content"] else []
    for call in message["tool_calls"]:
        function = call["function"]
        given = function["arguments"]
        parsed = given if isinstance(given, dict) else _parse_arguments(given)
        body = {"name": function["name"], "arguments": given if parsed is None else parsed}
        lines.append(f"<tool_call>\n{json.dumps(body, ensure_ascii=False)}\n</tool_call>")
    rest = {key: value for key, value in message.items() if key != "tool_calls"}
    return {**rest, "content": "\n".join(lines)}


def _results_as_user_turns(messages: list[Message]) -> list[Message]:
    """For templates that know no `tool` role: results as the user's words, one turn for several in
    a row and for the user's own words behind them, because such templates often insist on
    alternating roles."""
    shaped: list[Message] = []
    open_turn = False  # the last turn is one of ours
    for message in messages:
        if message["role"] == "tool":
            text = f"<tool_response>\n{message['content']}\n</tool_response>"
            if open_turn:
                _append_user_text(shaped, [text])
            else:
                shaped.append({"role": "user", "content": text})
            open_turn = True
        elif message["role"] == "user" and open_turn:
            _append_user_text(shaped, [message["content"]])
            open_turn = False
        else:
            shaped.append(message)
            open_turn = False
    return shaped
