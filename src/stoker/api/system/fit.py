"""The body of GET /fit: whether the model fits this machine and others, and how fast it could be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stoker.accelerators import ACCELERATORS, USABLE_SHARE, Accelerator
from stoker.api.state import ApiState
from stoker.fit import Fit

TYPICAL_CONTEXT = 8192
TABLE_CONTEXT = 32768

_UNKNOWN = Fit(usable_bytes=0, weights_bytes=0, transient_bytes=0, token_bytes=1, window=0)


def fit_object(state: ApiState) -> dict[str, Any]:
    """Measures the memory's bandwidth when called first; not for the event loop. Nothing records
    decoding runs yet, so that the measured speed is null."""
    fit = state.figures.fit or _UNKNOWN
    fit = replace(fit, beside_bytes=_encoder_bytes(state))
    bandwidth = state.machine.measure_bandwidth_gbs()
    context = state.engine.max_context
    typical = min(TYPICAL_CONTEXT, context)
    return {
        "machine": {
            "chip": state.machine.chip,
            "ram_bytes": state.machine.ram_bytes,
            "bandwidth_gbs": round(bandwidth, 1),
        },
        "context_tokens": context,
        "typical_context_tokens": typical,
        "typical_decode_tps": round(fit.decode_tps(bandwidth, typical), 1),
        "measured_decode_tps": None,
        "measured_at": None,
        "report": {
            "fits": fit.fits(context),
            "weights_bytes": fit.weights_bytes,
            "kv_bytes": fit.kv_bytes(context),
            "encoder_bytes": fit.beside_bytes,
            "transient_bytes": fit.transient_bytes,
            "total_bytes": fit.total_bytes(context),
            "usable_bytes": fit.usable_bytes,
            "max_safe_context": fit.max_safe_context,
            "predicted_decode_tps": round(fit.decode_tps(bandwidth, context), 1),
        },
        "sku_matrix_ctx": TABLE_CONTEXT,
        "sku_matrix": [_row(fit, accelerator) for accelerator in ACCELERATORS],
    }


def _encoder_bytes(state: ApiState) -> int:
    """Weights of the encoders that are loaded now, other than the served model itself."""
    encoders = state.embed.stats().values() if state.embed is not None else ()
    return sum(encoder.weights_bytes for encoder in encoders if encoder.id != state.text.id)


def _row(fit: Fit, accelerator: Accelerator) -> dict[str, Any]:
    there = replace(fit, usable_bytes=int(accelerator.ram_gb * 1e9 * USABLE_SHARE))
    context = min(TABLE_CONTEXT, fit.window)
    return {
        "sku": accelerator.name,
        "ram_gb": accelerator.ram_gb,
        "fits": there.fits(context),
        "max_context": there.max_safe_context,
        "decode_tps": round(there.decode_tps(accelerator.bandwidth_gbs, context), 1),
    }
