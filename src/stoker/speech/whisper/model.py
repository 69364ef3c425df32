"""A Whisper model in memory, and the way to transcribe with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import torch

from stoker.speech.types import Cancelled, Segment, TranscribeOptions, Transcript
from stoker.speech.whisper.checkpoint import WhisperCheckpoint, open_whisper
from stoker.speech.whisper.decoder import EMBEDDING, CrossCache, Decoder, Window
from stoker.speech.whisper.encoder import Encoder
from stoker.speech.whisper.mel import Samples
from stoker.speech.whisper.packing import Packing
from stoker.speech.whisper.take import Take
from stoker.speech.whisper.tokenizer import WhisperTokenizer

T = TypeVar("T")


class Networks(NamedTuple):
    encoder: Encoder
    decoder: Decoder


class WhisperModel:
    """One take at a time. Dropping the model frees its memory."""

    def __init__(
        self, checkpoint: WhisperCheckpoint, device: torch.device, num_threads: int, *, faithful: bool
    ) -> None:
        self.dims = checkpoint.dims
        self.alignment_heads = checkpoint.alignment_heads
        self.num_threads = num_threads
        self._device = device
        self._checkpoint = checkpoint  # maps the file: reading it again costs no memory until then
        self._networks: dict[bool, Networks] = {}
        # Reading the tokenizer keeps the interpreter to itself, but packing hardly needs it.
        self.tokenizer = WhisperTokenizer(self._load(faithful, checkpoint.read_tokenizer))

    @property
    def nbytes(self) -> int:
        return sum(encoder.nbytes + decoder.nbytes for encoder, decoder in self._networks.values())

    @property
    def languages(self) -> tuple[str, ...]:
        return tuple(self.tokenizer.language_ids) or ("en",)

    def language_code(self, language: str | None) -> str | None:
        """The code of a language given by code or English name; None = to be detected.
        Raises InvalidRequest for a language this model does not know."""
        return self.tokenizer.language_code(language)

    def networks(self, *, faithful: bool) -> Networks:
        """Made from the checkpoint when they are first asked for."""
        if faithful not in self._networks:
            self._load(faithful, lambda: None)
        return self._networks[faithful]

    def _load(self, faithful: bool, beside: Callable[[], T]) -> T:
        """The networks, on all threads; also what `beside` returns."""
        checkpoint, device = self._checkpoint, self._device
        with ThreadPoolExecutor(self.num_threads, thread_name_prefix="load") as pool:
            packing = Packing(device, faithful=faithful)
            # The largest matrix begins, then the tokenizer, then everything else.
            embedding = pool.submit(packing, checkpoint.matrix(EMBEDDING))
            other = pool.submit(beside)
            encoder = pool.submit(Encoder, checkpoint, device, faithful=faithful)
            decoder = Decoder(
                checkpoint, device, faithful=faithful, packing=packing, embedding=embedding.result, pool=pool
            )
            self._networks[faithful] = Networks(encoder.result(), decoder)
            return other.result()

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
