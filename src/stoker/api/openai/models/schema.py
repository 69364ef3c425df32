"""Documentation models of the model list."""

from __future__ import annotations

from typing import Literal

from stoker.api.documented import Documented


class ServerCard(Documented):
    name: Literal["stoker"]
    version: str
    model: str
    endpoints: list[str]
    compat: str


class ModelCapabilities(Documented):
    chat_completions: bool
    text_completions: bool
    anthropic_messages: bool
    responses: bool
    streaming: bool
    tools: bool
    structured_output: bool
    logprobs: bool
    embeddings: bool
    vision: bool
    audio: bool
    adapters: bool
    training: bool


class GenDefaults(Documented):
    temperature: float | None
    top_p: float | None
    top_k: int | None


class ModelRow(Documented):
    """The served model carries every field, other local models the first ones only."""

    id: str
    object: Literal["model"]
    created: int
    vision: bool
    owned_by: str | None = None
    tier: Literal["targeted", "generic"] | None = None
    context_window: int | None = None
    reasoning: bool | None = None
    audio: bool | None = None
    batch_mode: Literal["off", "serial", "batch"] | None = None
    tools: bool | None = None
    structured_output: bool | None = None
    embeddings: bool | None = None
    adapters: bool | None = None
    training: bool | None = None
    dsa: bool | None = None
    mtp: bool | None = None
    capabilities: ModelCapabilities | None = None
    gen_defaults: GenDefaults | None = None


class ModelList(Documented):
    object: Literal["list"]
    data: list[ModelRow]
