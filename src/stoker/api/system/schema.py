"""Documentation models of the server's own routes."""

from __future__ import annotations

from typing import Literal

from stoker.api.documented import Documented
from stoker.api.speech.schema import TranscriptionBlock
from stoker.api.system.disk import DiskCacheStats


class Health(Documented):
    status: Literal["ok"]


class ServerStats(Documented):
    owner: Literal["serve", "pi-session", "embedded"]
    model: str
    started_at: int


class PromptCacheStats(Documented):
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


class EmbeddingCacheStats(Documented):
    entries: int
    bytes: int
    max_bytes: int
    hits: int
    misses: int


class ResponseStoreStats(Documented):
    entries: int
    bytes: int
    max_bytes: int
    ttl_ms: int


class KvQuantStats(Documented):
    mode: str
    layers: dict[str, int]
    attention: dict[str, int]
    recurrent_layers: int


class AdmissionStats(Documented):
    max_safe_context: int
    enforced_context_tokens: int | None
    memory_budget_bytes: int | None
    usable_bytes: int
    weights_bytes: int


class BatchStats(Documented):
    configured: int
    mode: Literal["off", "serial", "batch"]
    batched: bool
    active_rows: int
    pending_rows: int
    submitted_rows: int
    kv_bytes: int
    kv_budget_bytes: int | None
    kv_used_bytes: int
    kv_capacity_bytes: int
    preemptions: int
    steps: int
    prompt_tokens: int
    generated_tokens: int


class ProcessStats(Documented):
    rss_bytes: int
    threads: int
    active_requests: int


class MachineFit(Documented):
    chip: str
    ram_bytes: int
    bandwidth_gbs: float


class FitReport(Documented):
    fits: bool
    weights_bytes: int
    kv_bytes: int
    encoder_bytes: int  # weights of embedding and reranking models that are loaded beside it
    transient_bytes: int
    total_bytes: int
    usable_bytes: int
    max_safe_context: int
    predicted_decode_tps: float


class FitElsewhere(Documented):
    sku: str
    ram_gb: int
    fits: bool
    max_context: int
    decode_tps: float


class FitAnswer(Documented):
    machine: MachineFit
    context_tokens: int
    typical_context_tokens: int
    typical_decode_tps: float
    measured_decode_tps: float | None
    measured_at: int | None
    report: FitReport
    sku_matrix_ctx: int
    sku_matrix: list[FitElsewhere]


class Stats(Documented):
    server: ServerStats
    prompt_cache: PromptCacheStats
    embedding_cache: EmbeddingCacheStats | None = None  # left out where no embeddings are served
    response_store: ResponseStoreStats
    kv_quant: KvQuantStats
    ssd_cache: DiskCacheStats | None = None  # left out without a disk cache
    admission: AdmissionStats
    batch: BatchStats
    transcription: TranscriptionBlock | None = None  # left out until a Whisper checkpoint is known
    process: ProcessStats
