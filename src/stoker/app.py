"""Builds the parts and wires them together: checkpoint, model, KV, engine, text, HTTP application.

Decisions about what suits this machine (device, number format, threads, memory for keys and
values) are made here; nothing is computed or served here.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch

from stoker import machine
from stoker.cache.disk import DiskConfig, Namespace
from stoker.chat.model import TextModel
from stoker.chat.tokenizer import Tokenizer
from stoker.config import SettingError, Settings
from stoker.core import SamplingParams
from stoker.engine import Engine, EngineConfig
from stoker.engine.grammar import GrammarCompiler, Vocabulary
from stoker.fit import Fit, prefix_cache_bytes, transient_bytes
from stoker.kernels import native
from stoker.kv.base import LayerSpec
from stoker.kv.blocks import BLOCK_SIZE
from stoker.kv.paged_native import paged_kv
from stoker.library.entry import ModelEntry
from stoker.library.registry import find_model, list_models
from stoker.models import load_model
from stoker.models.formats import open_checkpoint
from stoker.models.native_decoder import accelerate
from stoker.namespace import namespace_of
from stoker.numerics import Numerics, choose_numerics
from stoker.transcription import speech_service

if TYPE_CHECKING:
    from fastapi import FastAPI

    from stoker.api import ApiState, MachineFigures
    from stoker.api.speech.server import SpeechState

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
    fit: Fit

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

    def close(self, timeout_s: float = 0.0, *, flush_timeout_s: float = 0.0) -> None:
        """Running requests may finish for `timeout_s` seconds; the rest are cancelled. What the disk cache
        lacks is written for up to `flush_timeout_s`."""
        self.engine.close(timeout_s, flush_timeout_s=flush_timeout_s)


def load_served_model(settings: Settings, entry: ModelEntry | None = None) -> Served:
    """Loads the weights of `entry` (or of what `settings.model` names) and starts its engine.

    Raises ModelNotFound, AmbiguousModel, UnsupportedModel or CorruptModel, and SettingError for a
    memory budget that does not hold the model.
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
    step_bytes = transient_bytes(
        max_rows=settings.batch,
        prefill_chunk=settings.prefill_chunk or EngineConfig().prefill_chunk,
        vocab_size=model.facts.vocab_size,
        hidden_size=_number(checkpoint.config, "hidden_size"),
        intermediate_size=_number(checkpoint.config, "intermediate_size"),
    )
    fit = Fit(
        usable_bytes=usable_bytes(settings, device),
        weights_bytes=decoder.nbytes,
        transient_bytes=step_bytes,
        token_bytes=token_bytes(layers, numerics.kv),
        window=model.facts.max_context,
    )
    enforced = enforced_context(settings, fit)
    num_blocks = kv_blocks(
        layers,
        dtype=numerics.kv,
        wanted_tokens=settings.batch * model.facts.max_context,
        cache_bytes=prefix_cache_bytes(settings),
        rows_bytes=budget_bytes(settings.kv_budget),
        room_bytes=kv_room_bytes(settings, device, fit),
    )
    kv = paged_kv(layers, num_blocks=num_blocks, dtype=numerics.kv, device=device)
    context = min(model.facts.max_context, kv.capacity_tokens, enforced or model.facts.max_context)
    text = replace(text, max_context=context, enforces_context=context == enforced)
    if device == "cpu" and native.library() is not None:
        native.set_num_threads(threads)
        torch.set_num_threads(1)
    config = replace(
        engine_config(settings, text, enforced=enforced),
        disk=disk_config(
            settings,
            lambda root: namespace_of(
                entry.id,
                entry.weights,
                checkpoint.config,
                text.tokenizer,
                layers,
                numerics,
                device=device,
                quantize=settings.quantize,
                max_context=settings.context_limit,
                digests=root,
            ),
        ),
    )
    grammars = GrammarCompiler(partial(grammar_vocabulary, text.tokenizer)) if settings.grammar else None
    engine = Engine(model, kv, config, grammars=grammars)
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
        fit=fit,
    )


def build_app(served: Served) -> tuple[FastAPI, ApiState]:
    """The HTTP application of a loaded model, and its state."""
    from stoker.api import ApiSettings, ApiState, ModelFigures, create_app
    from stoker.api.drain import Drain
    from stoker.api.speech.front import SpeechFront
    from stoker.app_embed import embed_service

    settings = served.settings
    threads = choose_threads(settings.threads)
    drain = Drain()
    speech = speech_service(settings, device=served.device, threads=threads, engine=served.engine)
    sliding = sum(layer.window is not None for layer in served.layers)
    state = ApiState(
        text=served.text,
        engine=served.engine,
        settings=ApiSettings.from_settings(settings),
        figures=ModelFigures(
            fit=served.fit,
            global_layers=len(served.layers) - sliding,
            sliding_layers=sliding,
            kv_codec={torch.bfloat16: "bf16", torch.float16: "f16"}.get(served.numerics.kv, "f32"),
            enforced_context_tokens=enforced_context(settings, served.fit),
            kv_budget_bytes=budget_bytes(settings.kv_budget),
            memory_budget_bytes=budget_bytes(settings.memory_budget),
        ),
        machine=machine_figures(served.device),
        compile_constraint=served.grammars.compile if served.grammars else None,
        list_models=list_models,
        drain=drain,
        speech=SpeechFront.of(speech, drain),
        embed=embed_service(settings, device=served.device, threads=threads, host=served.engine.share),
    )
    return create_app(state), state


def machine_figures(device: str) -> MachineFigures:
    from stoker.api import MachineFigures

    if device == "cuda":
        ram_bytes, chip = torch.cuda.mem_get_info()[1], torch.cuda.get_device_name()
    else:
        ram_bytes, chip = machine.total_memory(), machine.cpu_name()
    return MachineFigures(chip, ram_bytes, machine.memory_bandwidth_gbs)


def build_speech_app(settings: Settings, entry: ModelEntry) -> tuple[FastAPI, SpeechState]:
    """The HTTP application of a server that only transcribes, and its state. Loads nothing, except with
    `settings.preload`."""
    from stoker.api import ApiSettings
    from stoker.api.drain import Drain
    from stoker.api.speech.front import SpeechFront
    from stoker.api.speech.server import SpeechState, create_speech_app

    device, threads = choose_device(settings.device), choose_threads(settings.threads)
    if device == "cpu" and native.library() is not None:
        native.set_num_threads(threads)
        torch.set_num_threads(1)
    service = speech_service(settings, device=device, threads=threads, entry=entry)
    if settings.preload:
        service.preload()
    state = SpeechState(entry.id, SpeechFront.of(service, Drain()), ApiSettings.from_settings(settings))
    return create_speech_app(state), state


def choose_device(wanted: str) -> str:
    """`auto` is the first of cuda, mps and cpu that this machine has. Raises SettingError."""
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


def budget_bytes(gigabytes: float | None) -> int | None:
    return None if gigabytes is None else int(gigabytes * 1e9)


def usable_bytes(settings: Settings, device: str) -> int:
    """What weights, keys and values may take together: the budget, else what the device has."""
    if settings.memory_budget is not None:
        return int(settings.memory_budget * 1e9)
    return torch.cuda.mem_get_info()[1] if device == "cuda" else machine.usable_memory()


def kv_room_bytes(settings: Settings, device: str, fit: Fit) -> int:
    """For the keys and values of rows and cache: what the memory budget leaves, else half of what is
    free now (call it after the weights are loaded)."""
    if settings.memory_budget is not None:
        return fit.kv_room_bytes
    free = torch.cuda.mem_get_info()[0] if device == "cuda" else machine.available_memory()
    return max(int(free * FREE_SHARE_FOR_KV), budget_bytes(settings.kv_budget) or 0)


def enforced_context(settings: Settings, fit: Fit) -> int | None:
    """Tokens that the operator allows a row to hold: by the context limit and by the memory budget,
    whichever is less; None when neither lowers the model's own window. Raises SettingError for a
    budget without room."""
    caps: list[int] = []
    if settings.context_limit is not None and settings.context_limit <= fit.window:
        caps.append(settings.context_limit)
    if settings.memory_budget is not None:
        safe = fit.max_safe_context // BLOCK_SIZE * BLOCK_SIZE
        if not safe:
            needed = fit.total_bytes(BLOCK_SIZE) / 1e9
            raise SettingError(
                f"a memory budget of {settings.memory_budget:g} GB does not hold the model: "
                f"it needs at least {needed:.3g} GB"
            )
        if safe < fit.window:
            caps.append(safe)
    return min(caps, default=None)


def token_bytes(layers: tuple[LayerSpec, ...], dtype: torch.dtype) -> int:
    """Keys and values of one token."""
    return max(1, sum(2 * layer.num_kv_heads * layer.head_dim * dtype.itemsize for layer in layers))


def kv_blocks(
    layers: tuple[LayerSpec, ...],
    *,
    dtype: torch.dtype,
    wanted_tokens: int,
    room_bytes: int,
    cache_bytes: int = 0,
    rows_bytes: int | None = None,
) -> int:
    """Blocks for `wanted_tokens` over all rows (for no more than `rows_bytes` of them, if given) and
    for `cache_bytes` of kept prefixes, as far as the room reaches; at least one."""
    per_token = token_bytes(layers, dtype)
    if rows_bytes is not None:
        wanted_tokens = min(wanted_tokens, rows_bytes // per_token)
    wanted_blocks = -(-(wanted_tokens + cache_bytes // per_token) // BLOCK_SIZE)
    return max(1, min(wanted_blocks, room_bytes // (per_token * BLOCK_SIZE)))


def engine_config(settings: Settings, text: TextModel, *, enforced: int | None = None) -> EngineConfig:
    chosen: dict[str, Any] = {}
    if settings.prefill_chunk:
        chosen = {"prefill_chunk": settings.prefill_chunk, "paces_prompts": False}
    return EngineConfig(
        max_rows=settings.batch,
        max_queued=settings.max_queued,
        max_context=enforced,
        kv_budget_bytes=budget_bytes(settings.kv_budget),
        prefix_cache_bytes=prefix_cache_bytes(settings),
        cache_retention=cast(Any, settings.cache_retention),
        use_sessions=settings.session_cache,
        checkpoint_tokens=settings.generation_checkpoint or 0,
        newline_ids=newline_ids(text),
        **chosen,
    )


def disk_config(settings: Settings, namespace: Callable[[Path], Namespace]) -> DiskConfig | None:
    """None without --ssd-cache. Raises SettingError when that folder cannot be made."""
    folder = settings.ssd_cache
    if folder is None or not settings.prompt_cache:
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        source = settings.sources.get("ssd_cache", "--ssd-cache")
        raise SettingError(f"{source} {folder} cannot be used: {error.strerror or error}") from None
    return DiskConfig(
        dir=folder,
        namespace=lambda: namespace(folder),
        max_bytes=int(settings.ssd_cache_max * 2**30),
        verify=settings.ssd_cache_verify,
        demote_idle_s=settings.ssd_demote_idle,
        write_behind=settings.ssd_writebehind,
        max_queued_bytes=int(settings.ssd_spill_queue_gb * 2**30),
        prefetch=settings.ssd_prefetch,
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


def _number(config: dict[str, Any], name: str) -> int:
    """Of the language model; 0 when the config does not say."""
    value = config.get(name, (config.get("text_config") or {}).get(name))
    return value if isinstance(value, int) else 0


def _first(*values: Any) -> Any:
    return next(value for value in values if value is not None)
