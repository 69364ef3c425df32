"""Writes a grammar over characters in llguidance's Lark: lexemes as terminals, the rest as rules."""

from __future__ import annotations

from stoker.engine.grammar.lexemes import choose_lexemes
from stoker.engine.grammar.tree import Alt, Chars, Grammar, Node, Ref, Repeat, Seq


def write_lark(grammar: Grammar) -> str:
    return _Writer(grammar).write()


class _Writer:
    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self._lexemes = choose_lexemes(grammar)
        self._lines: list[str] = []
        self._terminals: dict[Node, str] = {}
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
        """Within a rule."""
        return self._terminal(node) if node in self._lexemes else self._expression(node, in_terminal=False)

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
            case Repeat():
                return f"({inner(node.item)}){_times(node)}"


def _times(node: Repeat) -> str:
    if node.high is None:
        return {0: "*", 1: "+"}.get(node.low, f"{{{node.low},}}")
    return "?" if (node.low, node.high) == (0, 1) else f"{{{node.low},{node.high}}}"


def _chars(node: Chars) -> str:
    ranges = "".join(f"\\x{{{low:x}}}-\\x{{{high:x}}}" for low, high in node.ranges)
    return f"/[{ranges}]/"
