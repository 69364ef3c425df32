"""What bytes a vocabulary entry stands for, by kind of tokenizer.

Only single entries: joining them into text is `detokenizer.py`. The kind is read from the
`decoder` of a tokenizer.json; the vocabularies themselves are never loaded here.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

METASPACE = "\u2581"
_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


@cache
def byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-in for each byte, as character -> byte.

    Bytes that print in Latin-1 stand for themselves; the others take the code points from 256 up,
    in order (Radford et al., 2019; the same table is in every byte-level BPE since).
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [byte for byte in range(256) if byte not in set(printable)]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(rest)}


@dataclass(frozen=True, slots=True)
class PieceDecoder:
    """How one vocabulary string becomes bytes. Read from tokenizer.json by `from_backend`."""

    byte_level: bool = False  # every character is one byte of GPT-2's alphabet
    byte_fallback: bool = False  # `<0xE4>` is the byte E4
    replacements: tuple[tuple[str, str], ...] = ()  # SentencePiece: ("\u2581", " ")
    word_suffix: str = ""  # classic BPE: "</w>" ends a word and stands for a space
    word_prefix: str = ""  # WordPiece: "##" continues a word; without it a space comes first
    strips_start: int = 0  # spaces that encoding puts before a text and decoding takes off again

    @classmethod
    def from_backend(cls, decoder: Any) -> PieceDecoder:
        """The rules of a `tokenizers` decoder. None (no decoder) leaves the strings as they are."""
        if decoder is None:
            return cls()
        return cls.from_json(json.loads(decoder.__getstate__()))

    @classmethod
    def from_json(cls, spec: dict[str, Any]) -> PieceDecoder:
        """The same from the `decoder` object of a tokenizer.json."""
        byte_level = byte_fallback = False
        replacements: list[tuple[str, str]] = []
        suffix = prefix = ""
        strips = 0
        for step in spec["decoders"] if spec["type"] == "Sequence" else [spec]:
            match step["type"]:
                case "ByteLevel":
                    byte_level = True
                case "ByteFallback":
                    byte_fallback = True
                case "Replace" if "String" in step["pattern"]:
                    replacements.append((step["pattern"]["String"], step["content"]))
                case "Metaspace":
                    replacements.append((step["replacement"], " "))
                    prepends = step.get(
                        "prepend_scheme", "always" if step.get("add_prefix_space") else "never"
                    )
                    strips += prepends != "never"
                case "Strip" if step["content"] == " ":
                    strips += step["start"]
                case "BPEDecoder":
                    suffix = step["suffix"]
                case "WordPiece":
                    prefix = step["prefix"]
                    strips += 1
                case _:  # Fuse joins pieces, which we do anyway; the rest does not touch single pieces
                    pass
        return cls(byte_level, byte_fallback, tuple(replacements), suffix, prefix, strips)

    def ordinary(self, piece: str) -> bytes:
        """Bytes of an entry of the model's own vocabulary."""
        if self.byte_level:
            alphabet = byte_alphabet()
            if all(char in alphabet for char in piece):
                return bytes(alphabet[char] for char in piece)
            return piece.encode("utf-8", "replace")
        if self.byte_fallback and (found := _BYTE_PIECE.fullmatch(piece)):
            return bytes([int(found[1], 16)])
        for old, new in self.replacements:
            piece = piece.replace(old, new)
        if self.word_suffix:
            piece = piece.replace(self.word_suffix, " ")
        if self.word_prefix:
            piece = (
                piece.removeprefix(self.word_prefix) if piece.startswith(self.word_prefix) else " " + piece
            )
        return piece.encode("utf-8", "replace")

    def added(self, content: str) -> bytes:
        """Bytes of an added token that is not special.

        Its content is plain text, except where a vocabulary entry was merely listed among the
        added tokens and kept its spelling: Gemma's runs of `\u2581`, or `\u0120hello`.
        """
        if not self.byte_level:
            for old, new in self.replacements:
                content = content.replace(old, new)
            return content.encode("utf-8", "replace")
        mapped = self.ordinary(content)
        try:
            mapped.decode("utf-8")
        except UnicodeDecodeError:  # `é` is in the alphabet, as a byte that no text can hold alone
            return content.encode("utf-8")
        return mapped
