"""The usage block of both completion endpoints."""

from __future__ import annotations

from typing import Any

from stoker.api.generation import Usage


def usage_block(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "lane": usage.lane,
    }
