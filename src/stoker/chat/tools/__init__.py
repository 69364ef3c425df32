"""How each family writes tool calls: a file per family, each with a ToolFormat.

`FORMATS` is in order of choice: the first whose marks are in the chat template is the one.
"""

from __future__ import annotations

from collections.abc import Iterable

from stoker.chat.tools import (
    deepseek,
    fenced,
    gemma,
    glm,
    harmony,
    hermes,
    invoke,
    json_lists,
    kimi,
    lfm2,
    llama3,
    minicpm,
    mistral,
    qwen_xml,
    seed,
    solar,
)
from stoker.chat.tools.base import ToolFormat

FORMATS: dict[str, ToolFormat] = {
    found.name: found
    for found in (
        harmony.FORMAT,
        gemma.FORMAT,
        gemma.FUNCTION_FORMAT,
        invoke.DEEPSEEK,
        invoke.DEEPSEEK_V4,
        invoke.MINIMAX,
        deepseek.FORMAT,
        deepseek.PLAIN_FORMAT,
        kimi.FORMAT,
        lfm2.FORMAT,
        seed.FORMAT,
        solar.FORMAT,
        glm.FORMAT,
        qwen_xml.FORMAT,
        minicpm.FORMAT,
        mistral.FORMAT,
        mistral.LIST_FORMAT,
        json_lists.COMMAND,
        json_lists.APRIEL,
        json_lists.MINIMAX_M1,
        json_lists.GIGACHAT,
        json_lists.GIGACHAT_3,
        json_lists.NEMOTRON,
        json_lists.PHI4,
        json_lists.GRANITE,
        hermes.FORMAT,
        llama3.FORMAT,
        fenced.FORMAT,
    )
}
# For templates with no marks at all: what the instructions in the prompt ask for, and code fences.
DEFAULT_FORMAT = fenced.FORMAT.name


def format_for(template_sources: Iterable[str]) -> str:
    """The name of the format of a chat template, by its text."""
    sources = list(template_sources)
    for name, found in FORMATS.items():
        if any(found.matches(source) for source in sources):
            return name
    return DEFAULT_FORMAT
