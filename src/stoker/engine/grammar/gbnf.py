r"""Reads llama.cpp's GBNF, and the plain EBNF that is a part of it.

    # a comment
    root  ::= "yes" | "no" reason{1,3}
    reason ::= " because " [^.\n]+ "."

Alternatives may go on in the next line after a `|` or inside parentheses. Literals may stand in
single quotes too, as in other EBNF dialects.
"""

from __future__ import annotations

import re

from stoker.engine.grammar.lark import write_lark
from stoker.engine.grammar.productive import productive_rules
from stoker.engine.grammar.reasons import NO_TEXT
from stoker.engine.grammar.tree import Alt, Chars, Grammar, Node, Ref, Repeat, Seq, children, everything_but
from stoker.errors import GrammarError

_MAX_RULES = 500
_MAX_DEPTH = 100
_MAX_REPEAT = 10_000
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_SPACE = re.compile(r"(?:[ \t]|#[^\n]*)*")
_SPACE_AND_LINES = re.compile(r"(?:\s|#[^\n]*)*")
_DEFINES = re.compile(r"\s*::=")
_BOUNDS = re.compile(r"\{\s*([0-9]{1,9})\s*(,?)\s*([0-9]{0,9})\s*\}")
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.S)
_NAMED = {"n": "\n", "r": "\r", "t": "\t"}


def gbnf_to_lark(source: str) -> str:
    """Raises GrammarError."""
    try:
        return write_lark(read_gbnf(source))
    except RecursionError:
        raise GrammarError("its rules nest too deeply") from None


def read_gbnf(source: str) -> Grammar:
    """Raises GrammarError for a text that is no such grammar or uses a rule it lacks."""
    rules = _Reader(source).rules()
    if "root" not in rules:
        raise GrammarError("the grammar has no rule root")
    references = {name: _references(body) for name, body in rules.items()}
    for name, used in references.items():
        for other in used:
            if other not in rules:
                raise GrammarError(f"rule {name} uses {other}, which is not defined")
    rules = productive_rules(rules)
    if "root" not in rules:
        raise GrammarError(NO_TEXT)
    references = {name: _references(body) for name, body in rules.items()}
    recursive = frozenset(name for name in rules if name in _reachable(references, references[name]))
    return Grammar(rules, "root", recursive)


class _Reader:
    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0
        self._depth = 0

    def rules(self) -> dict[str, Node]:
        rules: dict[str, Node] = {}
        self._skip(_SPACE_AND_LINES)
        while self._at < len(self._source):
            name = self._name()
            if not (defines := _DEFINES.match(self._source, self._at)):
                raise self._wrong("'::='")
            self._at = defines.end()
            if len(rules) == _MAX_RULES:
                raise GrammarError(f"the grammar has more than {_MAX_RULES} rules")
            if name in rules:
                raise GrammarError(f"rule {name} is defined twice")
            self._skip(_SPACE_AND_LINES)
            rules[name] = self._alternatives(_SPACE)
            if self._at < len(self._source) and self._source[self._at] not in "\r\n":
                raise self._wrong("the end of the line")
            self._skip(_SPACE_AND_LINES)
        return rules

    def _alternatives(self, space: re.Pattern[str]) -> Node:
        """`space` is what may stand between the items: lines end a rule, but not a group."""
        options = [self._sequence(space)]
        while self._takes("|"):
            self._skip(_SPACE_AND_LINES)
            options.append(self._sequence(space))
        return options[0] if len(options) == 1 else Alt(options)

    def _sequence(self, space: re.Pattern[str]) -> Node:
        items: list[Node] = []
        while (item := self._item()) is not None:
            self._skip(space)
            items.append(self._repeated(item, space))
        if len(items) == 1:
            return items[0]
        return Seq(items)

    def _item(self) -> Node | None:
        at = self._at
        char = self._source[at : at + 1]
        if char in ('"', "'"):
            return self._literal(char)
        if char == "[":
            return self._class()
        if char == "(":
            return self._group()
        if char == ".":
            self._at += 1
            return Chars(everything_but(()))
        if char == "<":
            raise GrammarError("tokens in angle brackets are not supported")
        found = _NAME.match(self._source, at)
        # A name in front of ::= begins the next rule.
        if found is None or _DEFINES.match(self._source, found.end()):
            return None
        self._at = found.end()
        return Ref(found[0])

    def _group(self) -> Node:
        self._at += 1
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise GrammarError(f"groups nest deeper than {_MAX_DEPTH}")
        self._skip(_SPACE_AND_LINES)
        inner = self._alternatives(_SPACE_AND_LINES)
        if not self._takes(")"):
            raise self._wrong("')'")
        self._depth -= 1
        return inner

    def _literal(self, quote: str) -> Node:
        self._at += 1
        characters: list[Node] = []
        while not self._takes(quote):
            code = self._character()
            characters.append(Chars(((code, code),)))
        return characters[0] if len(characters) == 1 else Seq(characters)

    def _class(self) -> Node:
        self._at += 1
        negated = self._takes("^")
        ranges: list[tuple[int, int]] = []
        while not self._takes("]"):
            low = high = self._character()
            if self._source.startswith("-", self._at) and not self._source.startswith("-]", self._at):
                self._at += 1
                high = self._character()
            if high < low:
                raise GrammarError(f"a character range runs backwards, from {low:#x} to {high:#x}")
            ranges.append((low, high))
        if not ranges and not negated:
            raise GrammarError("a character class is empty")
        return Chars(everything_but(tuple(ranges)) if negated else tuple(ranges))

    def _character(self) -> int:
        char = self._source[self._at : self._at + 1]
        if char in ("", "\n"):
            raise self._wrong("the end of a literal or a class")
        if char != "\\":
            self._at += 1
            return ord(char)
        found = _ESCAPE.match(self._source, self._at)
        if found is None:
            raise self._wrong("an escape sequence")
        self._at = found.end()
        code = found[1] or found[2] or found[3]
        value = int(code, 16) if code else ord(_NAMED.get(found[4], found[4]))
        if value > 0x10FFFF or 0xD800 <= value <= 0xDFFF:
            raise GrammarError(f"{found[0]} is not a character")
        return value

    def _repeated(self, item: Node, space: re.Pattern[str]) -> Node:
        while True:
            if self._takes("*"):
                item = Repeat(item, 0, None)
            elif self._takes("+"):
                item = Repeat(item, 1, None)
            elif self._takes("?"):
                item = Repeat(item, 0, 1)
            elif bounds := _BOUNDS.match(self._source, self._at):
                self._at = bounds.end()
                low = int(bounds[1])
                high = int(bounds[3]) if bounds[3] else (None if bounds[2] else low)
                if max(low, high or 0) > _MAX_REPEAT or (high is not None and high < low):
                    raise GrammarError(f"cannot repeat {bounds[0]}; the most is {_MAX_REPEAT}")
                item = Repeat(item, low, high)
            else:
                return item
            self._skip(space)

    def _name(self) -> str:
        found = _NAME.match(self._source, self._at)
        if found is None:
            raise self._wrong("a rule's name")
        self._at = found.end()
        return found[0]

    def _takes(self, text: str) -> bool:
        if self._source.startswith(text, self._at):
            self._at += len(text)
            return True
        return False

    def _skip(self, space: re.Pattern[str]) -> None:
        found = space.match(self._source, self._at)
        assert found is not None  # both patterns match the empty text
        self._at = found.end()

    def _wrong(self, expected: str) -> GrammarError:
        line = self._source.count("\n", 0, self._at) + 1
        near = self._source[self._at : self._at + 20].split("\n")[0]
        return GrammarError(f"line {line}: expected {expected} at {near!r}")


def _references(node: Node) -> set[str]:
    found: set[str] = set()
    todo = [node]
    while todo:
        node = todo.pop()
        if isinstance(node, Ref):
            found.add(node.rule)
        todo += children(node)
    return found


def _reachable(references: dict[str, set[str]], start: set[str]) -> set[str]:
    seen: set[str] = set()
    todo = list(start)
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += references[name]
    return seen
