"""The tags of the families that write every argument as an element of its own.

<function=NAME><parameter=KEY>VALUE</parameter></function>            Qwen3-Coder, Qwen3.5, Seed
<function name="NAME"><param name="KEY">VALUE</param></function>      MiniCPM
<invoke name="NAME"><parameter name="KEY">VALUE</parameter></invoke>  MiniMax, DeepSeek V3.2
NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>                GLM
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum, auto

_MAX_TAG = 300  # characters; what is longer is text
_INSIDE = re.compile(r"[^<>\n]*")
_KEY_OPEN, _KEY_CLOSE = "<arg_key>", "</arg_key>"
_VALUE_CLOSE = "</arg_value>"
_NAMED = r"(?:=|\s+name\s*=\s*)[\"']?([^\"'>]+?)[\"']?"
_OPEN_CALL = re.compile(rf"<(?:function|invoke){_NAMED}\s*>")
_OPEN_ARGUMENT = re.compile(rf"<(?:param|parameter){_NAMED}(\s+string=\"(?:true|false)\")?\s*>")
_CLOSE_CALL = re.compile(r"</(?:function|invoke)\s*>")
_CLOSE_ARGUMENT = re.compile(r"</(?:param|parameter)\s*>")
CDATA_OPEN, CDATA_CLOSE = "<![CDATA[", "]]>"


class Kind(Enum):
    OPENER = auto()  # of the block
    CLOSER = auto()
    OPEN_CALL = auto()
    CLOSE_CALL = auto()
    OPEN_ARGUMENT = auto()
    CLOSE_ARGUMENT = auto()
    CDATA = auto()
    NOTHING = auto()  # no tag of the family
    UNKNOWN = auto()  # what has come so far may still become one


@dataclass(frozen=True, slots=True)
class Tag:
    kind: Kind
    end: int = 0  # where the text behind it begins
    name: str = ""  # of the function or the parameter
    is_text: bool = False  # the tag itself says that its value is a string


NOTHING, UNKNOWN = Tag(Kind.NOTHING), Tag(Kind.UNKNOWN)


class Framing(Enum):
    """What stands between an argument's tags."""

    EXACT = auto()
    LINES = auto()  # the value, with one line break before it and one behind
    XML = auto()  # entities and CDATA sections


@dataclass(frozen=True, slots=True)
class Dialect:
    """One family's tags. Without `opener` and `closer` a block is one call, from its own opening tag on.
    `prefix` is what may stand before every tag's name."""

    opener: str = ""
    closer: str = ""
    framing: Framing = Framing.EXACT
    prefix: str = ""
    is_pairs: bool = False  # GLM: the name stands bare, keys are elements too
    stems: tuple[str, ...] = field(init=False)  # what a tag may begin with
    value_ends: tuple[str, ...] = field(init=False)  # beginnings of what may end a value, or hide its end
    value_end: re.Pattern[str] = field(init=False)

    def __post_init__(self) -> None:
        if self.is_pairs:
            tags: tuple[str, ...] = (_KEY_OPEN, _VALUE_CLOSE)
            ends = [_KEY_OPEN, _VALUE_CLOSE]
        else:
            prefixes = dict.fromkeys(("", self.prefix))
            names = [p + name for p in prefixes for name in ("function", "invoke", "param")]
            tags = tuple(start + name for name in names for start in ("<", "</"))
            # An argument that begins on a line of its own may mean that the one before has no end.
            ends = [f"</{name}" for name in names] + [f"<{n}" for n in names if not n.endswith("param")]
            ends += [f"\n<{name}" for name in names if name.endswith("param")]
        blocks = tuple(word for word in (self.opener, self.closer) if word)
        sections = (CDATA_OPEN,) if self.framing is Framing.XML else ()
        object.__setattr__(self, "stems", (*tags, *blocks, *sections))
        ends += [*([self.closer] if self.closer else []), *sections]
        object.__setattr__(self, "value_ends", tuple(ends))
        object.__setattr__(self, "value_end", re.compile("|".join(map(re.escape, ends))))

    def tag(self, text: str, at: int = 0) -> Tag:
        """The tag at `at`, where a `<` stands (or the text ends)."""
        for word, kind in ((self.closer, Kind.CLOSER), (self.opener, Kind.OPENER), (CDATA_OPEN, Kind.CDATA)):
            if word in self.stems and text.startswith(word, at):
                return Tag(kind, at + len(word))
        if not any(_may_begin(text, at, stem) for stem in self.stems):
            return NOTHING
        return self._pair_tag(text, at) if self.is_pairs else self._element_tag(text, at)

    def _element_tag(self, text: str, at: int) -> Tag:
        inside = _INSIDE.match(text, at + 1)
        end = inside.end() if inside else len(text)
        if end - at > _MAX_TAG:
            return NOTHING
        if end == len(text):
            return UNKNOWN
        if text[end] != ">":
            return NOTHING
        end += 1
        written = text[at:end].replace(self.prefix, "", 1) if self.prefix else text[at:end]
        if found := _OPEN_ARGUMENT.fullmatch(written):
            is_text = found[2] is not None and "true" in found[2]
            return Tag(Kind.OPEN_ARGUMENT, end, found[1].strip(), is_text)
        if found := _OPEN_CALL.fullmatch(written):
            return Tag(Kind.OPEN_CALL, end, found[1].strip())
        if _CLOSE_ARGUMENT.fullmatch(written):
            return Tag(Kind.CLOSE_ARGUMENT, end)
        return Tag(Kind.CLOSE_CALL, end) if _CLOSE_CALL.fullmatch(written) else NOTHING

    def _pair_tag(self, text: str, at: int) -> Tag:
        if text.startswith(_VALUE_CLOSE, at):
            return Tag(Kind.CLOSE_ARGUMENT, at + len(_VALUE_CLOSE))
        if not text.startswith(_KEY_OPEN, at):
            return UNKNOWN  # the beginning of a stem, and no more has come
        start = at + len(_KEY_OPEN)
        inside = _INSIDE.match(text, start)
        end = inside.end() if inside else len(text)
        if end - at > _MAX_TAG or not _may_begin(text, end, _KEY_CLOSE):
            return NOTHING
        if not text.startswith(_KEY_CLOSE, end):
            return UNKNOWN
        return Tag(Kind.OPEN_ARGUMENT, end + len(_KEY_CLOSE), text[start:end].strip())


def _may_begin(text: str, at: int, word: str) -> bool:
    """Whether `word` stands at `at`, or as much of it as there is text."""
    return text.startswith(word, at) or word.startswith(text[at : at + len(word)])
