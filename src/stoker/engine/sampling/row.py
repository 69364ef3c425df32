"""What sampling remembers of one row between steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from stoker.core import SamplingParams
from stoker.engine.sampling.processors import Processors
from stoker.engine.sampling.randomness import Purpose, RandomStream


class SamplerRow:
    """One choice of one request: its parameters, penalty windows, random stream and position.

    Made when the request is admitted; `accept` follows every token that joins the row. `sample`
    itself changes nothing here: sampling twice without `accept` gives the same token twice.
    """

    def __init__(
        self,
        params: SamplingParams,
        prompt_ids: Sequence[int],
        eos_ids: Iterable[int] = (),
        newline_ids: Iterable[int] = (),
        choice_index: int = 0,
    ) -> None:
        self.params = params
        self.processors = Processors(params, prompt_ids)
        self.xtc_exempt = np.array(sorted({*eos_ids, *newline_ids}), dtype=np.int64)
        self.position = 0  # generated tokens so far
        self._random = RandomStream(params.seed, choice_index)

    @property
    def is_greedy(self) -> bool:
        return self.params.temperature <= 0

    @property
    def wants_logprobs(self) -> bool:
        return self.params.logprobs >= 0

    def uniform(self, purpose: Purpose) -> float:
        """The random number of this position for `purpose`, in [0, 1)."""
        return self._random.uniform(self.position, purpose)

    @property
    def random_key(self) -> bytes:
        return self._random.key

    def resume(self, random_key: bytes) -> None:
        """Draws as the row did that had this key; `accept` what it said before sampling."""
        self._random = RandomStream.from_key(random_key)

    def accept(self, token_id: int) -> None:
        """`token_id` is the row's next token: penalties see it, the position advances."""
        self.processors.accept(token_id)
        self.position += 1
