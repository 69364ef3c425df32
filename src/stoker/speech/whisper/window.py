"""Decodes one window: search under the rules, and again at higher temperatures where the result looks bad.

Generators: they yield after every decoder step, so that the caller can stop or lend the device to others.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass

import torch

from stoker.speech.types import TranscribeOptions
from stoker.speech.whisper.decoder import CrossCache, Decoder, Window
from stoker.speech.whisper.rules import Rules
from stoker.speech.whisper.search import Beam, Sampling, Search, best, likeliest
from stoker.speech.whisper.tokenizer import WhisperTokenizer

Steps = Generator[None, None, "Decoding"]


@dataclass(frozen=True, slots=True)
class Decoding:
    tokens: tuple[int, ...]  # timestamps included, the end not
    temperature: float
    avg_logprob: float
    compression_ratio: float
    no_speech_prob: float


class WindowDecoder:
    """What stays the same over the windows of a take."""

    def __init__(
        self,
        decoder: Decoder,
        tokenizer: WhisperTokenizer,
        options: TranscribeOptions,
        *,
        seconds_per_position: float,
        generator: torch.Generator,
    ) -> None:
        self._decoder = decoder
        self._tokenizer = tokenizer
        self._options = options
        self._generator = generator
        self._likeliest = likeliest if decoder.native is None else decoder.native.likeliest
        initial = options.max_initial_timestamp_s
        self._rules = Rules(
            tokenizer,
            torch.tensor(tokenizer.suppressed),
            not options.without_timestamps,
            None if initial is None else round(initial / seconds_per_position),
        )

    def decode(self, cross: CrossCache, start: Sequence[int], prompt: Sequence[int]) -> Steps:
        """The first decoding, down the ladder of temperatures, that looks right; else the last one.

        start   <|startoftranscript|>, language, task
        prompt  what was said before
        """
        decoding = None
        for temperature in self._options.temperatures:
            decoding = yield from self._attempt(cross, start, prompt, temperature)
            if not self._looks_wrong(decoding):
                break
        assert decoding is not None
        return decoding

    def _looks_wrong(self, decoding: Decoding) -> bool:
        options = self._options
        repeats = (
            options.compression_ratio_threshold is not None
            and decoding.compression_ratio > options.compression_ratio_threshold
        )
        unlikely = options.logprob_threshold is not None and decoding.avg_logprob < options.logprob_threshold
        silent = (
            options.no_speech_threshold is not None and decoding.no_speech_prob > options.no_speech_threshold
        )
        return (repeats or unlikely) and not (silent and unlikely)

    def _attempt(
        self, cross: CrossCache, start: Sequence[int], prompt: Sequence[int], temperature: float
    ) -> Steps:
        tokenizer, text_ctx = self._tokenizer, self._decoder.dims.text_ctx
        search = self._search(temperature)
        initial = [tokenizer.sot_prev, *prompt, *start] if prompt else list(start)
        window = Window(self._decoder, cross, self._max_rows(temperature))
        hidden = window.begin(initial)
        sot_at = len(initial) - len(start)
        two = self._decoder.logits(hidden[[sot_at, len(initial) - 1]])
        no_speech = float(two[0].softmax(dim=-1)[tokenizer.no_speech])
        logits = two[1:]
        # The reference stops after half a context of text, or when the context is full.
        for taken in range(1, text_ctx // 2 + 1):
            self._rules.apply(logits, search.sampled)
            sources = search.update(logits)
            yield
            if sources is None or taken == text_ctx // 2 or len(initial) + taken > text_ctx:
                break
            window.select(sources)
            logits = window.step([tokens[-1] for tokens in search.sampled])
        chosen = best(search.candidates(), self._options.length_penalty)
        text = tokenizer.decode(chosen.tokens).strip()
        return Decoding(
            chosen.tokens,
            temperature,
            chosen.sum_logprob / (len(chosen.tokens) + 1),
            compression_ratio(text),
            no_speech,
        )

    def _max_rows(self, temperature: float) -> int:
        return self._options.best_of if temperature > 0 else self._options.beam_size

    def _search(self, temperature: float) -> Search:
        eot = self._tokenizer.eot
        if temperature == 0 and self._options.beam_size > 1:
            return Beam(self._options.beam_size, self._options.patience, eot, self._likeliest)
        count = self._options.best_of if temperature > 0 else 1
        return Sampling(temperature, count, eot, self._generator, self._likeliest)


def compression_ratio(text: str) -> float:
    """How much shorter zlib makes it: repetition shows."""
    data = text.encode()
    return len(data) / len(zlib.compress(data))
