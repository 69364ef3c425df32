"""Everything the routes work with, handed to `create_app` as one value; no globals.

Not the settings of the whole program: app wiring fills `ApiSettings` from those.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from stoker.api.drain import Drain
from stoker.api.engine_port import EngineLike
from stoker.api.metrics import Metrics
from stoker.api.response_store import ResponseStore
from stoker.chat.model import TextModel
from stoker.config import Settings
from stoker.core import Constraint
from stoker.fit import Fit

if TYPE_CHECKING:
    from stoker.api.speech.front import SpeechFront
    from stoker.embed.service import EmbedService

MIB = 1024 * 1024
# 200 MiB of audio: base64 carries four bytes for three, a form some lines around its parts.
MAX_AUDIO_BODY_BYTES = 200 * MIB * 4 // 3 + 8 * MIB


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """The server's side of every request. None in a sampling field means: not set by the operator."""

    host: str = "127.0.0.1"  # address listened on; decides how strict the Host check is
    api_key: str | None = None  # None = no key is asked for
    allowed_hosts: tuple[str, ...] = ()  # further Host names; "*" allows all
    allowed_origins: tuple[str, ...] = ()  # further web origins, "scheme://host:port"; "*" allows all
    allow_private_media: bool = False  # whether media URLs may lead to this machine and its network
    require_model: bool = False  # whether a request must name a model, though any name will do
    max_body_bytes: int = 64 * MIB
    max_audio_body_bytes: int = MAX_AUDIO_BODY_BYTES  # under /v1/audio/
    body_timeout_s: float = 300.0  # from the first byte of a body to its last
    heartbeat_s: float = 10.0  # silence on a stream before a keep-alive comment
    shutdown_timeout_s: float = 120.0  # how long running answers may finish once stopping
    access_log: bool = False  # one line per request; failures and lost clients are always logged
    batch: int = 8  # rows the engine runs at once; 1 = strictly serial
    max_tokens: int | None = None  # default ceiling of a reply
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    thinking: bool | None = None  # default of templates with a switchable thinking channel
    owner: Literal["serve", "pi-session", "embedded"] = "embedded"

    @classmethod
    def from_settings(cls, settings: Settings) -> ApiSettings:
        return cls(
            host=settings.host,
            api_key=settings.api_key,
            allowed_hosts=settings.allowed_hosts,
            allowed_origins=settings.allowed_origins,
            allow_private_media=settings.allow_private_media,
            require_model=settings.require_model,
            max_body_bytes=int(settings.body_limit * MIB),
            max_audio_body_bytes=MAX_AUDIO_BODY_BYTES
            if settings.sources.get("body_limit", "default") == "default"
            else int(settings.body_limit * MIB),
            shutdown_timeout_s=settings.shutdown_timeout_ms / 1000,
            access_log=settings.access_log,
            batch=settings.batch,
            max_tokens=settings.max_tokens,
            temperature=settings.temperature,
            top_p=settings.top_p,
            top_k=settings.top_k,
            owner="serve",
        )


@dataclass(frozen=True, slots=True)
class MachineFigures:
    """What `/fit` reports of the machine."""

    chip: str = ""
    ram_bytes: int = 0
    measure_bandwidth_gbs: Callable[[], float] = lambda: 0.0  # may take a moment; run in a thread


@dataclass(frozen=True, slots=True)
class ModelFigures:
    """Figures of the loaded model that `/stats` and `/fit` report; all from the model's own facts."""

    fit: Fit | None = None  # None = not known: the engine's context counts as safe
    global_layers: int = 0  # full-attention layers
    sliding_layers: int = 0  # sliding-window layers
    recurrent_layers: int = 0
    kv_codec: str = "bf16"  # of every attention layer
    enforced_context_tokens: int | None = None  # explicit cap set by the operator
    kv_budget_bytes: int | None = None  # explicit budgets set by the operator
    memory_budget_bytes: int | None = None


class ListedModel(Protocol):
    """A model on this machine; the library's entries fit."""

    @property
    def id(self) -> str: ...


def _no_models() -> Sequence[ListedModel]:
    return ()


def _make_workers() -> Executor:
    return ThreadPoolExecutor(max_workers=2, thread_name_prefix="stoker-prepare")


@dataclass(frozen=True, slots=True)
class ApiState:
    text: TextModel
    engine: EngineLike
    settings: ApiSettings = field(default_factory=ApiSettings)
    figures: ModelFigures = field(default_factory=ModelFigures)
    machine: MachineFigures = field(default_factory=MachineFigures)
    # Makes a constraint ready for the engine, which may take seconds, or raises GrammarError.
    compile_constraint: Callable[[Constraint], None] | None = None  # None = grammars are switched off
    list_models: Callable[[], Sequence[ListedModel]] = _no_models  # may read the disk; run in a thread
    embed: EmbedService | None = None  # embeddings and reranking; None = neither is served
    metrics: Metrics = field(default_factory=Metrics)
    drain: Drain = field(default_factory=Drain)
    responses: ResponseStore = field(default_factory=ResponseStore)
    speech: SpeechFront | None = None  # None = this server does not transcribe
    workers: Executor = field(default_factory=_make_workers)  # prepare large requests
    started_at: float = field(default_factory=time.time)  # unix seconds

    @property
    def lane(self) -> str:
        return "serial" if self.settings.batch == 1 else "batched"

    @property
    def batch_mode(self) -> str:
        return "off" if self.settings.batch == 1 else "batch"
