"""Builds the parts and wires them together: checkpoint, model, KV, engine, text, HTTP application.

Decisions about what suits this machine (device, number format, threads, memory for keys and
values) are made here; nothing is computed or served here.
"""

from __future__ import annotations

import logging
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import torch

from stoker import machine
from stoker.chat.model import TextModel
from stoker.chat.tokenizer import Tokenizer
from stoker.config import Settings
from stoker.core import SamplingParams
from stoker.engine import Engine, EngineConfig
from stoker.engine.grammar import GrammarCompiler, Vocabulary
from stoker.kernels import native
from stoker.kv.base import LayerSpec
from stoker.kv.blocks import BLOCK_SIZE
from stoker.kv.paged_native import paged_kv
from stoker.library.entry import ModelEntry
from stoker.library.registry import find_model, list_models
from stoker.models import load_model
from stoker.models.formats import open_checkpoint
from stoker.models.native_decoder import accelerate
from stoker.numerics import Numerics, choose_numerics

if TYPE_CHECKING:
    from fastapi import FastAPI

    from stoker.api import ApiState

log = logging.getLogger(__name__)

FREE_SHARE_FOR_KV = 0.5  # of the memory free once the weights are loaded


@dataclass(frozen=True, slots=True)
class Served:
    """A loaded model with its running engine. `close` it when done."""

    text: TextModel
    engine: Engine
    grammars: GrammarCompiler | None
    entry: ModelEntry
    settings: Settings
    device: str
    numerics: Numerics
    layers: tuple[LayerSpec, ...]
    weights_bytes: int

    def sampling(self, *, seed: int | None = None) -> SamplingParams:
        """How to sample when a request says nothing: settings > the model's file > built-in."""
        defaults, chosen = self.text.generation_defaults, self.settings
        return SamplingParams(
            temperature=_first(chosen.temperature, defaults.unset_temperature()),
            top_p=_first(chosen.top_p, defaults.top_p, 0.0),
            top_k=_first(chosen.top_k, defaults.top_k, 0),
            min_p=_first(defaults.min_p, 0.0),
            repetition_penalty=_first(defaults.repetition_penalty, 1.0),
            seed=seed,
        )

    def close(self, timeout_s: float = 0.0) -> None:
        """Running requests may finish for `timeout_s` seconds; the rest are cancelled."""
        self.engine.close(timeout_s)


def load_served_model(settings: Settings, entry: ModelEntry | None = None) -> Served:
    """Loads the weights of `entry` (or of what `settings.model` names) and starts its engine.

    Raises ModelNotFound, AmbiguousModel, UnsupportedModel or CorruptModel.
    """
    if entry is None:
        entry = find_model(settings.model or "")
    device = choose_device(settings.device)
    numerics = choose_numerics(settings.dtype, device)
    threads = choose_threads(settings.threads)
    torch.set_num_threads(threads)
    checkpoint = open_checkpoint(entry.path)
    # Tokenizer and template are built while the weights are read, which happens mostly outside the
    # interpreter's lock: a start-up is waited for.
    with ThreadPoolExecutor(max_workers=1) as beside:
        reading = beside.submit(TextModel.from_checkpoint, entry.id, checkpoint)
        decoder = load_model(
            checkpoint,
            dtype=numerics.compute,
            device=device,
            quantize=cast(Any, settings.quantize),
            max_context=settings.context_limit,
            int8_planes=numerics.int8_planes,
        )
        text = reading.result()
    model = accelerate(decoder)
    layers = model.facts.layers
    num_blocks = kv_blocks(
        layers,
        dtype=numerics.kv,
        wanted_tokens=settings.batch * model.facts.max_context,
        cache_bytes=int(settings.prompt_cache * 2**30),
        budget_bytes=kv_budget_bytes(settings, device),
    )
    kv = paged_kv(layers, num_blocks=num_blocks, dtype=numerics.kv, device=device)
    text = replace(text, max_context=min(model.facts.max_context, kv.capacity_tokens))
    native_kernels = device == "cpu" and native.library() is not None
    if native_kernels:
        native.set_num_threads(threads)
        torch.set_num_threads(1)
    config = engine_config(settings, text, native_kernels=native_kernels)
    grammars = GrammarCompiler(partial(grammar_vocabulary, text.tokenizer)) if settings.grammar else None
    engine = Engine(model, kv, config, device=device, grammars=grammars)
    engine.start()
    log.info("loaded %s on %s in %s", entry.id, device, numerics)
    return Served(
        text=text,
        engine=engine,
        grammars=grammars,
        entry=entry,
        settings=settings,
        device=device,
        numerics=numerics,
        layers=layers,
        weights_bytes=decoder.nbytes,
    )


def build_app(served: Served) -> tuple[FastAPI, ApiState]:
    """The HTTP application of a loaded model, and its state."""
    from stoker.api import ApiSettings, ApiState, ModelFigures, create_app

    settings = served.settings
    sliding = sum(layer.window is not None for layer in served.layers)
    state = ApiState(
        text=served.text,
        engine=served.engine,
        settings=ApiSettings.from_settings(settings),
        figures=ModelFigures(
            weights_bytes=served.weights_bytes,
            usable_bytes=machine.usable_memory(),
            global_layers=len(served.layers) - sliding,
            sliding_layers=sliding,
            kv_codec={torch.bfloat16: "bf16", torch.float16: "f16"}.get(served.numerics.kv, "f32"),
            enforced_context_tokens=settings.context_limit,
            kv_budget_bytes=int(settings.kv_budget * 1e9) if settings.kv_budget else None,
        ),
        compile_constraint=served.grammars.compile if served.grammars else None,
        list_models=list_models,
    )
    return create_app(state), state


def choose_device(wanted: str) -> str:
    """`auto` is the first of cuda, mps and cpu that this machine has. Raises SettingError."""
    from stoker.config import SettingError

    present = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if wanted == "auto":
        return next(name for name, there in present.items() if there)
    if not present[wanted]:
        there = ", ".join(name for name, is_there in present.items() if is_there)
        raise SettingError(f"the device {wanted} is not available here; available: {there}")
    return wanted


def choose_threads(wanted: int | None) -> int:
    """The setting, else OMP_NUM_THREADS as everywhere, else one per physical core."""
    if wanted is not None:
        return wanted
    inherited = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    return int(inherited) if inherited.isdecimal() and int(inherited) else machine.physical_cores()


def kv_budget_bytes(settings: Settings, device: str) -> int:
    """The setting, else half of what is free now (call it after the weights are loaded)."""
    if settings.kv_budget is not None:
        return int(settings.kv_budget * 1e9)
    free = torch.cuda.mem_get_info()[0] if device == "cuda" else machine.available_memory()
    return int(free * FREE_SHARE_FOR_KV)


def kv_blocks(
    layers: tuple[LayerSpec, ...],
    *,
    dtype: torch.dtype,
    wanted_tokens: int,
    budget_bytes: int,
    cache_bytes: int = 0,
) -> int:
    """Blocks for `wanted_tokens` over all rows and `cache_bytes` of kept prefixes, as far as the
    budget reaches; at least one."""
    token_bytes = max(1, sum(2 * layer.num_kv_heads * layer.head_dim * dtype.itemsize for layer in layers))
    tokens = min(wanted_tokens + cache_bytes // token_bytes, budget_bytes // token_bytes)
    return max(1, -(-tokens // BLOCK_SIZE))


def engine_config(settings: Settings, text: TextModel, *, native_kernels: bool = False) -> EngineConfig:
    chosen: dict[str, Any] = {"prefill_chunk": settings.prefill_chunk} if settings.prefill_chunk else {}
    if native_kernels:
        # A step of a few tokens is as efficient per token as a large one there, so prefill beside
        # decoding rows can go in slices small enough to leave them a fair part of their speed.
        chosen["busy_chunk"] = 8
    return EngineConfig(
        max_rows=settings.batch,
        max_queued=settings.max_queued,
        max_context=settings.context_limit,
        prefix_cache_bytes=int(settings.prompt_cache * 2**30),
        newline_ids=newline_ids(text),
        **chosen,
    )


def grammar_vocabulary(tokenizer: Tokenizer) -> Vocabulary:
    return Vocabulary(
        tokens=[tokenizer.token_bytes(token_id) for token_id in range(tokenizer.vocab_size)],
        special_ids=tokenizer.special_ids,
        encode=partial(tokenizer.encode, add_special=False),
    )


def newline_ids(text: TextModel) -> frozenset[int]:
    """The token that is a newline; a SentencePiece encoding has a space token beside it."""
    ids = text.tokenizer.encode("\n", add_special=False)
    return frozenset(id for id in ids if text.tokenizer.token_bytes(id) == b"\n")


def _first(*values: Any) -> Any:
    return next(value for value in values if value is not None)
