"""llguidance's error messages, made short enough for a header and a client's log."""

from __future__ import annotations

import re

_MAX_LENGTH = 300
_KEYWORDS = re.compile(r"Unimplemented keys: \[(.*)\]")
_TOO_LARGE = ("too big", "too large", "Too many items", "max is", "TooComplex", "limit")
NO_TEXT = "no text can match it"
_NOTHING = ("NoExtension", "no text")


def reason_in(message: str) -> str:
    """One line of ASCII without quotations of the source."""
    if found := _KEYWORDS.search(message):
        return f"unsupported keyword {found[1]}"
    first, *rest = [line.strip() for line in message.strip().splitlines() if line.strip()] or ["unknown"]
    # Under a parser's first line come the source and a marker, then what is wrong.
    said = next((line.removeprefix("error: ") for line in rest if line.startswith("error: ")), None)
    reason = said or first
    if any(word in message for word in _NOTHING):
        reason = NO_TEXT
    elif "panic" in first or "assertion" in first:
        reason = "it is too large or too complex"
    elif said is None and any(word in message for word in _TOO_LARGE):
        reason = f"it is too large or too complex ({first})"
    return reason.encode("ascii", "backslashreplace").decode()[:_MAX_LENGTH]
