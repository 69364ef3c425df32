"""Token bytes to text, a piece at a time, without ever cutting a character.

Pieces arrive in any size; grapheme clusters (an emoji family joined by ZWJ) may be spread over
several results, code points may not.
"""

from __future__ import annotations

from codecs import utf_8_decode


class Detokenizer:
    """`feed` bytes as they come.

    Bytes that cannot be UTF-8 become U+FFFD as in Python's own decoder (one per invalid
    sequence); a character that is only incomplete so far is waited for. What still waits when the
    stream ends is dropped: generation was cut there, the model wrote nothing wrong.
    """

    def __init__(self) -> None:
        self._held = b""  # the beginning of a character

    def feed(self, data: bytes) -> str:
        """The characters that are complete now."""
        data = self._held + data
        text, num_used = utf_8_decode(data, "replace", False)
        self._held = data[num_used:]
        return text

    @property
    def num_held_bytes(self) -> int:
        """Bytes of a character that is not complete yet, 0 to 3."""
        return len(self._held)
