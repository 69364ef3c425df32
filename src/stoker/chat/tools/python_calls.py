"""Calls written as Python: `[f(a=1), g(b="x")]`, `f.call(a=1)`. Read with `ast`, never run."""

from __future__ import annotations

import ast
import re
from typing import Any

from stoker.chat.tools.base import Toolbox
from stoker.chat.tools.values import dump_value

_STRING = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'", re.DOTALL)
_JSON_WORDS = {"true": True, "false": False, "null": None}


def read_python_calls(text: str, toolbox: Toolbox) -> list[tuple[str, str]] | None:
    try:
        tree = _parse(_unwrap(text.strip()))
        nodes = tree.elts if isinstance(tree, ast.List | ast.Tuple) else [tree]
        return [_call(node, toolbox) for node in nodes] or None
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None


def _parse(text: str) -> ast.expr:
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError:
        # Templates, and so models, write line breaks into strings as they are.
        spelled = _STRING.sub(lambda found: found[0].replace("\n", "\\n"), text)
        return ast.parse(spelled, mode="eval").body


def _unwrap(text: str) -> str:
    if text.startswith("print(") and text.endswith(")"):
        return text[len("print(") : -1]
    return text


def _call(node: ast.expr, toolbox: Toolbox) -> tuple[str, str]:
    if not isinstance(node, ast.Call):
        raise ValueError("not a call")
    name = ast.unparse(node.func)
    if name not in toolbox:
        name = name.removesuffix(".call")
    table: dict[str, Any] = dict(
        zip(toolbox.properties(name), (_value(arg) for arg in node.args), strict=False)
    )
    if len(table) < len(node.args):
        raise ValueError("more positional arguments than the tool has parameters")
    for keyword in node.keywords:
        if keyword.arg is None:
            raise ValueError("** has no meaning here")
        table[keyword.arg] = _value(keyword.value)
    return name, dump_value(table)


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Name) and node.id in _JSON_WORDS:
        return _JSON_WORDS[node.id]
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(item) for item in node.elts]
    if isinstance(node, ast.Dict):
        return {
            str(_value(key)): _value(value)
            for key, value in zip(node.keys, node.values, strict=True)
            if key is not None
        }
    value = ast.literal_eval(node)
    if not isinstance(value, str | int | float | bool | None):
        raise ValueError("not a JSON value")
    return value
