"""Builds the speech service: which checkpoint, on which device, for how long in memory."""

from __future__ import annotations

from stoker.config import Settings
from stoker.errors import AmbiguousModel, ModelNotFound
from stoker.library.entry import ModelEntry, ModelKind
from stoker.library.registry import find_model, list_models
from stoker.speech.errors import SpeechUnavailable
from stoker.speech.lane import Device
from stoker.speech.ports import Checkpoint, Whisper
from stoker.speech.service import SpeechService

STARTER = "whisper-base"
_KINDS: tuple[ModelKind, ...] = ("speech",)
_READABLE = ("ctranslate2", "safetensors", "mlx")


def speech_service(
    settings: Settings,
    *,
    device: str,
    threads: int,
    entry: ModelEntry | None = None,
    engine: Device | None = None,
) -> SpeechService:
    """Finds and loads nothing yet. `entry` is the checkpoint when it is chosen already; `engine` the one that
    lends its device."""

    def find() -> Checkpoint:
        found = entry or find_checkpoint(settings.whisper_model)
        return Checkpoint(found.id, lambda: _load(found, device, threads))

    return SpeechService(
        find,
        device=engine,
        idle_unload_s=None if settings.whisper_resident else settings.whisper_idle_unload,
        vad_weights=settings.vad_model,
    )


def find_checkpoint(wanted: str | None) -> ModelEntry:
    """What `--whisper-model` names, else the first speech model here. Raises SpeechUnavailable."""
    if wanted is not None:
        try:
            return find_model(wanted, kinds=_KINDS)
        except (ModelNotFound, AmbiguousModel) as error:
            raise SpeechUnavailable(f"--whisper-model: {error.message}") from None
    for model in list_models():
        if model.kind == "speech" and model.format in _READABLE:
            return model
    raise SpeechUnavailable(
        f"no Whisper model is on this machine; download one with `stoker get {STARTER}`, "
        "or name a folder with --whisper-model"
    )


def _load(entry: ModelEntry, device: str, threads: int) -> Whisper:
    from stoker.speech.whisper import load_whisper

    return load_whisper(entry.path, device=device, num_threads=threads)
