"""Whisper's tokenizer: text tokens by byte-level BPE, control tokens by their names, times by their number.

Control tokens are looked up, not assumed: English-only, multilingual and large-v3 checkpoints number them
differently. Timestamps are the ids from `timestamp_begin` on, 0.02 s each, in the file or not.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from functools import cached_property

import tokenizers

from stoker.errors import CorruptModel, InvalidRequest
from stoker.speech.types import Task
from stoker.speech.whisper.languages import CODES, UNSPACED, find_code

# Annotations rather than speech: brackets, speaker dashes, notes.
_SYMBOLS = [
    *"\"#()*+/:;<=>@[\\]^_`{|}~「」『』",
    *("<<", ">>", "<<<", ">>>", "--", "---", "-(", "-[", "('", '("', "((", "))", "(((", ")))"),
    *("[[", "]]", "{{", "}}", "♪♪", "♪♪♪"),
]  # fmt: skip
_GPT2_END = 50256
_NOTES = "♩♪♫♬♭♮♯"  # several tokens each; the first one is enough to forbid


class WhisperTokenizer:
    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        self._backend = backend
        self.eot = self._control("<|endoftext|>")
        self.sot = self._control("<|startoftranscript|>")
        self.transcribe = self._control("<|transcribe|>")
        self.translate = self._control("<|translate|>")
        self.sot_lm = self._control("<|startoflm|>")
        self.sot_prev = self._control("<|startofprev|>")
        self.no_speech = self._control("<|nospeech|>", "<|nocaptions|>")
        self.no_timestamps = self._control("<|notimestamps|>")
        self.timestamp_begin = self.no_timestamps + 1
        # English-only checkpoints list languages and tasks too, but were not trained with them. Their text
        # tokens are GPT-2's, one fewer than the others have.
        self.is_multilingual = self.eot != _GPT2_END
        self.language_ids: dict[str, int] = {}
        if self.is_multilingual:
            for code in CODES:
                found = backend.token_to_id(f"<|{code}|>")
                if found is not None and self.sot < found < self.timestamp_begin:
                    self.language_ids[code] = found

    def _control(self, *names: str) -> int:
        for name in names:
            found = self._backend.token_to_id(name)
            if found is not None:
                return int(found)
        raise CorruptModel(f"the tokenizer has no {names[0]}; it is not Whisper's")

    def encode(self, text: str) -> list[int]:
        """Control tokens written out in `text` are dropped: a prompt must not steer the decoder."""
        ids = self._backend.encode(text, add_special_tokens=False).ids
        return [i for i in ids if i < self.eot]

    def decode(self, ids: Sequence[int]) -> str:
        """The text, times and control tokens left out."""
        return str(self._backend.decode([i for i in ids if i < self.eot], skip_special_tokens=False))

    def language_code(self, language: str | None) -> str | None:
        """The code of `language` (code or name), None for "detect". Raises InvalidRequest."""
        if language is None or language.strip().casefold() in ("", "auto"):
            return None if self.is_multilingual else "en"
        code = find_code(language)
        known = self.language_ids or {"en": self.sot}
        if code not in known:
            raise InvalidRequest(
                f"unsupported language: {language} (this model knows {', '.join(known)})", param="language"
            )
        return code

    def start_sequence(self, language: str, task: Task, without_timestamps: bool) -> list[int]:
        ids = [self.sot]
        if self.is_multilingual:
            ids += [self.language_ids[language], self.translate if task == "translate" else self.transcribe]
        return [*ids, self.no_timestamps] if without_timestamps else ids

    @cached_property
    def suppressed(self) -> list[int]:
        """Never sampled: annotations, and the control tokens that only prompts hold."""
        found = {self.encode(" -")[0], self.encode(" '")[0]}  # allowed inside a word, not before one
        for symbol in [*_SYMBOLS, *_NOTES]:
            for text in (symbol, f" {symbol}"):
                ids = self.encode(text)
                if ids and (len(ids) == 1 or symbol in _NOTES):
                    found.add(ids[0])
        found |= {self.transcribe, self.translate, self.sot, self.sot_prev, self.sot_lm, self.no_speech}
        return sorted(found)

    @cached_property
    def blank(self) -> list[int]:
        """Not sampled first: a space, or the end."""
        return [*self.encode(" "), self.eot]

    def split_words(self, ids: Sequence[int], language: str) -> list[tuple[str, list[int]]]:
        """Text tokens as words with their ids; the space stays before its word. Languages written
        without spaces are split at every whole character."""
        pieces = self._split_characters(ids)
        if language in UNSPACED:
            return pieces
        words: list[tuple[str, list[int]]] = []
        for text, piece_ids in pieces:
            if not words or text.startswith(" ") or text.strip() in string.punctuation:
                words.append((text, piece_ids))
            else:
                words[-1] = (words[-1][0] + text, words[-1][1] + piece_ids)
        return words

    def _split_characters(self, ids: Sequence[int]) -> list[tuple[str, list[int]]]:
        """The smallest runs of tokens that are whole characters."""
        whole = self.decode(ids)
        pieces: list[tuple[str, list[int]]] = []
        pending: list[int] = []
        offset = 0
        for token in ids:
            pending.append(token)
            text = self.decode(pending)
            place = offset + text.find("\ufffd")
            # A replacement character that the whole text has too is damage, not an unfinished character.
            if "\ufffd" not in text or (place < len(whole) and whole[place] == "\ufffd"):
                pieces.append((text, pending))
                pending = []
                offset += len(text)
        return pieces
