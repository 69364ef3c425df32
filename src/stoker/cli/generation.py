"""One reply of a loaded model, streamed as text to a callable. Shared by generate and chat."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING

from stoker.core import ErrorEvent, FinishEvent, GenerationRequest, PromptEvent, SamplingParams, TokenEvent
from stoker.errors import GenerationFailed

if TYPE_CHECKING:
    from stoker.app import Served
    from stoker.engine import GenerationHandle


@dataclass(frozen=True, slots=True)
class Reply:
    text: str
    reason: str  # stop, length or cancelled
    prompt_tokens: int
    cached_tokens: int
    tokens: int  # generated, the end-of-text token included
    prefill_s: float  # from submitting to the first token
    decode_s: float  # from the first token to the last

    def speeds(self) -> str:
        """One line for the person at the terminal."""
        computed = self.prompt_tokens - self.cached_tokens
        prefill = computed / self.prefill_s if self.prefill_s else 0.0
        decode = (self.tokens - 1) / self.decode_s if self.decode_s else 0.0
        return (
            f"prompt: {self.prompt_tokens} tokens, {self.prefill_s:.2f} s, {prefill:.0f} tokens/s; "
            f"answer: {self.tokens} tokens, {self.decode_s:.2f} s, {decode:.1f} tokens/s"
        )


def generate_reply(
    served: Served,
    prompt_ids: list[int],
    sampling: SamplingParams,
    *,
    max_tokens: int | None,
    emit: Callable[[str], None],
) -> Reply:
    """Runs one request and hands each piece of text to `emit`.

    Ctrl-C ends the reply early with reason "cancelled"; a second Ctrl-C raises KeyboardInterrupt.
    Raises ContextLengthExceeded before anything is emitted, GenerationFailed after.
    """
    from stoker.chat.reply import ReplyAssembler

    assembler = ReplyAssembler(served.text.tokenizer, stops=(), want_logprobs=False)
    request = GenerationRequest(
        id=f"cli-{uuid.uuid4()}",
        prompt_ids=tuple(prompt_ids),
        sampling=sampling,
        max_tokens=max_tokens,
        eos_ids=served.text.eos_ids,
    )
    pieces: list[str] = []
    token_ids: list[int] = []
    reason, prompt_tokens, cached_tokens = "stop", len(prompt_ids), 0
    started = first_token = last_token = time.perf_counter()

    def take(text: str) -> None:
        if text:
            pieces.append(text)
            emit(text)

    with cancelled_by_interrupt(handle := served.engine.submit(request)):
        for events in handle.batches_blocking():
            for event in events:
                if isinstance(event, PromptEvent):
                    prompt_tokens, cached_tokens = event.prompt_tokens, event.cached_tokens
                elif isinstance(event, TokenEvent):
                    last_token = time.perf_counter()
                    if assembler.num_tokens == 0:
                        first_token = last_token
                    token_ids.append(event.token_id)
                    take(assembler.push(event).text)
                elif isinstance(event, FinishEvent):
                    reason = event.reason
                    take(assembler.finish(event.reason).text)
                elif isinstance(event, ErrorEvent):
                    raise GenerationFailed(event.message)
    served.text.remember_reply(prompt_ids, token_ids)
    return Reply(
        text="".join(pieces),
        reason=reason,
        prompt_tokens=prompt_tokens,
        cached_tokens=cached_tokens,
        tokens=assembler.num_tokens,
        prefill_s=first_token - started,
        decode_s=last_token - first_token,
    )


@contextlib.contextmanager
def cancelled_by_interrupt(handle: GenerationHandle) -> Iterator[None]:
    """Within it the first Ctrl-C cancels the request instead of raising KeyboardInterrupt."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed = False

    def handle_interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True
        # From a thread of its own: the interrupted code may hold the lock that cancel needs.
        threading.Thread(target=handle.cancel, daemon=True).start()

    before = signal.signal(signal.SIGINT, handle_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
