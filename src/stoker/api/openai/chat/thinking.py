"""Whether and how deeply to think: request fields to template variables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stoker.api.fields import Fields

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
_DEPTHS = {"minimal": "low", "low": "low", "medium": "medium", "high": "xhigh", "xhigh": "xhigh"}


@dataclass(frozen=True, slots=True)
class Thinking:
    enabled: bool | None  # None = the template's own default
    template_kwargs: dict[str, Any]


def read_budget(fields: Fields) -> int | None:
    """The most tokens a reply may think: `thinking_budget`, or OpenRouter's `reasoning.max_tokens`."""
    budget = fields.integer("thinking_budget", 0)
    nested = fields.raw("reasoning")
    if budget is None and isinstance(nested, dict):
        return Fields(nested, "reasoning.").integer("max_tokens", 0)
    return budget


def read_thinking(fields: Fields, default: bool | None) -> Thinking:
    """Precedence: chat_template_kwargs.enable_thinking, reasoning_effort, the operator's default."""
    given = fields.nested("chat_template_kwargs")
    kwargs = dict(given.body) if given else {}
    explicit = given.flag("enable_thinking") if given else None
    effort = fields.one_of("reasoning_effort", EFFORTS)
    enabled = default
    if effort is not None:
        enabled = effort != "none"
    if explicit is not None:
        enabled = explicit
    if enabled is None:
        kwargs.pop("enable_thinking", None)
    else:
        kwargs["enable_thinking"] = enabled
    if effort in _DEPTHS:
        kwargs.setdefault("reasoning_effort", _DEPTHS[effort])
    return Thinking(enabled, kwargs)
