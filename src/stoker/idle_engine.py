"""Stands where the chat engine would be when only an embedding model or a reranker is served."""

from __future__ import annotations

from typing import NoReturn

from stoker.cache.disk.stats import NOTHING_TO_FLUSH, DiskStats, FlushReport
from stoker.core import GenerationRequest
from stoker.engine import EngineStats
from stoker.errors import InvalidRequest


class IdleEngine:
    """Refuses every generation; its figures are zeros."""

    def __init__(self, model_id: str, max_context: int) -> None:
        self.model_id = model_id
        self.max_context = max_context

    def submit(self, request: GenerationRequest) -> NoReturn:
        raise InvalidRequest(
            f"{self.model_id} makes embeddings and cannot generate text; serve a chat model for this",
            type="invalid_request_error",
        )

    def close_session(self, label: str) -> None:
        pass

    def stats(self) -> EngineStats:
        return EngineStats(
            active_rows=0,
            pending_rows=0,
            submitted_rows=0,
            steps=0,
            prompt_tokens=0,
            generated_tokens=0,
            preemptions=0,
            kv_bytes=0,
            kv_capacity_bytes=0,
        )

    def disk_stats(self) -> DiskStats | None:
        return None

    def flush_cache(self, timeout_s: float) -> FlushReport:
        return NOTHING_TO_FLUSH
