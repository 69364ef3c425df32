"""Whether and how deeply to think: request fields to template variables; and what it means for a grammar."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from stoker.api.fields import Fields
from stoker.chat.reading import ReplyReading
from stoker.core import Constraint

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


def after_thinking(constraint: Constraint, reading: ReplyReading | None, prompt: str) -> Constraint:
    """The constraint of a reply to the rendered `prompt` that may think first: it holds for the answer,
    thinking stays free where the prompt opens it or the reply may."""
    if reading is None or reading.reasoning is None or reading.is_harmony:
        return constraint
    opener, closer = reading.reasoning
    if reading.starts_inside:
        return replace(constraint, free_until=closer)
    if prompt.rstrip().endswith(closer):
        return constraint  # thinking is off: the prompt holds a closed, empty block
    return replace(constraint, free_until=closer, free_opener=opener)
