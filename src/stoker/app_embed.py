"""Wires embeddings and reranking: which models, in which numbers, beside a chat engine or alone."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch

from stoker import machine
from stoker.chat.model import TextModel
from stoker.config import Settings
from stoker.embed.lane import Host
from stoker.embed.loading import EncoderNumerics
from stoker.embed.model import load_embedding_model
from stoker.embed.pipeline import transformer_folder
from stoker.embed.reranker import load_reranker
from stoker.embed.service import EmbedService, Find, Loadable, Part
from stoker.errors import ModelError, ModelNotFound
from stoker.fit import Fit, vector_cache_bytes
from stoker.idle_engine import IdleEngine
from stoker.kernels import native
from stoker.library.entry import ModelEntry, ModelKind
from stoker.library.registry import find_model, list_models
from stoker.models.formats import open_checkpoint
from stoker.numerics import choose_numerics

if TYPE_CHECKING:
    from fastapi import FastAPI

    from stoker.api import ApiState

log = logging.getLogger(__name__)

NONE = "none"  # the setting's value that switches a part off
ENCODER_KINDS: tuple[ModelKind, ...] = ("embedding", "rerank")
_LANGUAGE_MODELS: tuple[ModelKind, ...] = ("chat", "text")  # may be meant when nothing else matches

M = TypeVar("M", bound=Loadable)


def embed_service(
    settings: Settings,
    *,
    device: str,
    threads: int,
    host: Host | None = None,
    alone: ModelEntry | None = None,
) -> EmbedService:
    """What the settings name is found and loaded at once, so that a mistake ends the start; the default
    is looked for when first needed. `alone` is the model that is served, when there is no chat model.

    Raises ModelNotFound, AmbiguousModel, UnsupportedModel or CorruptModel."""
    numerics = encoder_numerics(settings, device)
    wanted: dict[ModelKind, str | ModelEntry | None] = {
        "embedding": settings.embedding_model,
        "rerank": settings.rerank_model,
    }
    if alone is not None:
        # A language model may be named for its vectors.
        wanted[alone.kind if alone.kind in ENCODER_KINDS else "embedding"] = alone
    service = EmbedService(
        _finder("embedding", wanted["embedding"], load_embedding_model, numerics, device),
        _finder("rerank", wanted["rerank"], load_reranker, numerics, device),
        host=host,
        num_threads=threads if device == "cpu" else 1,
        torch_threads=1 if native.library() is not None else threads,
        result_bytes=vector_cache_bytes(settings),
    )
    if wanted["embedding"] is not None:
        service.embedding()
    if wanted["rerank"] is not None:
        service.reranker()
    return service


def encoder_numerics(settings: Settings, device: str) -> EncoderNumerics:
    """Encoders multiply in bfloat16 where the hardware does, else in 16-bit integers, which is as exact as
    float32 to five digits; decoders as chat models do."""
    decoder = choose_numerics(settings.dtype, device)
    products = decoder.compute
    if settings.dtype == "auto" and device == "cpu":
        fast = machine.multiplies_bfloat16(machine.cpu_features())
        products = torch.bfloat16 if fast else torch.int16
    return EncoderNumerics(products, decoder.compute, cast(Any, settings.quantize), decoder.int8_planes)


def find_encoder(kind: ModelKind, wanted: str | None) -> ModelEntry | None:
    """The model named, or the first downloaded one of the kind. Raises ModelNotFound or AmbiguousModel."""
    if wanted is None:
        usable = [model for model in list_models() if model.kind == kind and model.format != "gguf"]
        return usable[0] if usable else None
    try:
        return find_model(wanted, kinds=(kind,))
    except ModelNotFound as error:
        try:
            return find_model(wanted, kinds=_LANGUAGE_MODELS)
        except ModelNotFound:
            raise error from None


def _finder(
    kind: ModelKind,
    wanted: str | ModelEntry | None,
    load: Callable[..., M],
    numerics: EncoderNumerics,
    device: str,
) -> Find[M]:
    def find() -> Part[M] | None:
        if wanted == NONE:
            return None
        try:
            entry = wanted if isinstance(wanted, ModelEntry) else find_encoder(kind, wanted)
        except (OSError, ModelError):
            if wanted is not None:
                raise
            log.exception("the local models could not be listed")
            return None
        if entry is None:
            return None
        id, path = entry.id, entry.path
        return Part(id, lambda: load(id, path, numerics=numerics, device=device))

    return find


@dataclass(frozen=True, slots=True)
class ServedEncoder:
    """An embedding model or reranker served without a chat model."""

    text: TextModel
    engine: IdleEngine
    embed: EmbedService
    device: str
    fit: Fit
    settings: Settings
    entry: ModelEntry

    def close(self, timeout_s: float = 0.0, *, flush_timeout_s: float = 0.0) -> None:
        self.embed.close()


def load_served_encoder(settings: Settings, entry: ModelEntry) -> ServedEncoder:
    """Raises UnsupportedModel or CorruptModel."""
    from stoker.app import choose_device, choose_threads, usable_bytes

    device, threads = choose_device(settings.device), choose_threads(settings.threads)
    native.set_num_threads(threads)
    service = embed_service(settings, device=device, threads=threads, alone=entry)
    loaded = service.embedding() if entry.kind == "embedding" else service.reranker()
    assert loaded is not None
    checkpoint = open_checkpoint(transformer_folder(Path(entry.path)))
    text = TextModel.from_checkpoint(entry.id, checkpoint)
    text = replace(text, template=None, max_context=loaded.model.max_tokens)
    engine = IdleEngine(entry.id, text.max_context)
    fit = Fit(
        usable_bytes=usable_bytes(settings, device),
        weights_bytes=loaded.model.encoder.nbytes,
        transient_bytes=0,
        token_bytes=1,  # nothing is kept between two requests
        window=text.max_context,
    )
    return ServedEncoder(text, engine, service, device, fit, settings, entry)


def build_encoder_app(served: ServedEncoder) -> tuple[FastAPI, ApiState]:
    """The HTTP application, and its state."""
    from stoker.api import ApiSettings, ApiState, ModelFigures, create_app
    from stoker.app import machine_figures

    state = ApiState(
        text=served.text,
        engine=served.engine,
        settings=ApiSettings.from_settings(served.settings),
        figures=ModelFigures(fit=served.fit, kv_codec="f32"),
        machine=machine_figures(served.device),
        list_models=list_models,
        embed=served.embed,
    )
    return create_app(state), state
