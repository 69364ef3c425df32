"""What Messages and Responses have in common on their way to a chat body and back.

Chat and text completions have no need of it: they are in chat's own words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stoker.api.errors import new_request_id
from stoker.api.fields import Fields

Part = dict[str, Any]  # of a chat message's content

# Fields that mean the same in every protocol.
_SHARED = (
    "model",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "xtc_probability",
    "xtc_threshold",
    "seed",
    "repetition_penalty",
    "repetition_context_size",
    "presence_penalty",
    "presence_context_size",
    "frequency_penalty",
    "frequency_context_size",
    "chat_template_kwargs",
    "thinking_budget",
    "guided_grammar",
    "guided_regex",
    "guided_choice",
    "structured_outputs",
    "adapter",
    "session_id",
    "prompt_cache_key",
)


def shared_fields(fields: Fields, *further: str) -> dict[str, Any]:
    """The beginning of a chat body: the shared fields, and `further` ones of one protocol, as they are."""
    return {name: fields.raw(name) for name in (*_SHARED, *further)}


def joined(parts: list[Part]) -> str | list[Part]:
    """Text alone as one string, joined by newlines; with media the parts themselves."""
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def reply_headers(id_header: str, warnings: Sequence[str]) -> dict[str, str]:
    """A request id under the protocol's name for it, and the Warning header where there are warnings."""
    headers = {id_header: new_request_id()}
    return {**headers, "warning": ", ".join(warnings)} if warnings else headers
