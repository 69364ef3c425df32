"""What the engine is told at its start, what it tells of itself, and what it needs of its KV."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch

from stoker.cache import Retention
from stoker.cache.disk import DiskConfig
from stoker.kv.base import KVLayout
from stoker.kv.blocks import BlockPool


@dataclass(frozen=True, slots=True)
class EngineConfig:
    max_rows: int = 8  # rows in one step
    max_queued: int = 64  # requests that may wait for a row; one more is refused
    prefill_chunk: int = 256  # prompt tokens per step, all prefilling rows together
    busy_chunk: int = 256  # at most so many while other rows decode; fewer if they would wait too long
    paces_prompts: bool = True  # False: a whole prefill_chunk in every step, whatever decodes beside it
    prefix_cache_bytes: int = 0  # keys and values kept for requests that begin alike; 0 = none
    disk: DiskConfig | None = None  # where kept prefixes outlive the process; needs prefix_cache_bytes
    checkpoint_tokens: int = 0  # a running generation is saved to disk every so many tokens; 0 = never
    cache_retention: Retention = "lru"  # what leaves the prefix cache first
    use_sessions: bool = True  # False: session labels are ignored
    max_context: int | None = None  # tokens a row may hold, set by the operator; None = the model's
    kv_budget_bytes: int | None = None  # that running rows together may come to need; None = no limit
    newline_ids: frozenset[int] = frozenset()  # tokens XTC must not remove


@dataclass(frozen=True, slots=True)
class EngineStats:
    """A snapshot; counters are cumulative since the start."""

    active_rows: int  # decoding or prefilling now
    pending_rows: int  # waiting for a place
    submitted_rows: int
    steps: int
    prompt_tokens: int  # computed in prefill
    generated_tokens: int
    preemptions: int
    kv_bytes: int  # held by rows and the prefix cache
    kv_capacity_bytes: int
    prefix_entries: int = 0  # blocks the prefix cache holds
    prefix_bytes: int = 0
    prefix_max_bytes: int = 0
    prefix_hits: int = 0  # requests that found some of their prompt there
    prefix_misses: int = 0
    prefix_scans: int = 0  # ordinary searches for them
    session_hits: int = 0  # requests whose session's checkpoint was used, without a search
    session_misses: int = 0  # requests with a session that needed the search
    prefilling_rows: int = 0  # of the active ones, those still computing their prompt
    kv_projected_bytes: int = 0  # what the active rows may come to need


class MeasuredKV(KVLayout, Protocol):
    """What the engine needs of its KV beyond the layout contract: its size."""

    @property
    def capacity_tokens(self) -> int: ...
    @property
    def capacity_bytes(self) -> int: ...
    @property
    def used_bytes(self) -> int: ...
    @property
    def bytes_per_block(self) -> int: ...
    @property
    def pool(self) -> BlockPool: ...
    @property
    def parts(self) -> Mapping[str, torch.Tensor]: ...
