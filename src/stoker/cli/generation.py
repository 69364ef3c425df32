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
from typing import TYPE_CHECKING, Any

from stoker.core import ErrorEvent, FinishEvent, GenerationRequest, PromptEvent, SamplingParams, TokenEvent
from stoker.errors import GenerationFailed

if TYPE_CHECKING:
    from stoker.app import Served
    from stoker.chat.model import TextModel
    from stoker.chat.reading import ReplyReading
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
    reasoning: str = ""

    def speeds(self) -> str:
        """One line for the person at the terminal."""
        computed = self.prompt_tokens - self.cached_tokens
        prefill = computed / self.prefill_s if self.prefill_s else 0.0
        decode = (self.tokens - 1) / self.decode_s if self.decode_s else 0.0
        return (
            f"prompt: {self.prompt_tokens} tokens, {self.prefill_s:.2f} s, {prefill:.0f} tokens/s; "
            f"answer: {self.tokens} tokens, {self.decode_s:.2f} s, {decode:.1f} tokens/s"
        )


def prompt_of(text: TextModel, messages: list[dict[str, Any]]) -> tuple[list[int], ReplyReading | None]:
    """The prompt of a conversation, and how to read the reply to it."""
    from stoker.chat.reader import reading_for

    rendered = text.render(messages)
    sources = text.template.sources.values() if text.template else ()
    return text.prompt_from_rendered(rendered), reading_for(sources, rendered)


def generate_reply(
    served: Served,
    prompt_ids: list[int],
    sampling: SamplingParams,
    *,
    max_tokens: int | None,
    emit: Callable[[str], None],
    emit_thinking: Callable[[str], None] = lambda text: None,
    reading: ReplyReading | None = None,
) -> Reply:
    """Runs one request and hands each piece of the answer to `emit`, of the thinking before it to
    `emit_thinking`.

    Ctrl-C ends the reply early with reason "cancelled"; a second Ctrl-C raises KeyboardInterrupt.
    Raises ContextLengthExceeded before anything is emitted, GenerationFailed after.
    """
    from stoker.chat.reply import ReplyAssembler, ReplyDelta

    assembler = ReplyAssembler(served.text.tokenizer, reading=reading)
    request = GenerationRequest(
        id=f"cli-{uuid.uuid4()}",
        prompt_ids=tuple(prompt_ids),
        sampling=sampling,
        max_tokens=max_tokens,
        eos_ids=served.text.eos_ids,
    )
    pieces: list[str] = []
    thoughts: list[str] = []
    token_ids: list[int] = []
    reason, prompt_tokens, cached_tokens = "stop", len(prompt_ids), 0
    started = first_token = last_token = time.perf_counter()

    def take(delta: ReplyDelta) -> None:
        if delta.reasoning:
            thoughts.append(delta.reasoning)
            emit_thinking(delta.reasoning)
        if delta.text:
            if thoughts and not pieces:
                emit_thinking("\n\n")
            pieces.append(delta.text)
            emit(delta.text)

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
                    take(assembler.push(event))
                elif isinstance(event, FinishEvent):
                    reason = event.reason
                    take(assembler.finish(event.reason))
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
        reasoning="".join(thoughts),
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
