"""Refuses sources so deep or long that compiling them would exhaust the stack or take minutes.

llguidance limits the size of what it builds, but it walks a source recursively (about 10 kB of
stack per level) and takes quadratic time for a long regular expression. The limits here are far
above what people write; compiler.py gives its threads the stack that they need.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Any

from stoker.engine.grammar.regex import most_copies
from stoker.errors import GrammarError

STACK_BYTES = 128 * 2**20  # address space; used as far as a source is deep
MAX_LEVELS = 8000  # of nesting, references followed
MAX_REGEX = 20_000  # characters
MAX_LARK = 256 * 1024
MAX_GBNF = 64 * 1024  # characters; ours is read in Python, at about 100 kB a second
_MAX_LARK_LEVELS = 1500
_MAX_COPIES = 100_000  # of a literal, which take 0.15 s
_DEFINITION = re.compile(r"^(?=[ \t]*[?!]?[A-Za-z_][\w.\[\], =\"-]*:)", re.M)


def check_schema(schema: Any) -> None:
    """Raises GrammarError. The levels are counted as if every reference led into the whole schema."""
    references: set[str] = set()
    depth = 0
    level = [schema]
    while level:
        depth += 1
        deeper: list[Any] = []
        for node in level:
            if isinstance(node, list):
                deeper += node
            elif isinstance(node, dict):
                deeper += node.values()
                _check_object(node, references)
        level = deeper
    if (1 + len(references)) * depth > MAX_LEVELS:
        raise GrammarError(f"it nests too deeply: {len(references)} references at {depth} levels")


def _check_object(node: dict[str, Any], references: set[str]) -> None:
    if isinstance(reference := node.get("$ref"), str):
        references.add(reference)
    patterned = node.get("patternProperties")
    for pattern in (node.get("pattern"), *(patterned if isinstance(patterned, dict) else ())):
        if isinstance(pattern, str):
            check_regex(pattern)


def check_regex(expression: str) -> None:
    if len(expression) > MAX_REGEX:
        raise GrammarError(
            f"the regular expression has {len(expression)} characters; the limit is {MAX_REGEX}"
        )
    if (copies := most_copies(expression)) > _MAX_COPIES:
        raise GrammarError(
            f"the regular expression repeats a text {copies} times; the limit is {_MAX_COPIES}"
        )


def check_lark(source: str) -> None:
    if len(source) > MAX_LARK:
        raise GrammarError(f"the grammar has {len(source)} characters; the limit is {MAX_LARK}")
    definitions = _DEFINITION.split(source)
    if sum(1 + _depth(definition) for definition in definitions) > _MAX_LARK_LEVELS:
        raise GrammarError("the grammar has too many rules, or they nest too deeply")


def check_gbnf(source: str) -> None:
    if len(source) > MAX_GBNF:
        raise GrammarError(f"the grammar has {len(source)} characters; the limit is {MAX_GBNF}")


def _depth(text: str) -> int:
    """Most brackets open at once."""
    steps = (1 if char in "([{" else -1 for char in text if char in "([{}])")
    return max(accumulate(steps), default=0)
