"""The microphone, through PortAudio: chunks of 16 kHz mono sound until somebody says that it is enough."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from stoker.cli.output import fail, note
from stoker.speech.audio import to_16k
from stoker.speech.types import SAMPLE_RATE
from stoker.speech.wav import Samples

CHUNK_S = 0.5
_BLOCK_S = 0.05  # what is lost at most when a take ends: the block that is not yet full


class Microphone:
    """The system's default input."""

    def __init__(self) -> None:
        """Ends the program with a sentence when there is no way to one."""
        try:
            import sounddevice  # type: ignore[import-not-found, import-untyped, unused-ignore]
        except ImportError:
            fail('dictation needs a microphone library: pip install "stoker[microphone]"')
        except OSError as error:  # the library is there, PortAudio is not
            fail(f"the microphone cannot be used: {error}")
        self._library: Any = sounddevice

    @contextmanager
    def recording(self, wait_for_end: Callable[[], None]) -> Iterator[Iterator[Samples]]:
        """It listens from here on, whether the chunks are taken out yet or not."""
        blocks: queue.Queue[Samples | None] = queue.Queue()
        lost = threading.Event()

        def heard(data: Any, _frames: int, _time: Any, status: Any) -> None:
            if getattr(status, "input_overflow", False):
                lost.set()
            blocks.put(np.array(data[:, 0], np.float32))

        def taken() -> Iterator[Samples]:
            while (block := blocks.get()) is not None:
                yield block

        def end() -> None:
            wait_for_end()
            blocks.put(None)

        stream, rate = self._open(heard)
        with stream:
            threading.Thread(target=end, daemon=True, name="dictate-end").start()
            yield _chunks(to_16k(taken(), rate))
        if lost.is_set():
            note("Some sound was lost: this machine did not keep up with the microphone.")

    def _open(self, heard: Callable[..., None]) -> tuple[Any, int]:
        """A stream and its rate: ours, or the device's own where it has no other."""
        try:
            return self._stream(SAMPLE_RATE, heard), SAMPLE_RATE
        except self._library.PortAudioError as error:
            refusal = error
        try:
            rate = int(self._library.query_devices(None, "input")["default_samplerate"])
            return self._stream(rate, heard), rate
        except (self._library.PortAudioError, ValueError):
            fail(f"the microphone cannot be opened: {refusal}")

    def _stream(self, rate: int, heard: Callable[..., None]) -> Any:
        return self._library.InputStream(
            samplerate=rate, channels=1, dtype="float32", blocksize=int(_BLOCK_S * rate), callback=heard
        )


def _chunks(blocks: Iterator[Samples]) -> Iterator[Samples]:
    """Small blocks put together; each chunk is a request to a server."""
    gathered: list[Samples] = []
    for block in blocks:
        gathered.append(block)
        if sum(map(len, gathered)) >= CHUNK_S * SAMPLE_RATE:
            yield np.concatenate(gathered)
            gathered = []
    if gathered:
        yield np.concatenate(gathered)
