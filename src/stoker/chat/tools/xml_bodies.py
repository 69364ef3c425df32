"""Bodies in which every argument is an element of its own.

<function=NAME><parameter=KEY>VALUE</parameter></function>            Qwen3-Coder, Qwen3.5, Seed
<function name="NAME"><param name="KEY">VALUE</param></function>      MiniCPM
<invoke name="NAME"><parameter name="KEY">VALUE</parameter></invoke>  MiniMax, DeepSeek V3.2
NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>                GLM
"""

from __future__ import annotations

import html
import re
from typing import Any

from stoker.chat.lenient_json import repair_value
from stoker.chat.tools.base import Toolbox
from stoker.chat.tools.blocks import FindEnd
from stoker.chat.tools.call_object import as_object
from stoker.chat.tools.values import dump, typed_value

Calls = list[tuple[str, str]]

_FUNCTION = re.compile(r"<(function|invoke)(?:=|\s+name\s*=\s*)[\"']?([^\"'>\s]+)[\"']?\s*>")
# A value ends at its closing tag when another element (or the end) follows, else where one begins.
_PARAMETER = re.compile(
    r"<(param|parameter)(?:=|\s+name\s*=\s*)[\"']?([^\"'>]+?)[\"']?(\s+string=\"(?:true|false)\")?\s*>"
    r"(.*?)"
    r"(?:</\1\s*>\s*(?=<(?:param|parameter)[=\s]|</(?:function|invoke)|$)|(?=\n<(?:parameter=|param name=))"
    r"|(?=</(?:function|invoke)>\s*$)|$)",
    re.DOTALL,
)
_CDATA = re.compile(r"<!\[CDATA\[(.*?)(?:\]\]>|$)", re.DOTALL)
_GLM_PAIR = re.compile(
    r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)(?:</arg_value>\s*(?=<arg_key>|$)|(?=\s*<arg_key>)|$)",
    re.DOTALL,
)


def read_functions(body: str, toolbox: Toolbox) -> Calls | None:
    """Raw values; one framing newline is taken off each end."""
    return _read(body, toolbox, _framed)


def read_plain_functions(body: str, toolbox: Toolbox) -> Calls | None:
    """Values exactly as they stand between the tags."""
    return _read(body, toolbox, str)


def read_functions_with_entities(body: str, toolbox: Toolbox) -> Calls | None:
    """Values with XML entities and CDATA sections."""
    return _read(body, toolbox, _xml_text)


def _read(body: str, toolbox: Toolbox, decode: Any) -> Calls | None:
    heads = list(_FUNCTION.finditer(body))
    if not heads or body[: heads[0].start()].strip():
        return None
    calls: Calls = []
    masked = _mask_cdata(body)
    starts = list(_FUNCTION.finditer(masked))
    for head, following in zip(starts, [*starts[1:], None], strict=True):
        end = following.start() if following else len(body)
        closing = masked.rfind(f"</{head[1]}>", head.end(), end)
        inner_end = closing if closing >= 0 else end
        arguments = _arguments(
            body[head.end() : inner_end], masked[head.end() : inner_end], head[2], toolbox, decode
        )
        if arguments is None:
            return None
        calls.append((head[2], arguments))
    return calls


def _arguments(inner: str, masked: str, name: str, toolbox: Toolbox, decode: Any) -> str | None:
    if inner.lstrip().startswith("{"):  # Llama's <function=NAME>{...}</function>
        return as_object(repair_value(inner))
    properties = toolbox.properties(name)
    table: dict[str, Any] = {}
    at = 0
    for found in _PARAMETER.finditer(masked):
        if masked[at : found.start()].strip():
            return None
        key = found[2].strip()
        text = decode(inner[found.start(4) : found.end(4)])
        is_text = found[3] is not None and "true" in found[3]
        table[key] = text if is_text else typed_value(text, properties.get(key))
        at = found.end()
    return None if masked[at:].strip() else dump(table)


def _mask_cdata(text: str) -> str:
    """The same length, with nothing in CDATA sections that looks like a tag."""
    return _CDATA.sub(lambda found: re.sub(r"[<>]", "_", found[0]), text)


def _framed(text: str) -> str:
    text = text[1:] if text.startswith("\n") else text.removeprefix("\r\n")
    return text[:-1] if text.endswith("\n") else text


def _xml_text(text: str) -> str:
    parts: list[str] = []
    at = 0
    for section in _CDATA.finditer(text):
        outside = text[at : section.start()]
        parts += [html.unescape(outside) if outside.strip() else "", section[1]]
        at = section.end()
    outside = text[at:]
    if not parts:
        return html.unescape(outside)
    return "".join(parts) + (html.unescape(outside) if outside.strip() else "")


def read_glm(body: str, toolbox: Toolbox) -> Calls | None:
    name, _, _ = body.partition("<arg_key>")
    pairs = body[len(name) :]
    name = name.strip()
    properties = toolbox.properties(name)
    table: dict[str, Any] = {}
    at = 0
    for found in _GLM_PAIR.finditer(pairs):
        if pairs[at : found.start()].strip():
            return None
        key = found[1].strip()
        table[key] = typed_value(found[2], properties.get(key))
        at = found.end()
    return None if pairs[at:].strip() else [(name, dump(table))]


def find_function_end(closer: str, prefix: str = "") -> FindEnd:
    """The first `closer` that follows a closed function: values may hold the closer's text. `prefix` is
    what the family puts before the names of its tags."""
    end = re.compile(rf"</{re.escape(prefix)}(?:function|invoke)\s*>\s*{re.escape(closer)}")

    def find(body: str) -> tuple[int, int] | None:
        found = end.search(_mask_cdata(body))
        return None if found is None else (found.end() - len(closer), found.end())

    return find


def find_bare_function_end(body: str) -> tuple[int, int] | None:
    """The end of one function that no outer tag wraps."""
    end = _mask_cdata(body).find("</function>")
    return None if end < 0 else (end, end + len("</function>"))


def find_glm_end(body: str) -> tuple[int, int] | None:
    closer = "</tool_call>"
    at = body.find(closer)
    while at >= 0:
        before = body[:at].rstrip()
        if before.endswith("</arg_value>") or "<arg_value>" not in before:
            return at, at + len(closer)
        at = body.find(closer, at + 1)
    return None
