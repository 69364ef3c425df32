"""Which token ids a conversation consisted of when its last reply was made.

A model may spell a text in other tokens than the tokenizer would: encoding its reply again as part of
the next prompt then gives other ids, and nothing computed for it fits any more. So the ids of prompt
and reply are kept by their bytes. A prompt that begins with exactly those bytes begins with those
ids; after an edit no stored text fits, and the prompt is encoded anew.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Sequence

from stoker.chat.tokenizer import Tokenizer

MAX_BYTES = 64 * 2**20
_ID_BYTES = 4


class RememberedTexts:
    """At most `max_bytes` of texts and ids, the least recently used leaving first. Thread-safe."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._num_bytes = 0
        self._lock = threading.Lock()
        self._ids: OrderedDict[bytes, array[int]] = OrderedDict()  # by text, least recently used first
        self._sorted: list[bytes] = []  # the texts

    def __len__(self) -> int:
        return len(self._ids)

    def remember(self, tokenizer: Tokenizer, ids: Sequence[int]) -> None:
        """The ids of a prompt and the reply to it, without the token that ended the reply."""
        text = tokenizer.text_bytes(ids)
        if not text:
            return
        with self._lock:
            self._forget(text)
            self._ids[text] = array("i", ids)
            self._sorted.insert(bisect_left(self._sorted, text), text)
            self._num_bytes += _size(text, len(ids))
            while self._num_bytes > self._max_bytes:
                self._forget(next(iter(self._ids)))

    def longest(self, text: bytes) -> tuple[bytes, list[int]] | None:
        """The longest remembered text that `text` begins with and goes beyond, and its ids."""
        with self._lock:
            # In sorted order the prefixes of a text come before it, though not always next to it.
            bound = text
            while (at := bisect_right(self._sorted, bound)) > 0:
                candidate = self._sorted[at - 1]
                if len(candidate) < len(text) and text.startswith(candidate):
                    self._ids.move_to_end(candidate)
                    return candidate, self._ids[candidate].tolist()
                shared = _common_length(candidate, bound)
                # Shorter than `candidate` even when that is `text` itself.
                bound = bound[: min(shared, len(candidate) - 1)]
            return None

    def _forget(self, text: bytes) -> None:
        """Under the lock; nothing when it is not there."""
        if text in self._ids:
            self._num_bytes -= _size(text, len(self._ids.pop(text)))
            del self._sorted[bisect_left(self._sorted, text)]


def _size(text: bytes, num_ids: int) -> int:
    return len(text) + _ID_BYTES * num_ids


def _common_length(a: bytes, b: bytes) -> int:
    """Bytes that both begin with; by halving, since comparing slices is fast."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[:middle] == b[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def encode_with(tokenizer: Tokenizer, remembered: RememberedTexts, text: str) -> list[int]:
    """As `tokenizer.encode` without opening tokens, but what is remembered keeps its ids."""
    data = text.encode("utf-8", "surrogatepass")
    found = remembered.longest(data)
    if found is not None:
        known, ids = found
        rest = _as_text(data[len(known) :])
        if rest is not None:
            following = tokenizer.encode(rest, add_special=False)
            # Some tokenizers put a space before any text, and some change what they encode; where
            # the pieces do not spell the prompt, it is encoded whole.
            if tokenizer.raw_bytes(following) == data[len(known) :]:
                return [*ids, *following]
    return tokenizer.encode(text, add_special=False)


def _as_text(data: bytes) -> str | None:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None  # a character was cut in two, or is half a surrogate pair
