"""The thinking channel of a chat template: its tags, and whether a prompt leaves it open.

Splitting a reply by them is `reader.py`'s work.
"""

from __future__ import annotations

from collections.abc import Iterable

Tags = tuple[str, str]
OPEN_TAG, CLOSE_TAG = "<think>", "</think>"  # the common ones

# In order of choice. A family's opening tag may be one the prompt writes and the reply never does.
_TAGS: tuple[Tags, ...] = (
    ("<|channel>thought", "<channel|>"),  # Gemma 4
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),  # Mistral
    ("<|START_THINKING|>", "<|END_THINKING|>"),  # Command
    ("<mm:think>", "</mm:think>"),
    (OPEN_TAG, CLOSE_TAG),
)


def reasoning_tags(template_sources: Iterable[str]) -> Tags | None:
    """The tags whose closing one the template mentions; None when it knows no such channel."""
    sources = list(template_sources)
    return next((tags for tags in _TAGS if any(tags[1] in source for source in sources)), None)


def opens_reasoning(prompt: str, tags: Tags = (OPEN_TAG, CLOSE_TAG)) -> bool:
    """Whether the rendered prompt leaves a thinking block open at its end."""
    return prompt.rstrip().endswith(tags[0])
