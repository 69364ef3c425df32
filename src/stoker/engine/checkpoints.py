"""Generations that survive an interruption: every so many tokens, what a row has said goes to disk.

The same request, asked again, says that again and goes on with the token that was already drawn. Its
random numbers depend on the position alone, so the rest is what an uninterrupted run would have said.
Left to ordinary generation: several choices, log-probabilities, constraints, other namespaces.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from stoker.cache.disk import DiskTier
from stoker.cache.disk.checkpoint import Checkpoint, identity_of
from stoker.core import GenerationRequest
from stoker.engine.row import Row


@dataclass(slots=True)
class _Progress:
    identity: str
    num_saved: int  # generated tokens in the latest checkpoint


class Checkpoints:
    """Used on the engine thread."""

    def __init__(self, disk: DiskTier, every: int) -> None:
        self._disk = disk
        self._every = every
        self._progress: dict[Row, _Progress] = {}

    def begin(self, row: Row) -> None:
        """The row is new. What a checkpoint of the same request says becomes part of it, to be told first."""
        if not can_resume(row.request):
            return
        identity = request_identity(row.request, row.max_tokens)
        saved = self._disk.find_checkpoint(identity)
        if saved is not None and 0 < len(saved.generated) < row.max_tokens:
            row.sampler.resume(bytes.fromhex(saved.random_key))
            for token_id in saved.generated:
                row.sampler.accept(token_id)
            row.tokens += saved.generated
            row.num_generated = len(saved.generated)
            row.untold = list(saved.generated)
        self._progress[row] = _Progress(identity, row.num_generated)

    def after_token(self, row: Row) -> None:
        progress = self._progress.get(row)
        if progress is None or row.num_generated - progress.num_saved < self._every:
            return
        progress.num_saved = row.num_generated
        generated = tuple(row.tokens[row.num_prompt :])
        checkpoint = Checkpoint(progress.identity, generated, row.sampler.random_key.hex())
        self._disk.save_checkpoint(checkpoint, row.tokens[: row.num_computed], row.kv.blocks)

    def end(self, row: Row, *, succeeded: bool) -> None:
        """The row is over. Its checkpoint has served its purpose, unless it was cut short."""
        progress = self._progress.pop(row, None)
        if progress is not None and succeeded and progress.num_saved:
            self._disk.forget_checkpoint(progress.identity)


def can_resume(request: GenerationRequest) -> bool:
    if request.n != 1 or request.sampling.logprobs >= 0:
        return False
    # Rows of another namespace (adapters) hold other keys and values than the disk's, and a constraint has a
    # state that is not saved. Read by name, because not every kind of request has these.
    return not any(getattr(request, name, None) for name in ("namespace", "constraint"))


def request_identity(request: GenerationRequest, max_tokens: int) -> str:
    sampling = asdict(request.sampling) | {
        "logit_bias": sorted(request.sampling.logit_bias.items()),
    }
    policy = {"sampling": sampling, "eos_ids": sorted(request.eos_ids), "max_tokens": max_tokens}
    return identity_of(request.prompt_ids, policy)
