"""Documentation models of the server's own routes."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from stoker.api.system.disk import DiskCacheStats


class Health(BaseModel):
    status: Literal["ok"]


class ServerStats(BaseModel):
    owner: Literal["serve", "pi-session", "embedded"]
    model: str
    started_at: int


class PromptCacheStats(BaseModel):
    entries: int
    bytes: int
    max_bytes: int
    hits: int
    misses: int
    object_hits: int
    object_misses: int
    object_restores: int
    session_hits: int
    session_misses: int
    prefix_scans: int


class ResponseStoreStats(BaseModel):
    entries: int
    bytes: int
    max_bytes: int
    ttl_ms: int


class KvQuantStats(BaseModel):
    mode: str
    layers: dict[str, int]
    attention: dict[str, int]
    recurrent_layers: int


class AdmissionStats(BaseModel):
    max_safe_context: int
    enforced_context_tokens: int | None
    memory_budget_bytes: int | None
    usable_bytes: int
    weights_bytes: int


class BatchStats(BaseModel):
    configured: int
    mode: Literal["off", "serial", "batch"]
    batched: bool
    active_rows: int
    pending_rows: int
    submitted_rows: int
    kv_bytes: int
    kv_budget_bytes: int | None
    kv_capacity_bytes: int
    steps: int
    prompt_tokens: int
    generated_tokens: int


class ProcessStats(BaseModel):
    rss_bytes: int
    threads: int
    active_requests: int


class Stats(BaseModel):
    server: ServerStats
    prompt_cache: PromptCacheStats
    response_store: ResponseStoreStats
    kv_quant: KvQuantStats
    ssd_cache: DiskCacheStats | None = None  # left out without a disk cache
    admission: AdmissionStats
    batch: BatchStats
    process: ProcessStats
