"""One row per model. Abilities that later parts bring are listed as false until they exist."""

from __future__ import annotations

import logging
import re
from typing import Any

from stoker.api.state import ApiState
from stoker.chat.template import ChatTemplate
from stoker.errors import StokerError

log = logging.getLogger(__name__)

ENDPOINTS = (
    "POST /v1/chat/completions",
    "POST /v1/completions",
    "POST /v1/messages",
    "POST /v1/messages/count_tokens",
    "POST /v1/responses",
    "POST /v1/embeddings",
    "POST /v1/rerank",
    "POST /v1/audio/transcriptions",
    "POST /v1/audio/translations",
    "POST /v1/audio/sessions",
    "GET /v1/models",
    "GET /health",
    "GET /stats",
    "GET /fit",
    "GET /metrics",
)


def served_row(state: ApiState) -> dict[str, Any]:
    text = state.text
    is_chat = text.template is not None
    is_embedding = state.embed is not None and text.id == state.embed.embedding_id()
    abilities = {
        "tools": is_chat,  # a template that does not know them gets them in words
        "structured_output": state.compile_constraint is not None and not is_embedding,
        "embeddings": is_embedding,
        "vision": False,
        "audio": False,
        "adapters": False,
        "training": False,
    }
    return {
        "id": text.id,
        "object": "model",
        "created": int(state.started_at),
        "owned_by": "stoker",
        "context_window": state.engine.max_context,
        "reasoning": is_chat and _mentions(text.template, "enable_thinking"),
        "batch_mode": state.batch_mode,
        **abilities,
        "dsa": False,
        "mtp": False,
        "capabilities": {
            "chat_completions": is_chat,
            "text_completions": not is_embedding,
            "anthropic_messages": is_chat,
            "responses": is_chat,
            "streaming": not is_embedding,
            "logprobs": not is_embedding,
            **abilities,
        },
        "gen_defaults": _defaults(state),
    }


def _mentions(template: ChatTemplate | None, variable: str) -> bool:
    """Whether the template reads this variable."""
    word = re.compile(rf"\b{variable}\b")
    return template is not None and any(word.search(source) for source in template.sources.values())


def _defaults(state: ApiState) -> dict[str, Any]:
    """The model's sampling defaults with the operator's over them; null where neither sets one."""
    names = ("temperature", "top_p", "top_k")
    chosen = {name: getattr(state.settings, name) for name in names}
    model = state.text.generation_defaults
    return {name: getattr(model, name) if chosen[name] is None else chosen[name] for name in names}


def all_rows(state: ApiState) -> list[dict[str, Any]]:
    """The served model first. Reads the disk: call it in a thread."""
    rows = [served_row(state)]
    created = int(state.started_at)
    embedding = state.embed.embedding_id() if state.embed is not None else None
    try:
        listed = state.list_models()
    except (OSError, StokerError):
        log.exception("the local models could not be listed")
        listed = ()
    seen = {state.text.id}
    for model in listed:
        if model.id not in seen:
            seen.add(model.id)
            row = {"id": model.id, "object": "model", "created": created, "vision": False, "tier": "targeted"}
            rows.append(row | ({"embeddings": True} if model.id == embedding else {}))
    return rows
