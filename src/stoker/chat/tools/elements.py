"""Parser of the formats whose arguments are elements of their own (the tags: `element_tags.py`).

Strings stream as they come. A value may hold text that looks like markup, so its closing tag counts only
where the markup goes on behind it: with another argument, the call's end, or the block's.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import NamedTuple

from stoker.chat.lenient_json import LenientJson, partial_suffix
from stoker.chat.tools.base import Toolbox
from stoker.chat.tools.element_tags import CDATA_CLOSE, CDATA_OPEN, Dialect, Kind, Tag
from stoker.chat.tools.element_values import Unframe, ValueWriter, unframe
from stoker.chat.tools.machine import BlockMachine
from stoker.chat.tools.values import dump_value

_MAX_NAME = 300  # characters
_SPACE = re.compile(r"\s*")


class _State(Enum):
    OPENER = auto()
    HEAD = auto()  # the call's name comes
    ARGUMENTS = auto()  # an argument, or the call's end
    VALUE_TAG = auto()  # GLM: behind a key
    VALUE = auto()
    SECTION = auto()  # CDATA in a value
    JSON = auto()  # Llama's <function=NAME>{...}</function>
    BEHIND = auto()  # another call, or the block's end


class _End(NamedTuple):
    """Of a value: where it stops, and where the markup behind it begins."""

    at: int
    resume: int
    closed: bool = True  # by a tag of its own


class _Undecided(Enum):
    TEXT = auto()
    WAIT = auto()


class ElementCalls(BlockMachine):
    def __init__(self, toolbox: Toolbox, dialect: Dialect) -> None:
        super().__init__(toolbox)
        self._dialect = dialect
        self._state = _State.OPENER
        self._name = ""
        self._begun = False  # CallBegin of the current call is out
        self._num_arguments = 0
        self._key = Tag(Kind.NOTHING)
        self._unframe: Unframe = unframe(dialect.framing)
        self._writer = ValueWriter({}, is_text=True)
        self._scanned = 0  # of `_held`: no end of the value begins before it
        # The best end there is when no proper one comes: the block's closer, or a closed function.
        self._fallback: _End | None = None
        self._json = LenientJson()

    def _step(self, ended: bool) -> bool:
        match self._state:
            case _State.OPENER:
                self._held = self._held[len(self._dialect.opener) :]
                self._state = _State.HEAD
                return True
            case _State.HEAD:
                return self._read_name() if self._dialect.is_pairs else self._read_head()
            case _State.ARGUMENTS:
                return self._read_arguments(ended)
            case _State.VALUE_TAG:
                return self._read_value_tag()
            case _State.VALUE:
                return self._read_value(ended)
            case _State.SECTION:
                return self._read_section(ended)
            case _State.JSON:
                return self._read_json(ended)
            case _State.BEHIND:
                return self._read_behind(ended)

    def _at_end(self) -> None:
        """The text ended between two tags, or inside one."""
        if self._begun or (self._state is _State.ARGUMENTS and not self._held.strip()):
            self._end_call(is_cut=True)
            self._stop("")
        else:
            self._give_up()

    # --- around the arguments -----------------------------------------------------------------------

    def _read_head(self) -> bool:
        self._held = self._held.lstrip()
        tag = self._dialect.tag(self._held)
        if tag.kind is Kind.UNKNOWN or not self._held:
            return False
        if tag.kind is not Kind.OPEN_CALL or tag.name not in self._toolbox:
            return self._give_up()
        return self._go_on(_State.ARGUMENTS, tag)

    def _read_name(self) -> bool:
        end = self._held.find("<")
        if end < 0 and len(self._held) <= _MAX_NAME:
            return False
        self._name = self._held[:end].strip()
        if end < 0 or self._name not in self._toolbox:
            return self._give_up()
        self._held = self._held[end:]
        self._state = _State.ARGUMENTS
        return True

    def _go_on(self, state: _State, tag: Tag) -> bool:
        if tag.kind is Kind.OPEN_CALL:
            self._name = tag.name
        self._held = self._held[tag.end :]
        self._state = state
        return True

    def _read_arguments(self, ended: bool) -> bool:
        behind = self._held.lstrip()
        if not behind:
            return False
        self._held = behind
        if behind[0] == "{" and not self._begun and not self._dialect.is_pairs:
            self._begin_call()
            self._json = LenientJson(terminator=f"</{self._dialect.prefix}function>")
            self._state = _State.JSON
            return True
        tag = self._dialect.tag(behind)
        match tag.kind:
            case Kind.UNKNOWN:
                return False
            case Kind.OPEN_ARGUMENT:
                self._key = tag
                if self._dialect.is_pairs:
                    return self._go_on(_State.VALUE_TAG, tag)
                self._open_value()
                return self._go_on(_State.VALUE, tag)
            case Kind.CLOSE_CALL:
                self._end_call()
                self._go_on(_State.BEHIND, tag)
                return self._dialect.closer != "" or self._stop(self._held)
            case Kind.CLOSER:
                self._end_call()
                return self._stop(behind[tag.end :])
            case Kind.OPEN_CALL | Kind.OPENER if self._begun:
                self._end_call()
                self._state = _State.BEHIND
                return True
            case _ if self._begun:  # cannot be read on
                self._end_call()
                return self._stop(behind)
            case _:
                return self._give_up()

    def _read_behind(self, ended: bool) -> bool:
        behind = self._held.lstrip()
        self._raw = self._held
        tag = self._dialect.tag(behind)
        if not behind or tag.kind is Kind.UNKNOWN:
            # Half a closing tag is not given back.
            return self._stop("" if behind.startswith("</") else behind) if ended else False
        self._held = behind
        match tag.kind:
            case Kind.CLOSER:
                return self._stop(behind[tag.end :])
            case Kind.CLOSE_CALL if self._dialect.closer:
                return self._go_on(_State.BEHIND, tag)
            case Kind.CLOSE_CALL:
                return self._stop(behind[tag.end :])
            case Kind.OPEN_CALL if self._dialect.closer:
                self._state = _State.HEAD
                return True
            case _:
                return self._stop(behind)

    def _begin_call(self) -> None:
        self._begin(self._name)
        self._begun = True
        self._num_arguments = 0

    def _end_call(self, *, is_cut: bool = False) -> None:
        if not self._begun:
            self._begin_call()
        self._write("}" if self._num_arguments else "{}")
        self._end(is_cut=is_cut)
        self._begun = False

    def _read_json(self, ended: bool) -> bool:
        json = self._json
        self._write(json.feed(self._held))
        self._held = ""
        if json.failed or (ended and not json.done):
            self._write(json.finish())
        if not (json.done or json.failed or ended):
            return False
        self._end(is_cut=not json.done)
        self._begun = False
        self._held = json.rest
        self._state = _State.BEHIND
        return True

    # --- one argument -------------------------------------------------------------------------------

    def _read_value_tag(self) -> bool:
        behind = self._held.lstrip()
        word = "<arg_value>"
        if behind.startswith(word):
            self._held = behind[len(word) :]
            self._open_value()
            self._state = _State.VALUE
            return True
        if word.startswith(behind):
            return False
        if not self._begun:
            return self._give_up()
        self._end_call()
        return self._stop(self._held)

    def _open_value(self) -> None:
        if not self._begun:
            self._begin_call()
        start = "{" if not self._num_arguments else ", "
        self._write(f"{start}{dump_value(self._key.name)}: ")
        self._num_arguments += 1
        self._unframe = unframe(self._dialect.framing)
        schema = self._toolbox.properties(self._name).get(self._key.name)
        self._writer = ValueWriter(schema, is_text=self._key.is_text)
        self._scanned = 0
        self._fallback = None

    def _read_value(self, ended: bool) -> bool:
        while found := self._dialect.value_end.search(self._held, self._scanned):
            at = found.start()
            if self._held.startswith(CDATA_OPEN, at):
                self._take_value(at, len(CDATA_OPEN))
                self._write(self._writer.feed(self._unframe.literal("")))
                self._state = _State.SECTION
                return True
            end = self._end_at(at, ended)
            if isinstance(end, _End):
                return self._end_value(end)
            if end is _Undecided.WAIT:
                self._scanned = at
                break
            self._scanned = at + 1
        else:
            size = len(self._held)
            self._scanned = max(self._scanned, size - partial_suffix(self._held, self._dialect.value_ends))
        if ended:
            return self._end_cut_value()
        self._take_value(self._scanned if self._fallback is None else self._fallback.at)
        return False

    def _end_at(self, at: int, ended: bool) -> _End | _Undecided:
        """Whether what begins at `at` ends the value."""
        starts_line = self._held[at] == "\n"
        tag = self._dialect.tag(self._held, at + starts_line)
        match tag.kind:
            case Kind.UNKNOWN:
                half = _End(at, len(self._held))  # half a tag is not the value's
                return self._fallback or half if ended else _Undecided.WAIT
            case Kind.CLOSE_ARGUMENT:
                return self._behind_argument(at, tag.end, ended)
            case Kind.CLOSE_CALL:
                return self._behind_call(_End(at, at, closed=False), tag.end, ended)
            case Kind.OPEN_ARGUMENT if tag.name in self._toolbox.properties(self._name):
                return _End(at, at, closed=False)
            case Kind.OPEN_CALL if self._fallback and tag.name in self._toolbox:
                return self._fallback
            case Kind.CLOSER:
                self._fallback = self._fallback or _End(at, at, closed=False)
        return _Undecided.TEXT

    def _behind_argument(self, at: int, behind: int, ended: bool) -> _End | _Undecided:
        place = self._skip_space(behind)
        end = _End(at, behind)
        tag = self._dialect.tag(self._held, place)
        if place == len(self._held) or tag.kind is Kind.UNKNOWN:
            return end if ended else _Undecided.WAIT
        if tag.kind is Kind.CLOSE_CALL:
            return self._behind_call(end, tag.end, ended)
        goes_on = tag.kind in (Kind.OPEN_ARGUMENT, Kind.CLOSER, Kind.OPEN_CALL)
        return end if goes_on else _Undecided.TEXT

    def _behind_call(self, end: _End, behind: int, ended: bool) -> _End | _Undecided:
        if not self._dialect.closer:
            return end
        place = self._skip_space(behind)
        tag = self._dialect.tag(self._held, place)
        if place == len(self._held) or tag.kind is Kind.UNKNOWN:
            return end if ended else _Undecided.WAIT
        if tag.kind in (Kind.CLOSER, Kind.OPEN_CALL, Kind.OPENER):
            return end
        if end.closed:
            self._fallback = self._fallback or end
        return _Undecided.TEXT

    def _skip_space(self, at: int) -> int:
        space = _SPACE.match(self._held, at)
        return space.end() if space else at

    def _take_value(self, size: int, behind: int = 0) -> None:
        """The first `size` characters are the value's; `behind` more are markup."""
        self._write(self._writer.feed(self._unframe.feed(self._held[:size])))
        taken = size + behind
        self._held = self._held[taken:]
        self._scanned = max(0, self._scanned - taken)
        if self._fallback is not None:
            at, resume, closed = self._fallback
            self._fallback = _End(at - taken, resume - taken, closed)

    def _end_value(self, end: _End) -> bool:
        resume = end.resume - end.at
        self._fallback = None
        self._take_value(end.at)
        self._write(self._writer.feed(self._unframe.finish(closed=end.closed)) + self._writer.finish())
        self._held = self._held[resume:]
        self._state = _State.ARGUMENTS
        return True

    def _end_cut_value(self) -> bool:
        if self._fallback is not None:
            return self._end_value(self._fallback)
        half = partial_suffix(self._held, tuple(word for word in self._dialect.value_ends if word[0] == "<"))
        return self._end_value(_End(len(self._held) - half, len(self._held)))

    def _read_section(self, ended: bool) -> bool:
        """CDATA: nothing but its end is markup."""
        end = self._held.find(CDATA_CLOSE)
        size = end
        if end < 0:
            size = len(self._held) - partial_suffix(self._held, (CDATA_CLOSE,))
        self._write(self._writer.feed(self._unframe.literal(self._held[:size])))
        if end < 0 and not ended:
            self._held = self._held[size:]
            return False
        self._held = self._held[size + len(CDATA_CLOSE) :]
        self._scanned = 0
        self._state = _State.VALUE
        return True
