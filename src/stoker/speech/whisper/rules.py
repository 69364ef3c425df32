"""What Whisper may say next: annotations never, a blank not first, timestamps in pairs and in order.

The rules are openai-whisper's (decoding.py); they change logits in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from stoker.speech.whisper.tokenizer import WhisperTokenizer

_NEVER = float("-inf")


@dataclass(frozen=True, slots=True)
class Rules:
    tokenizer: WhisperTokenizer
    suppressed: torch.Tensor  # int64, never sampled
    with_timestamps: bool
    max_initial_timestamp: int | None  # in steps of 0.02 s

    def apply(self, logits: torch.Tensor, sampled: Sequence[Sequence[int]]) -> None:
        """logits [R, vocabulary]; sampled: what each row has said so far, all of one length."""
        if not sampled[0]:
            logits[:, self.tokenizer.blank] = _NEVER
        logits.index_fill_(1, self.suppressed, _NEVER)
        if self.with_timestamps:
            for row, tokens in zip(logits, sampled, strict=True):
                self._keep_order(row, tokens)
            if not sampled[0]:
                self._begin_with_time(logits)
            self._prefer_time(logits)

    def _keep_order(self, row: torch.Tensor, tokens: Sequence[int]) -> None:
        begin = self.tokenizer.timestamp_begin
        row[self.tokenizer.no_timestamps] = _NEVER
        after_time = bool(tokens) and tokens[-1] >= begin
        opens = after_time and (len(tokens) < 2 or tokens[-2] >= begin)
        if after_time:
            if opens:  # text has to follow
                row[begin:] = _NEVER
            else:  # the other half of the pair, or the end
                row[: self.tokenizer.eot] = _NEVER
        last = next((token for token in reversed(tokens) if token >= begin), None)
        if last is not None:
            # Never backwards, and no segment without length, which could repeat for ever.
            row[begin : last if after_time and not opens else last + 1] = _NEVER

    def _begin_with_time(self, logits: torch.Tensor) -> None:
        begin = self.tokenizer.timestamp_begin
        logits[:, :begin] = _NEVER
        if self.max_initial_timestamp is not None:
            logits[:, begin + self.max_initial_timestamp + 1 :] = _NEVER

    def _prefer_time(self, logits: torch.Tensor) -> None:
        """Where all timestamps together are likelier than any text, only timestamps remain."""
        begin = self.tokenizer.timestamp_begin
        times = logits[:, begin:].logsumexp(dim=-1).tolist()
        for row, time in zip(logits, times, strict=True):
            if time > row[:begin].numpy(force=True).max():  # several times as fast as torch's
                row[:begin] = _NEVER
