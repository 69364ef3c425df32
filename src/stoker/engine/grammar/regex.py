"""Regular expressions as users write them for a whole text: with anchors that say nothing new.

The grammar engine matches whole texts and knows no anchors. One at an end of the expression, or of
an alternative there, is dropped; one in the middle could never match and is refused.
"""

from __future__ import annotations

import re

from stoker.errors import GrammarError

_STARTS = ("^", r"\A")
_ENDS = ("$", r"\Z", r"\z")


def without_anchors(expression: str) -> str:
    """Raises GrammarError for an anchor inside the text."""
    parts = _split(expression)
    kept: list[str] = []
    group_starts = [True]  # for each open group: nothing was matched before it
    at_start = True
    for index, part in enumerate(parts):
        if part in _STARTS:
            if not at_start:
                raise GrammarError(f"{part} inside a regular expression is not supported")
        elif part in _ENDS:
            if not _at_end(parts, index + 1):
                raise GrammarError(f"{part} inside a regular expression is not supported")
        else:
            kept.append(_plain_class(part) if part[0] == "[" else part)
            if part.startswith("("):
                group_starts.append(at_start)
            elif part == "|":
                at_start = group_starts[-1]
            else:
                at_start = False
                if part == ")" and len(group_starts) > 1:
                    group_starts.pop()
    return "".join(kept)


def most_copies(expression: str) -> int:
    """The most copies of one literal that counts such as `{1000}` ask for, one inside the other. Classes are
    no literals: their copies cost nothing until they are reached."""
    most = 0
    open_groups = [0]  # the most inside each so far
    last = 0  # of the part that a count would multiply
    parts = _split(expression)
    for index, part in enumerate(parts):
        if part == "{":
            found = _COUNT.match("".join(parts[index : index + 12]))
            last *= int(found[1]) if found else 1
        elif part.startswith("("):
            open_groups.append(0)
            last = 0
        elif part == ")" and len(open_groups) > 1:
            last = open_groups.pop()
        elif part not in "}?*+|,0123456789":
            last = int(len(part) == 1 and part != ".")
        open_groups[-1] = max(open_groups[-1], last)
        most = max(most, last)
    return most


_COUNT = re.compile(r"\{([0-9]+)")


def _split(expression: str) -> list[str]:
    """Escapes, classes and group openings whole; everything else one character each."""
    parts: list[str] = []
    at = 0
    while at < len(expression):
        end = at + 1
        if expression[at] == "\\":
            end = at + 2
        elif expression[at] == "[":
            end = _class_end(expression, at)
        elif expression.startswith("(?", at):
            end = at + 3
            if expression.startswith(("(?P<", "(?<"), at):
                end = expression.find(">", at) + 1 or len(expression)
        parts.append(expression[at:end])
        at = end
    return parts


def _class_end(expression: str, start: int) -> int:
    """Behind the `]` that closes the class opened at `start`."""
    at = start + 1
    at += expression.startswith("^", at)
    at += expression.startswith("]", at)  # a first ] is itself
    while at < len(expression) and expression[at] != "]":
        if expression.startswith("[:", at) and (close := expression.find(":]", at)) > 0:
            at = close + 2
        else:
            at += 2 if expression[at] == "\\" else 1
    return min(at + 1, len(expression))


def _plain_class(text: str) -> str:
    """A class without the set operations that only the grammar engine's dialect sees in it."""
    inner = re.sub(r"\\.|\[(?!:)|&&|~~", lambda found: _QUOTED.get(found[0], found[0]), text[1:], flags=re.S)
    return "[" + inner


_QUOTED = {"[": r"\[", "&&": r"\&\&", "~~": r"\~\~"}


def _at_end(parts: list[str], at: int) -> bool:
    """Whether only group ends, their quantifiers and other alternatives follow."""
    while at < len(parts):
        if parts[at] == "|":
            depth = 0
            while at < len(parts) and (depth or parts[at] != ")"):
                depth += parts[at].startswith("(") - (parts[at] == ")")
                at += 1
        elif parts[at] in (")", "?", *_ENDS):
            at += 1
        else:
            return False
    return True
