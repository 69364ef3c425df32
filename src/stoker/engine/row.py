"""One row: a choice of a request on its way through the engine. State only, no decisions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from stoker.cache import Node
from stoker.core import GenerationRequest
from stoker.engine.handle import GenerationHandle


@dataclass(slots=True, eq=False)
class Row:
    """Tokens 0 .. num_computed-1 are in the KV cache; the rest are work for the next steps."""

    request: GenerationRequest
    index: int  # which choice of the request
    handle: GenerationHandle
    sampler: Any  # SamplerRow, opaque to the scheduler
    tokens: list[int]  # prompt, then what was generated
    max_tokens: int  # generated at most, already cut to the room in the context
    session: str | None = None  # the request's label, until that is closed
    leader: Row | None = None  # choice 0 of the same request, whose prefill this row waits to share
    siblings: list[Row] = field(default_factory=list)  # the rows that wait for this one
    kv: Any = None  # the KV layout's row; None while nothing is held
    num_computed: int = 0
    num_cached: int = 0  # of the prompt, found in the prefix cache when the row was admitted
    from_session: bool = False  # its session's checkpoint led to them, without a search
    looked_up_at: int = -1  # publications in the prefix cache when it was last asked for this row
    published: Node | None = None  # the last node of what it has given to the prefix cache
    num_generated: int = 0
    untold: list[int] = field(default_factory=list)  # generated before an interruption, not delivered yet
    matcher: Any = None  # grammar.RowMatcher of a constrained row, opaque to the scheduler
    admitted: bool = False  # has run at least once (a preempted row waits again, admitted)

    @property
    def num_prompt(self) -> int:
        return len(self.request.prompt_ids)

    @property
    def max_length(self) -> int:
        """Tokens it may come to hold."""
        return self.num_prompt + self.max_tokens

    @property
    def num_pending(self) -> int:
        """Tokens not yet computed: 1 while decoding, more while prefilling."""
        return len(self.tokens) - self.num_computed
