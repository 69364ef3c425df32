"""Every setting of stoker, declared once: value, flag, environment name, range, help.

What a setting does lives with the part that uses it, not here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from stoker.config.setting import Kind, Setting


def _show(default: Any) -> str:
    if isinstance(default, bool):
        return "on" if default else "off"
    return f"{default:g}" if isinstance(default, float) else str(default)


def _declare(
    default: Any,
    kind: Kind,
    help: str,
    *,
    flags: str = "",
    env: str = "",
    group: str,
    default_help: str | None = None,
    **facts: Any,
) -> Any:
    """A field of Settings carrying its Setting (completed with the field's name below)."""
    shown = default_help if default_help is not None else _show(default)
    facts |= {"kind": kind, "help": help, "group": group, "default_help": shown}
    facts |= {"flags": tuple(flags.split()), "env": env}
    return field(default=default, repr=not facts.get("secret", False), metadata={"setting": facts})


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings in force. Read once at start, never changed."""

    # Model
    model: str | None = _declare(
        None,
        "str",
        "model to load: part of the name of a downloaded one, a folder, or a .gguf file",
        flags="--model",
        group="Model",
        default_help="the preferred downloaded model, else the largest that fits, else the starter",
    )
    dtype: str = _declare(
        "auto",
        "str",
        "number format of activations; float32 is the exact reference mode, in which a reply depends neither "
        "on requests beside it nor on what was cached",
        flags="--dtype",
        group="Model",
        choices=("auto", "float32", "bfloat16", "float16"),
        default_help="auto: bfloat16 where the hardware multiplies it (CUDA, AVX512-BF16, AMX), "
        "float16 on MPS, else float32; on a CPU products with quantized weights are in 8 bits, and near ties "
        "between tokens may fall differently beside other requests or after a cache hit",
    )
    quantize: int | None = _declare(
        None,
        "int",
        "quantize dense weights to this many bits while loading",
        flags="--quantize",
        group="Model",
        choices=("4", "8"),
        default_help="the checkpoint's own precision",
    )
    device: str = _declare(
        "auto",
        "str",
        "where the model runs",
        flags="--device",
        group="Model",
        choices=("auto", "cpu", "cuda", "mps"),
        default_help="auto: cuda, then mps, then cpu",
    )
    threads: int | None = _declare(
        None,
        "int",
        "CPU threads for the model",
        flags="--threads",
        group="Model",
        low=1,
        high=1024,
        default_help="the number of physical cores this process may use",
    )
    context_limit: int | None = _declare(
        None,
        "int",
        "most tokens of prompt and answer together",
        flags="--context-limit",
        env="RD_CONTEXT_LIMIT",
        group="Model",
        unit="TOKENS",
        low=16,
        high=10_000_000,
        default_help="the model's own window",
    )

    grammar: bool = _declare(
        True,
        "bool",
        "enforce structured output; off, the model is only told what is asked for",
        flags="--grammar",
        group="Model",
    )

    embedding_model: str | None = _declare(
        None,
        "str",
        "model for /v1/embeddings beside the chat model; `none` serves no embeddings",
        flags="--embedding-model",
        group="Model",
        default_help="the first downloaded embedding model, loaded when first asked for",
    )
    rerank_model: str | None = _declare(
        None,
        "str",
        "cross-encoder for /v1/rerank; `none` serves no reranking",
        flags="--rerank-model",
        group="Model",
        default_help="the first downloaded reranker, loaded when first asked for",
    )

    # Network
    host: str = _declare("127.0.0.1", "str", "address to listen on", flags="--host", group="Network")
    port: int = _declare(
        8080,
        "int",
        "port to listen on; 0 takes a free one",
        flags="--port",
        group="Network",
        low=0,
        high=65535,
    )
    api_key: str | None = _declare(
        None,
        "str",
        "require this key as `Authorization: Bearer KEY` or `x-api-key`",
        flags="--api-key",
        group="Network",
        unit="KEY",
        secret=True,
        default_help="no key is asked for",
    )
    allowed_hosts: tuple[str, ...] = _declare(
        (),
        "list",
        "further names a request's Host header may carry, comma separated; * allows all",
        flags="--allowed-hosts",
        group="Network",
        default_help="loopback names and the address listened on",
    )
    allowed_origins: tuple[str, ...] = _declare(
        (),
        "list",
        "web pages (scheme://host:port) whose scripts may call the server, comma separated; * allows all",
        flags="--allowed-origins",
        group="Network",
        default_help="pages served from loopback addresses",
    )
    allow_private_media: bool = _declare(
        False,
        "bool",
        "media URLs in requests may lead to loopback and private addresses",
        flags="--allow-private-media",
        group="Network",
    )
    require_model: bool = _declare(
        False,
        "bool",
        "refuse requests that name no model, as OpenAI's and Anthropic's own APIs do",
        flags="--require-model",
        group="Network",
    )
    body_limit: float = _declare(
        64.0,
        "float",
        "largest request body",
        flags="--body-limit",
        group="Network",
        unit="MiB",
        low=0.001,
        high=65536,
    )

    # Scheduling and memory
    batch: int = _declare(
        8,
        "int",
        "generations that run at the same time; 1 is strictly one after the other",
        flags="--batch --decode-concurrency",
        group="Scheduling and memory",
        low=1,
        high=1024,
    )
    max_queued: int = _declare(
        64,
        "int",
        "requests that may wait for a place; the next one is answered 429",
        flags="--max-queued",
        group="Scheduling and memory",
        low=0,
        high=1_000_000,
    )
    prefill_chunk: int | None = _declare(
        None,
        "int",
        "prompt tokens computed between two steps of the running generations",
        flags="--prefill-chunk",
        env="RD_PREFILL_CHUNK",
        group="Scheduling and memory",
        unit="TOKENS",
        low=1,
        high=1_000_000,
        default_help="chosen by the engine",
    )
    kv_budget: float | None = _declare(
        None,
        "float",
        "memory for the keys and values of all running requests, in units of 10^9 bytes; a request waits "
        "while its prompt and max_tokens would exceed it, and is refused when they do alone",
        flags="--kv-budget",
        group="Scheduling and memory",
        unit="GB",
        low=0.001,
        high=1_000_000,
        default_help="no such limit",
    )
    memory_budget: float | None = _declare(
        None,
        "float",
        "memory for weights, keys and values together, in units of 10^9 bytes; answers are cut to what "
        "fits, and a prompt that leaves no room is refused",
        flags="--memory-budget",
        group="Scheduling and memory",
        unit="GB",
        low=0.001,
        high=1_000_000,
        default_help="half of the memory that is free once the model is loaded, for keys and values",
    )
    prompt_cache: float = _declare(
        8.0,
        "float",
        "memory for keys and values kept from earlier requests, for those that begin alike; 0 keeps none",
        flags="--prompt-cache",
        group="Scheduling and memory",
        unit="GiB",
        low=0,
        high=1_000_000,
    )
    cache_retention: str = _declare(
        "lru",
        "str",
        "what leaves the prompt cache first: lru what was used longest ago, cost-size what has saved the "
        "fewest tokens for its size",
        group="Scheduling and memory",
        choices=("lru", "cost-size"),
    )
    session_cache: bool = _declare(
        True,
        "bool",
        "keep and find the newest cache entry of each session label; 0 ignores the labels",
        group="Scheduling and memory",
    )

    # Disk cache
    ssd_cache: Path | None = _declare(  # noqa: RUF009 (a field, like the others)
        None,
        "path",
        "folder where computed prefixes outlive the process; may be shared by several servers",
        flags="--ssd-cache",
        group="Disk cache",
        unit="DIR",
        default_help="no disk cache",
    )
    ssd_cache_max: float = _declare(
        0.0,
        "float",
        "cap on everything stoker wrote into that folder, the oldest going first; 0 is unlimited",
        flags="--ssd-cache-max",
        group="Disk cache",
        unit="GiB",
        low=0,
        high=1_000_000,
    )
    ssd_cache_verify: bool = _declare(
        False,
        "bool",
        "check every tensor read back against its hash (headers are always checked)",
        flags="--ssd-cache-verify",
        group="Disk cache",
    )
    ssd_demote_idle: float = _declare(
        300.0,
        "float",
        "prefixes unused for so long leave memory once they are on disk; 0 never",
        flags="--ssd-demote-idle",
        group="Disk cache",
        unit="SECONDS",
        low=0,
        high=100_000_000,
    )
    generation_checkpoint: int | None = _declare(
        None,
        "int",
        "save a running generation after every so many tokens, so that the same request can go on after "
        "an interruption",
        flags="--generation-checkpoint",
        group="Disk cache",
        unit="TOKENS",
        low=1,
        high=1_000_000,
        default_help="off",
    )
    ssd_writebehind: bool = _declare(
        True,
        "bool",
        "write prefixes as they are computed; off writes only what leaves memory",
        group="Disk cache",
    )
    ssd_prefetch: bool = _declare(
        True,
        "bool",
        "read beside running generations; off reads in their thread",
        group="Disk cache",
    )
    ssd_spill_queue_gb: float = _declare(
        2.0,
        "float",
        "generation checkpoints that may wait to be written; older ones are superseded. 0 keeps the newest",
        group="Disk cache",
        unit="GiB",
        low=0,
        high=1_000_000,
    )

    # Speech
    whisper_model: str | None = _declare(
        None,
        "str",
        "speech model that answers audio requests: part of the name of a downloaded one, or a folder",
        flags="--whisper-model",
        group="Speech",
        default_help="the first downloaded Whisper model",
    )
    whisper_idle_unload: float = _declare(
        0.0,
        "float",
        "keep the speech model's weights in memory for so long after a take; 0 releases them at once",
        flags="--whisper-idle-unload",
        group="Speech",
        unit="SECONDS",
        low=0,
        high=1_000_000,
    )
    whisper_resident: bool = _declare(
        False,
        "bool",
        "never release the speech model's weights once they are loaded",
        flags="--whisper-resident",
        group="Speech",
    )
    preload: bool = _declare(
        False,
        "bool",
        "on a server that only transcribes: load the weights before listening",
        flags="--preload",
        group="Speech",
    )
    vad_model: Path | None = _declare(  # noqa: RUF009 (a field, like the others)
        None,
        "path",
        "weights of Silero's voice activity network, TorchScript or safetensors",
        flags="--vad-model",
        group="Speech",
        default_help="those of the silero-vad package",
    )

    # Sampling defaults: a request's own fields win over them
    temperature: float | None = _declare(
        None,
        "float",
        "randomness; 0 always takes the likeliest token",
        flags="--temperature --temp",
        group="Sampling defaults",
        low=0,
        high=5,
        default_help="the model's generation_config.json, else 0.7",
    )
    top_p: float | None = _declare(
        None,
        "float",
        "keep the likeliest tokens that together have this probability; 0 is off",
        flags="--top-p",
        group="Sampling defaults",
        low=0,
        high=1,
        default_help="the model's generation_config.json, else 0",
    )
    top_k: int | None = _declare(
        None,
        "int",
        "keep this many of the likeliest tokens; 0 is off",
        flags="--top-k",
        group="Sampling defaults",
        low=0,
        high=1_000_000,
        default_help="the model's generation_config.json, else 0",
    )
    max_tokens: int | None = _declare(
        None,
        "int",
        "longest answer",
        flags="--max-tokens",
        group="Sampling defaults",
        unit="TOKENS",
        low=1,
        high=10_000_000,
        default_help="until the model stops or the context is full",
    )

    # Process
    shutdown_timeout_ms: int = _declare(
        120_000,
        "int",
        "how long running answers may take to finish after SIGINT or SIGTERM",
        flags="--shutdown-timeout-ms",
        group="Process",
        unit="MS",
        low=0,
        high=86_400_000,
    )
    log_level: str = _declare(
        "info",
        "str",
        "least severe log lines shown",
        flags="--log-level",
        group="Process",
        choices=("debug", "info", "warning", "error"),
    )
    access_log: bool = _declare(
        False, "bool", "log one line for each HTTP request", flags="--access-log", group="Process"
    )
    home: Path | None = _declare(  # noqa: RUF009 (a field, like the others)
        None,
        "path",
        "stoker's own folder: downloaded models and derived state",
        group="Process",
        default_help="$XDG_CACHE_HOME/stoker, else ~/.cache/stoker",
    )

    # Where each value came from, for `stoker doctor`: "default" or a name such as "STOKER_PORT"
    sources: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), compare=False)


def _table() -> Mapping[str, Setting]:
    table = {}
    for spec in dataclasses.fields(Settings):
        facts = spec.metadata.get("setting")
        if facts is not None:
            env = facts["env"] or spec.name.upper()
            table[spec.name] = Setting(**(dict(facts) | {"name": spec.name, "env": env}))
    return MappingProxyType(table)


SETTINGS: Mapping[str, Setting] = _table()
