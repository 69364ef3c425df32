"""Takes out what no finite text can match, such as `x ::= x x`.

It changes no language, and llguidance may look for such a text for ever.
"""

from __future__ import annotations

from stoker.engine.grammar.tree import Alt, Chars, Node, Ref, Repeat, Seq


def productive_rules(rules: dict[str, Node]) -> dict[str, Node]:
    """The rules that some text matches, without the alternatives that none does."""
    known: set[str] = set()
    before = -1
    while before < len(known):
        before = len(known)
        # The rules at the end are often those that the ones before are made of.
        known |= {name for name in reversed(rules) if name not in known and _matches(rules[name], known)}
    return {name: _pruned(body, known) for name, body in rules.items() if name in known}


def _matches(node: Node, known: set[str]) -> bool:
    """Whether some text matches, by what is known of the rules."""
    match node:
        case Chars():
            return bool(node.ranges)
        case Ref():
            return node.rule in known
        case Seq():
            return all(_matches(item, known) for item in node.items)
        case Alt():
            return any(_matches(item, known) for item in node.items)
        case Repeat():
            return node.low == 0 or _matches(node.item, known)


def _pruned(node: Node, known: set[str]) -> Node:
    """Of a node that some text matches."""
    match node:
        case Seq():
            return Seq([_pruned(item, known) for item in node.items])
        case Alt():
            return Alt([_pruned(item, known) for item in node.items if _matches(item, known)])
        case Repeat() if not _matches(node.item, known):
            return Seq([])
        case Repeat():
            return Repeat(_pruned(node.item, known), node.low, node.high)
        case _:
            return node
