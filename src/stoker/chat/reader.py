"""A reply's text to thinking, answer and tool calls, piece by piece.

Works on text; tokens, stop strings and logprobs are `reply.py`'s business. Families whose whole reply is
in a frame of its own have their own reader (`harmony_reader.py`).
"""

from __future__ import annotations

from collections.abc import Iterable

from stoker.chat.calls import CallWriter
from stoker.chat.lenient_json import partial_suffix
from stoker.chat.reading import OfferedTool, ReplyReading
from stoker.chat.reasoning import leaves_open, opens_reasoning, reasoning_tags
from stoker.chat.segments import Piece, Segment
from stoker.chat.tools import FORMATS, format_for, tool_call_tag
from stoker.chat.tools.base import CallBegin, CallParser, CallText, NotACall, Toolbox, ToolEvent, ToolFormat
from stoker.chat.tools.json_blocks import JsonBlocks


class ReplyReader:
    """Tags are dropped, and half a tag is held back until it is decided. A channel that is never closed
    is reasoning to its end; a closing tag that closes nothing is dropped too. Calls are found in both
    channels: some models call before they have closed their thinking. Space beside markup goes with
    it; text without markup passes as it is.

        feed("<thi") -> []      feed("nk>a</think>b") -> [Segment(True, "a", 8), Segment(False, "b", 17)]
    """

    def __init__(self, reading: ReplyReading) -> None:
        self._tags: tuple[str, ...] = reading.reasoning or ()
        self._format: ToolFormat | None = FORMATS[reading.tool_format] if reading.tool_format else None
        self._toolbox = Toolbox(reading.tools)
        # The common tag counts in every family: prompts of templates without tools ask for it.
        self._markers = (*dict.fromkeys((*self._format.markers, tool_call_tag.OPEN)),) if self._format else ()
        # What any markup begins with. Most pieces of a reply have none of these, and need no search.
        self._firsts = {word[0] for word in (*self._tags, *self._markers, tool_call_tag.CLOSE)}
        self._parser: CallParser | None = None
        self._held = ""  # text not decided yet
        self._space = ""  # space that goes out with the text behind it, or is dropped with markup
        self._after_markup = reading.starts_inside and not reading.continues
        self._num_fed = 0
        self._untouched = not reading.continues  # nothing but space so far: bare JSON may begin here
        self.inside = reading.starts_inside
        self.calls = CallWriter(parallel=reading.parallel, drop=reading.drop_calls)

    @property
    def num_held(self) -> int:
        return len(self._held) + len(self._space)

    def feed(self, text: str) -> list[Piece]:
        self._num_fed += len(text)
        pieces: list[Piece] = []
        self._read(text, pieces)
        return pieces

    def finish(self) -> list[Piece]:
        """What is still held: half a tag that turned out to be text, a call without its end."""
        pieces: list[Piece] = []
        while self._parser is not None and not self.calls.complete:
            parser, self._parser = self._parser, None
            self._take(parser.finish(), pieces)
            self._held += parser.rest
            self._read("", pieces)
        half_end = self._after_markup and self.calls.num_seen and tool_call_tag.CLOSE.startswith(self._held)
        if self.calls.complete or half_end:
            self._held = self._space = ""
        self._text(self._held, pieces)
        self._held = ""
        if self._space and not self._after_markup:
            pieces.append(Segment(self.inside, self._space, self._num_fed))
        self._space = ""
        return pieces

    def _read(self, text: str, pieces: list[Piece]) -> None:
        while not self.calls.complete:
            if self._parser is not None:
                if not text:
                    return
                self._feed_parser(self._parser, text, pieces)
            else:
                self._held += text
                if not self._find_markup(pieces):
                    return
            text = ""

    def _feed_parser(self, parser: CallParser, text: str, pieces: list[Piece]) -> None:
        events = parser.feed(text)
        self._parser = None if parser.done else parser
        self._take(events, pieces)
        if parser.done:
            self._held += parser.rest

    def _take(self, events: list[ToolEvent], pieces: list[Piece]) -> None:
        for event in events:
            if self.calls.complete:
                return
            if isinstance(event, CallBegin):
                self._space = ""
                self._after_markup = True
                pieces += self.calls.begin(event.name)
            elif isinstance(event, CallText):
                pieces += self.calls.append(event.text)
            elif isinstance(event, NotACall):
                self._give_back(event.text, pieces)
            else:
                self.calls.end(event.is_cut)

    def _give_back(self, text: str, pieces: list[Piece]) -> None:
        """The marker is text after all; what lies behind it is read again."""
        marker = next((word for word in self._markers if text.startswith(word)), text[:1])
        self._text(marker, pieces)
        self._held = text[len(marker) :]

    def _find_markup(self, pieces: list[Piece]) -> bool:
        """Gives out text up to the next markup. True when there is more to do."""
        if self._format is not None and self._may_be_bare(self._format):
            if not self._held.strip():
                return False
            self._space += self._held[: len(self._held) - len(self._held.lstrip())]
            held, self._held = self._held.lstrip(), ""
            self._untouched = False
            self._feed_parser(JsonBlocks(self._toolbox, ""), held, pieces)
            return True
        if self._firsts.isdisjoint(self._held):
            self._text(self._held, pieces)
            return False
        words = self._words()
        found = [(at, word) for word in words if (at := self._held.find(word)) >= 0]
        if not found:
            self._text(self._held[: len(self._held) - partial_suffix(self._held, words)], pieces)
            return False
        at, word = min(found, key=lambda item: (item[0], -len(item[1])))
        self._text(self._held[:at], pieces)
        if word in self._tags:
            self._held = self._held[len(word) :]
            self._space = ""
            self._after_markup = True
            self.inside = word == self._tags[0]
            return True
        if word == tool_call_tag.CLOSE:
            # One end mark too many, behind a call; elsewhere it is text.
            self._held = self._held.removeprefix(word) if self._after_markup else self._held
            self._text("" if self._after_markup else word, pieces)
            return True
        assert self._format is not None  # else there are no markers
        self._untouched = False
        held, self._held = self._held, ""
        make = self._format.make_parser if word in self._format.markers else tool_call_tag.make_parser
        self._feed_parser(make(self._toolbox), held, pieces)
        return True

    def _may_be_bare(self, found: ToolFormat) -> bool:
        if not (found.bare_json and self._untouched) or self.inside:
            return False
        start = self._held.lstrip()
        return not start or start[0] == "{"

    def _words(self) -> tuple[str, ...]:
        """The markup that may come now."""
        ends = (tool_call_tag.CLOSE,) if self.calls.num_seen else ()
        return (*self._tags, *self._markers, *ends)

    def _text(self, text: str, pieces: list[Piece]) -> None:
        """Gives out `text`, the beginning of `_held` (or in front of it)."""
        if self._held.startswith(text):
            self._held = self._held[len(text) :]
        if not text:
            return
        if self._after_markup:
            text = text.lstrip()
            if not text:
                return
        elif self._space:
            text, self._space = self._space + text, ""
        stripped = text.rstrip()
        self._space = text[len(stripped) :]
        if not stripped:
            return
        self._after_markup = False
        self._untouched = self._untouched and self.inside
        pieces.append(Segment(self.inside, stripped, self._num_fed - len(self._held) - len(self._space)))


def reading_for(
    template_sources: Iterable[str],
    prompt: str,
    tools: Iterable[OfferedTool] = (),
    *,
    parallel: bool = True,
    drop_calls: bool = False,
    prefill: str = "",
) -> ReplyReading | None:
    """How to read the reply to a rendered prompt; None where all of it is answer. `prefill` is the text
    in the prompt that the reply goes on from."""
    sources = list(template_sources)
    tags = reasoning_tags(sources)
    offered = tuple(tools)
    tool_format = format_for(sources) if offered else None
    is_harmony = FORMATS["harmony"].matches("".join(sources))
    if tags is None and tool_format is None and not is_harmony:
        return None
    return ReplyReading(
        reasoning=tags,
        starts_inside=tags is not None and (opens_reasoning(prompt, tags) or leaves_open(prefill, tags)),
        continues=bool(prefill),
        is_harmony=is_harmony,
        tool_format=tool_format,
        tools=offered,
        parallel=parallel,
        drop_calls=drop_calls,
    )
