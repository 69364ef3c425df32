"""The makers' own templates, where STOKER_TEST_TEMPLATES names a folder of them (see
`tools/vendor_templates.py`): rendered as transformers renders them, and the calls in them read back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.chat import conversations, families
from tests.chat.readings import TOOLS, read
from tests.chat.test_template import expected, ours, reference
from tests.chat.tools.test_round_trips import ARGUMENTS, OFFERED, turn
from transformers import PreTrainedTokenizerFast

from stoker.chat.reader import reading_for
from stoker.chat.shaping import render_conversation
from stoker.chat.template import ChatTemplate
from stoker.chat.tools import FORMATS, tool_call_tag
from stoker.errors import TemplateError

FOLDER = os.environ.get("STOKER_TEST_TEMPLATES", "")
FILES = sorted(Path(FOLDER).glob("*.jinja")) if FOLDER else []
each_template = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)

CONVERSATIONS: list[tuple[Any, dict[str, Any]]] = [
    *((messages, {}) for messages in conversations.PLAIN.values()),
    (conversations.LONG, {"add_generation_prompt": False}),
    (conversations.LONG, {"enable_thinking": False}),
    (conversations.LONG, {"tools": conversations.TOOLS}),
    (conversations.tool_round(conversations.MAPPING), {}),
    (conversations.tool_round(conversations.MAPPING), {"tools": conversations.TOOLS}),
]
# Families whose calls have no parser here: they come back as content.
NOT_READ = (
    "Apertus",
    "Kimi-K3",
    "MiniMax-M3",
    "Hy3",
    "functionary-medium-v3.2",
    "muse-glimmer",
)
# Templates that are not their makers' own, and write something else than the models do (one: broken JSON).
NOT_OF_THE_FAMILY = (
    "xinference--deepseek-v3",
    "qwen1.5-chat",
    "llama-cpp-deepseek-r1",
    "reranker",
    "firefunction",
)

__all__ = ["reference"]  # a fixture


@each_template
def test_as_transformers(reference: PreTrainedTokenizerFast, path: Path) -> None:
    template = path.read_text(encoding="utf-8")
    for messages, kwargs in CONVERSATIONS:
        try:
            text = expected(reference, template, messages, **kwargs)
        except Exception as error:  # a fault of the template, in whatever way it shows
            text = f"refused: {error}"
        found = ours(template, messages, **kwargs)
        assert found == text or (found.startswith("refused: ") and text.startswith("refused: "))


def calls_in(template: ChatTemplate, message: dict[str, Any]) -> tuple[str, str]:
    """(prompt, the text from the first markup of a call on)."""
    user = {"role": "user", "content": "Go on."}
    prompt = render_conversation(template, [user], OFFERED)
    whole = render_conversation(template, [user, message], OFFERED, add_generation_prompt=False)
    behind = whole[whole.rindex("Go on.") :]
    how = reading_for(template.sources.values(), prompt, TOOLS)
    assert how is not None
    assert how.tool_format is not None
    found = FORMATS[how.tool_format]
    words = (*found.markers, tool_call_tag.OPEN, *(("{",) if found.bare_json else ()))
    words = (*words, "<|start|>assistant") if how.is_harmony else words
    return prompt, behind[min(at for word in words if (at := behind.find(word)) >= 0) :]


@each_template
def test_calls_are_read_back(path: Path) -> None:
    if any(name in path.stem for name in (*NOT_READ, *NOT_OF_THE_FAMILY)):
        pytest.skip("no parser for it")
    template = ChatTemplate(path.read_text(encoding="utf-8"), families.SPECIAL)
    for name, arguments in ARGUMENTS:
        if "LFM2.5-8B" in path.stem and "'" in str(arguments.get("text", "")):
            continue  # written into Python strings without escapes
        try:
            prompt, reply = calls_in(template, turn([(name, arguments)]))
        except TemplateError as error:
            pytest.skip(f"refuses tools: {error}")
        how = reading_for(template.sources.values(), prompt, TOOLS)
        assert how is not None
        result = read(how, [reply.removeprefix("<|start|>assistant")])
        assert result.calls == [(name, arguments)], reply
        assert name not in result.text
        assert read(how, reply.removeprefix("<|start|>assistant")) == result
