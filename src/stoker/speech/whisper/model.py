"""A Whisper model in memory, and the way to transcribe with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

from stoker.speech.types import Cancelled, Segment, TranscribeOptions, Transcript
from stoker.speech.whisper.checkpoint import WhisperCheckpoint, open_whisper
from stoker.speech.whisper.decoder import CrossCache, Decoder, Window
from stoker.speech.whisper.encoder import Encoder
from stoker.speech.whisper.mel import Samples
from stoker.speech.whisper.take import Take
from stoker.speech.whisper.tokenizer import WhisperTokenizer


class WhisperModel:
    """One take at a time. Dropping the model frees its memory."""

    def __init__(
        self, checkpoint: WhisperCheckpoint, device: torch.device, num_threads: int, *, faithful: bool
    ) -> None:
        self.dims = checkpoint.dims
        self.alignment_heads = checkpoint.alignment_heads
        self.tokenizer = WhisperTokenizer(checkpoint.tokenizer)
        self.num_threads = num_threads
        self._device = device
        self._checkpoint = checkpoint  # maps the file: reading it again costs no memory until then
        with ThreadPoolExecutor(1, thread_name_prefix="load") as beside:
            encoder = beside.submit(Encoder, checkpoint, device, faithful=faithful)
            self._decoders = {faithful: self._make_decoder(faithful)}
            self._encoders = {faithful: encoder.result()}

    @property
    def nbytes(self) -> int:
        encoders = sum(encoder.nbytes for encoder in self._encoders.values())
        return encoders + sum(decoder.nbytes for decoder in self._decoders.values())

    @property
    def languages(self) -> tuple[str, ...]:
        return tuple(self.tokenizer.language_ids) or ("en",)

    def language_code(self, language: str | None) -> str | None:
        """The code of a language given by code or English name; None = to be detected.
        Raises InvalidRequest for a language this model does not know."""
        return self.tokenizer.language_code(language)

    def encoder(self, *, faithful: bool) -> Encoder:
        """Made from the checkpoint when it is first asked for, as is the decoder."""
        if faithful not in self._encoders:
            self._encoders[faithful] = Encoder(self._checkpoint, self._device, faithful=faithful)
        return self._encoders[faithful]

    def decoder(self, *, faithful: bool) -> Decoder:
        if faithful not in self._decoders:
            self._decoders[faithful] = self._make_decoder(faithful)
        return self._decoders[faithful]

    def _make_decoder(self, faithful: bool) -> Decoder:
        return Decoder(self._checkpoint, self._device, faithful=faithful, num_threads=self.num_threads)

    def begin(self, options: TranscribeOptions, on_segment: Callable[[Segment], None] | None = None) -> Take:
        """A take to be fed and stepped by the caller, inside torch.inference_mode()."""
        return Take(self, options, on_segment)

    def transcribe(
        self,
        samples: Samples | Iterable[Samples],
        options: TranscribeOptions | None = None,
        *,
        on_segment: Callable[[Segment], None] | None = None,
        on_progress: Callable[[int, int], None] | None = None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> Transcript:
        """The whole recording: float32, mono, 16 kHz, in one array or in blocks.

        on_progress  frames done, of how many; after each window
        Raises Cancelled within one decoder step after `should_stop` has turned true, and
        InvalidRequest for a language the model does not know.
        """
        blocks = (samples,) if isinstance(samples, np.ndarray) else samples
        with torch.inference_mode():
            take = self.begin(options or TranscribeOptions(), on_segment)
            for block in blocks:
                if should_stop():
                    raise Cancelled
                take.feed(block)
            seek = 0
            for _ in take.finish():
                if should_stop():
                    raise Cancelled
                if on_progress is not None and take.seek != seek:
                    seek = take.seek
                    on_progress(min(seek, take.num_frames), take.num_frames)
            if on_progress is not None:
                on_progress(take.num_frames, take.num_frames)
            return take.transcript()

    def detect(self, decoder: Decoder, cross: CrossCache) -> tuple[str, float]:
        """The likeliest language of an encoded window, and its probability among all languages."""
        window = Window(decoder, cross, 1)
        logits = decoder.logits(window.begin([self.tokenizer.sot]))[0]
        codes = list(self.tokenizer.language_ids)
        odds = logits[[self.tokenizer.language_ids[code] for code in codes]].softmax(dim=-1)
        top = int(odds.argmax())
        return codes[top], float(odds[top])

    @contextmanager
    def all_threads(self) -> Iterator[None]:
        """Torch's own threads, for the large products of the encoder; a server keeps torch at one,
        because its idle threads spin."""
        before = torch.get_num_threads()
        torch.set_num_threads(self.num_threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def load_whisper(
    path: Path | str,
    *,
    device: torch.device | str = "cpu",
    num_threads: int | None = None,
    faithful: bool = False,
) -> WhisperModel:
    """A checkpoint folder of any format: CTranslate2, Hugging Face or MLX.

    num_threads  of the encoder; None = torch's present number. The decoder's kernels run on the team that
                 kernels.native.set_num_threads gave the process.
    faithful     load the reference arithmetic first; either is loaded on demand.
    Raises ModelNotFound, CorruptModel or UnsupportedModel.
    """
    threads = num_threads or torch.get_num_threads()
    return WhisperModel(open_whisper(Path(path)), torch.device(device), threads, faithful=faithful)
