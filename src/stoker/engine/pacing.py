"""How many prompt tokens go along with a step of decoding rows.

A few at a time would be gentle and slow: keys, values and weights are read for each chunk, however small.
So chunks are large enough to be efficient, as far as the pause they cause is bearable, and far enough apart
that the decoding rows keep most of their speed. Both follow from what steps take here, as they run.
"""

from __future__ import annotations

SHARE = 0.35  # of the time that prompts may take from rows that decode; more where they are not fewer
LARGEST_SHARE = 0.75
PAUSE_S = 0.05  # by which a chunk may delay the next token of those rows
FIRST_CHUNK = 32  # before anything was measured
SMALLEST_CHUNK = 8
_MEMORY = 0.7  # weight of the past in the running means


class PrefillPacer:
    """Fair sharing of time, not of tokens: rows and prompts are weighed by the seconds they take here.

    largest  tokens of a chunk beside decoding rows, whatever it takes
    """

    def __init__(self, *, largest: int) -> None:
        self._largest = largest
        self._step_s: float | None = None  # a step of decoding rows alone
        self._token_s: float | None = None  # what a prompt token adds to it
        self._owed_s = 0.0  # time that the decoding rows have to themselves before the next chunk

    def chunk(self) -> int:
        """Prompt tokens for the next step, beside rows that decode; 0 while it is their turn."""
        if self._owed_s > 0:
            return 0
        if self._token_s is None:
            return min(FIRST_CHUNK, self._largest)
        affordable = PAUSE_S / max(self._token_s, PAUSE_S / self._largest)
        return min(self._largest, max(SMALLEST_CHUNK, int(affordable)))

    def after_step(
        self, seconds: float, *, num_decoding: int, num_prompts: int, num_prompt_tokens: int
    ) -> None:
        """A step took so many seconds. It held the next tokens of `num_decoding` rows and `num_prompt_tokens`
        of the `num_prompts` being computed. A prompt that had it to itself says nothing about sharing."""
        if not num_decoding:
            self._owed_s = 0.0
        elif not num_prompt_tokens:
            self._step_s = _mean(self._step_s, seconds)
            self._owed_s -= seconds
        else:
            added = max(0.0, seconds - (self._step_s or 0.0))
            self._token_s = _mean(self._token_s, added / num_prompt_tokens)
            share = min(LARGEST_SHARE, max(SHARE, num_prompts / (num_prompts + num_decoding)))
            # A hiccup of the machine is not held against prompts for ever.
            self._owed_s = min(added, 3 * PAUSE_S) * (1 - share) / share


def _mean(past: float | None, now: float) -> float:
    return now if past is None else _MEMORY * past + (1 - _MEMORY) * now
