"""The body of GET /stats. Parts that do not exist yet report honest zeros."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import psutil

from stoker.api.speech.unload import transcription_object
from stoker.api.state import ApiState
from stoker.api.system.disk import disk_object


def stats_object(state: ApiState) -> dict[str, Any]:
    """Times in unix milliseconds, sizes in bytes, contexts in tokens."""
    return {
        "server": {
            "owner": state.settings.owner,
            "model": state.text.id,
            "started_at": int(state.started_at * 1000),
        },
        "prompt_cache": _prompt_cache(state),
        **_embedding_cache(state),
        "response_store": state.responses.counters(),
        "kv_quant": _kv_quant(state),
        **disk_object(state),
        "admission": _admission(state),
        "batch": _batch(state),
        **_transcription(state),
        "process": _process(state),
    }


def _transcription(state: ApiState) -> dict[str, Any]:
    """Once a request has found a checkpoint."""
    front = state.speech
    if front is None or front.service.known_checkpoint is None:
        return {}
    return {"transcription": transcription_object(front)}


def _prompt_cache(state: ApiState) -> dict[str, Any]:
    stats = state.engine.stats()
    return {
        "entries": stats.prefix_entries,
        "bytes": stats.prefix_bytes,
        "max_bytes": stats.prefix_max_bytes,
        "hits": stats.prefix_hits,
        "misses": stats.prefix_misses,
        "object_hits": 0,
        "object_misses": 0,
        "object_restores": 0,
        "session_hits": stats.session_hits,
        "session_misses": stats.session_misses,
        "prefix_scans": stats.prefix_scans,
    }


def _embedding_cache(state: ApiState) -> dict[str, Any]:
    """Left out where no embeddings are served."""
    return {} if state.embed is None else {"embedding_cache": asdict(state.embed.results.stats())}


def _kv_quant(state: ApiState) -> dict[str, Any]:
    figures = state.figures
    return {
        "mode": figures.kv_codec,
        "layers": {figures.kv_codec: figures.global_layers + figures.sliding_layers},
        "attention": {"global": figures.global_layers, "sliding_window": figures.sliding_layers},
        "recurrent_layers": figures.recurrent_layers,
    }


def _admission(state: ApiState) -> dict[str, Any]:
    figures = state.figures
    fit = figures.fit
    return {
        "max_safe_context": state.engine.max_context if fit is None else fit.max_safe_context,
        "enforced_context_tokens": figures.enforced_context_tokens,
        "memory_budget_bytes": figures.memory_budget_bytes,
        "usable_bytes": fit.usable_bytes if fit else 0,
        "weights_bytes": fit.weights_bytes if fit else 0,
    }


def _batch(state: ApiState) -> dict[str, Any]:
    stats = state.engine.stats()
    return {
        "configured": state.settings.batch,
        "mode": state.batch_mode,
        "batched": state.batch_mode == "batch",
        "active_rows": stats.active_rows - stats.prefilling_rows,  # decoding
        "pending_rows": stats.pending_rows + stats.prefilling_rows,
        "submitted_rows": stats.submitted_rows,
        "kv_bytes": stats.kv_projected_bytes,
        "kv_budget_bytes": state.figures.kv_budget_bytes,
        "kv_used_bytes": stats.kv_bytes,
        "kv_capacity_bytes": stats.kv_capacity_bytes,
        "preemptions": stats.preemptions,
        "steps": stats.steps,
        "prompt_tokens": stats.prompt_tokens,
        "generated_tokens": stats.generated_tokens,
    }


def _process(state: ApiState) -> dict[str, Any]:
    process = psutil.Process()
    with process.oneshot():
        return {
            "rss_bytes": process.memory_info().rss,
            "threads": process.num_threads(),
            "active_requests": len(state.drain.active),
        }
