"""JSON as models write it, to JSON that parses, piece by piece.

What is valid passes unchanged. Repaired on the way: single quotes, raw line breaks and bad escapes
in strings, quotes inside strings, bare keys and words, Python's True/False/None, missing and
trailing commas, and, by `finish`, whatever was not closed. Everything given out so far is always the
beginning of one valid JSON value.
"""

from __future__ import annotations

import json
import re

_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_BARE_KEY = re.compile(r"[^\s\"'{}\[\]:,<]+")
_BARE_VALUE = re.compile(r"[^,}\]\n{\[\"]+")
_PLAIN = {q: re.compile(rf"[^{q}\\\x00-\x1f]+") for q in "\"'"}
_WORDS = {
    "true": "true", "false": "false", "null": "null",
    "True": "true", "False": "false", "None": "null",
    "NaN": "null", "undefined": "null",
}  # fmt: skip
_ESCAPES = '"\\/bfnrt'
_HEX4 = re.compile(r"[0-9a-fA-F]{4}")


class LenientJson:
    """`feed` text that begins with the value, until `done` or `failed`; then `rest` is what lies
    behind it (or from the fault on). `finish` closes what is still open.

    `raw_quotes` are further string delimiters whose contents have no escapes (Gemma's `<|"|>`).
    `terminator` ends the markup around the value: where a string that is never closed runs over it,
    `finish` cuts the string there.

        feed("{'a': Tr") -> '{"a": '     feed("ue,}") -> "true}"
    """

    def __init__(self, raw_quotes: tuple[str, ...] = (), terminator: str = "") -> None:
        self._raw_quotes = raw_quotes
        self._terminator = terminator
        self._input = ""
        self._at = 0
        self._out: list[str] = []
        self._stack: list[str] = []  # "{" and "["
        self._state = "value"  # first_key, key, colon, first_item, value, next, string
        self._comma = ""  # a comma and space that may still turn out to be trailing
        self._quote = ""  # of the string being read
        self._is_key = False
        self.done = False
        self.failed = False
        self.rest = ""

    def feed(self, text: str) -> str:
        if self.done or self.failed:
            self.rest += text
            return ""
        self._input = self._input[self._at :] + text
        self._at = 0
        while not (self.done or self.failed) and self._step(ended=False):
            pass
        return self._give()

    def finish(self) -> str:
        """The end of the value, made up where it is missing. `failed` when there is none."""
        while not (self.done or self.failed) and self._step(ended=True):
            pass
        if not self.done:
            self.rest = self.rest or self._input[self._at :]
            self.failed = self.failed or (self._state == "value" and not self._stack)
            self._close_all()
        return self._give()

    def _close_all(self) -> None:
        if self._state == "string":
            self._out.append('"')
            self._state = "colon" if self._is_key else "next"
        if self._state == "colon":
            self._out.append(": null")
        elif self._state == "value" and not self._comma:
            self._out.append("null")
        self._out += ["}" if opener == "{" else "]" for opener in reversed(self._stack)]
        self._stack.clear()

    def _give(self) -> str:
        text = "".join(self._out)
        self._out.clear()
        return text

    def _fail(self) -> bool:
        self.failed = True
        self.rest = self._input[self._at :]
        return False

    def _step(self, ended: bool) -> bool:
        """One token. False: no more can be decided from the input so far."""
        if self._state == "string":
            return self._string(ended)
        space = _SPACE.match(self._input, self._at)
        if space and space.end() > self._at:
            if self._comma:
                self._comma += space[0]
            else:
                self._out.append(space[0])
            self._at = space.end()
        if self._at == len(self._input):
            return False
        char = self._input[self._at]
        match self._state:
            case "first_key" | "key" if char == "}":
                return self._close(char)
            case "first_item" if char == "]":
                return self._close(char)
            case "value" if char == "]" and self._comma:
                return self._close(char)
            case "first_key" | "key":
                return self._key(char, ended)
            case "colon":
                return self._colon(char)
            case "first_item" | "value":
                return self._value(char, ended)
            case _:
                return self._next(char)

    def _close(self, char: str) -> bool:
        self._out.append(self._comma[1:])  # the space behind a trailing comma
        self._comma = ""
        self._out.append(char)
        self._at += 1
        self._stack.pop()
        self._state = "next"
        if not self._stack:
            self.done = True
            self.rest = self._input[self._at :]
        return True

    def _key(self, char: str, ended: bool) -> bool:
        if char == ",":  # a comma too many
            self._at += 1
            return True
        opened = self._open_string(char, is_key=True)
        if opened is not None:
            return opened
        bare = _BARE_KEY.match(self._input, self._at)
        if bare is None:
            return self._fail()
        if bare.end() == len(self._input) and not ended:
            return False
        self._flush_comma()
        self._out.append(json.dumps(bare[0], ensure_ascii=False))
        self._at = bare.end()
        self._state = "colon"
        return True

    def _colon(self, char: str) -> bool:
        if char not in ":=":
            return self._fail()
        self._out.append(":")
        self._at += 1
        self._state = "value"
        return True

    def _value(self, char: str, ended: bool) -> bool:
        if char in "{[":
            self._flush_comma()
            self._out.append(char)
            self._stack.append(char)
            self._at += 1
            self._state = "first_key" if char == "{" else "first_item"
            return True
        opened = self._open_string(char, is_key=False)
        if opened is not None:
            return opened
        if not self._stack:
            return self._fail()
        bare = _BARE_VALUE.match(self._input, self._at)
        if bare is None:
            return self._fail()
        if bare.end() == len(self._input) and not ended:
            return False
        self._flush_comma()
        word = bare[0].strip()
        self._out.append(_scalar(word))
        self._out.append(bare[0][len(bare[0].rstrip()) :])
        self._at = bare.end()
        self._state = "next"
        return True

    def _next(self, char: str) -> bool:
        opener = self._stack[-1]
        if char == ("}" if opener == "{" else "]"):
            return self._close(char)
        follows = "key" if opener == "{" else "value"
        if char == ",":
            self._comma = ","
            self._at += 1
        elif char in "\"'" or (opener == "[" and char == "{"):
            self._comma = ","  # it was forgotten
        else:
            return self._fail()
        self._state = follows
        return True

    def _open_string(self, char: str, *, is_key: bool) -> bool | None:
        """None: no string begins here. False: it takes more text to know."""
        quote = char if char in "\"'" else ""
        for raw in self._raw_quotes:
            if self._input.startswith(raw, self._at):
                quote = raw
            elif raw.startswith(self._input[self._at :]):
                return False
        if not quote:
            return None
        self._flush_comma()
        self._out.append('"')
        self._at += len(quote)
        self._quote, self._is_key, self._state = quote, is_key, "string"
        return True

    def _flush_comma(self) -> None:
        self._out.append(self._comma)
        self._comma = ""

    # --- strings ------------------------------------------------------------------------------------

    def _string(self, ended: bool) -> bool:
        if self._quote in self._raw_quotes:
            return self._raw_string(ended)
        text, at = self._input, self._at
        limit = self._limit(ended)
        if limit is not None and at >= limit:
            if ended:
                self.rest = text[limit:]
            return False
        plain = _PLAIN[self._quote].match(text, at, len(text) if limit is None else limit)
        if plain:
            self._out.append(plain[0].replace('"', '\\"'))
            self._at = plain.end()
            return True
        if at == len(text):
            return False
        char = text[at]
        if char == "\\":
            return self._escape(ended)
        if char < " ":
            self._out.append(json.dumps(char)[1:-1])
            self._at += 1
            return True
        return self._maybe_close(ended)

    def _limit(self, ended: bool) -> int | None:
        """Where a terminator begins that the string may not run over, while no quote behind it closes
        the string."""
        if not self._terminator:
            return None
        found = self._input.find(self._terminator, self._at)
        if found < 0:
            half = 0 if ended else partial_suffix(self._input[self._at :], (self._terminator,))
            return len(self._input) - half if half else None
        quote = self._input.find(self._quote, self._at)
        if 0 <= quote < found:
            return None
        at = quote
        while at >= 0:
            if self._closes(at, ended=ended):
                return None
            at = self._input.find(self._quote, at + 1)
        return found

    def _closes(self, at: int, *, ended: bool) -> bool | None:
        """Whether the quote at `at` ends the string: JSON goes on behind it. None = not known yet."""
        if self._is_key:
            return True
        space = _SPACE.match(self._input, at + len(self._quote))
        behind = space.end() if space else at + 1
        if behind >= len(self._input):
            return True if ended else None
        char = self._input[behind]
        if char in "\"'" and behind > at + len(self._quote):
            return True  # a comma was forgotten
        if char in ",}]":
            return True
        following = self._input[behind : behind + len(self._terminator)]
        if not self._terminator.startswith(following):
            return False
        return True if ended or following == self._terminator else None

    def _maybe_close(self, ended: bool) -> bool:
        closes = self._closes(self._at, ended=ended)
        if closes is None:
            return False
        self._at += 1
        if closes:
            self._end_string()
        else:
            self._out.append('\\"' if self._quote == '"' else "'")
        return True

    def _end_string(self) -> None:
        self._out.append('"')
        self._state = "colon" if self._is_key else "next"
        if not self._stack:
            self.done = True
            self.rest = self._input[self._at :]

    def _escape(self, ended: bool) -> bool:
        text, at = self._input, self._at
        if at + 1 >= len(text):
            return False
        char = text[at + 1]
        if char == "u":
            if len(text) < at + 6 and not ended:
                return False
            known = _HEX4.match(text, at + 2) is not None
            self._out.append(text[at : at + 6] if known else "\\\\u")
            self._at += 6 if known else 2
            return True
        if char in _ESCAPES:
            self._out.append(text[at : at + 2])
        elif char == "'":
            self._out.append("'")
        elif char == "\n":
            self._out.append("\\n")
        else:
            self._out.append("\\\\")  # the backslash was meant
            self._at += 1
            return True
        self._at += 2
        return True

    def _raw_string(self, ended: bool) -> bool:
        end = self._input.find(self._quote, self._at)
        stop = end
        if end < 0:
            stop = len(self._input)
            if not ended:
                stop -= partial_suffix(self._input[self._at :], (self._quote,))
        self._out.append(json.dumps(self._input[self._at : stop], ensure_ascii=False)[1:-1])
        if end < 0:
            self._at = stop
            return False
        self._at = end + len(self._quote)
        self._end_string()
        return True


def partial_suffix(text: str, words: tuple[str, ...]) -> int:
    """Length of the longest suffix of `text` that is the beginning, not all, of one of `words`."""
    longest = max(map(len, words), default=0)
    for size in range(min(longest - 1, len(text)), 0, -1):
        suffix = text[-size:]
        if any(size < len(word) and word.startswith(suffix) for word in words):
            return size
    return 0


def repair_value(text: str) -> str | None:
    """The one JSON value that `text` holds, repaired, or None."""
    reader = LenientJson()
    out = reader.feed(text.strip())
    out += reader.finish()
    return None if reader.failed or reader.rest.strip() else out


def _scalar(word: str) -> str:
    if word in _WORDS:
        return _WORDS[word]
    if _NUMBER.fullmatch(word):
        return word
    return json.dumps(word, ensure_ascii=False)
