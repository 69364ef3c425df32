"""Writes a grammar over characters in llguidance's Lark: lexemes as terminals, the rest as rules."""

from __future__ import annotations

from stoker.engine.grammar.lexemes import choose_lexemes
from stoker.engine.grammar.tree import Alt, Chars, Grammar, Node, Ref, Repeat, Seq, children


def write_lark(grammar: Grammar) -> str:
    return _Writer(grammar).write()


class _Writer:
    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self._lexemes = choose_lexemes(grammar)
        self._lines: list[str] = []
        self._terminals: dict[Node, str] = {}
        self._without_empty: dict[Node, str] = {}
        self._rules: dict[str, str] = {}  # name there -> name here
        self._todo: list[str] = []

    def write(self) -> str:
        self._lines.append(f"start: {self._rule(self._grammar.root)}")
        while self._todo:
            name = self._todo.pop()
            self._lines.append(f"{self._rules[name]}: {self._node(self._grammar.rules[name])}")
        return "\n".join(self._lines)

    def _rule(self, name: str) -> str:
        if name not in self._rules:
            self._rules[name] = f"r{len(self._rules)}"
            self._todo.append(name)
        return self._rules[name]

    def _terminal(self, node: Node) -> str:
        """The terminal for `node`, written on first use."""
        if node not in self._terminals:
            name = self._terminals[node] = f"T{len(self._terminals)}"
            self._lines.append(f"{name}: {self._expression(node, in_terminal=True)}")
        return self._terminals[node]

    def _node(self, node: Node) -> str:
        """Within a rule. A lexeme is never empty there: the rule may leave it out instead."""
        nullable = self._lexemes.get(node)
        if nullable is None:
            return self._expression(node, in_terminal=False)
        if not nullable:
            return self._terminal(node)
        if _is_empty(node):
            return '""'
        return f"{self._not_empty(node)}?"

    def _not_empty(self, node: Node) -> str:
        if node not in self._without_empty:
            name = self._without_empty[node] = f"N{len(self._without_empty)}"
            self._lines.append(f"{name}: {self._expression(node, in_terminal=True)} & /(?s:.+)/")
        return self._without_empty[node]

    def _expression(self, node: Node, *, in_terminal: bool) -> str:
        def inner(child: Node) -> str:
            return self._expression(child, in_terminal=True) if in_terminal else self._node(child)

        match node:
            case Chars():
                return _chars(node)
            case Ref() if in_terminal:
                return self._terminal(self._grammar.rules[node.rule])
            case Ref():
                return self._rule(node.rule)
            case Seq():
                return "(" + " ".join(inner(item) for item in node.items) + ")" if node.items else '""'
            case Alt():
                return "(" + " | ".join(inner(item) for item in node.items) + ")"
            case Repeat() if not in_terminal and self._lexemes.get(node.item) and not _is_empty(node.item):
                # Some of the repetitions may be empty, so there may be fewer that are not.
                return self._not_empty(node.item) + _times(0, node.high)
            case Repeat():
                return f"({inner(node.item)}){_times(node.low, node.high)}"


def _times(low: int, high: int | None) -> str:
    if high is None:
        return {0: "*", 1: "+"}.get(low, f"{{{low},}}")
    return "?" if (low, high) == (0, 1) else f"{{{low},{high}}}"


def _is_empty(node: Node) -> bool:
    """Whether the node holds no character, at sight."""
    return not isinstance(node, Chars | Ref) and all(_is_empty(child) for child in children(node))


def _chars(node: Chars) -> str:
    ranges = "".join(f"\\x{{{low:x}}}-\\x{{{high:x}}}" for low, high in node.ranges)
    return f"/[{ranges}]/"
