"""A conversation whose last message the reply goes on from, instead of answering it.

The template closes every turn, and says nowhere with what. So a word that stands in no template is put
behind the message, and the prompt is what was rendered in front of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stoker.chat.shaping import render_conversation
from stoker.chat.template import ChatTemplate
from stoker.chat.traits import Message
from stoker.errors import InvalidRequest, TemplateError

_END = "stokerendofprefill"


def render_unfinished(
    template: ChatTemplate,
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, Any]] | None = None,
    template_kwargs: Mapping[str, Any] | None = None,
) -> str:
    """The prompt text, up to the last character of the last message, white space included."""
    *earlier, last = messages
    if last["role"] != "assistant" or last.get("tool_calls") or not last["content"]:
        raise InvalidRequest(
            "the last message cannot be continued: it must be the assistant's, with text and no tool calls",
            param="messages",
        )
    marked = [*earlier, {**last, "content": last["content"] + _END}]
    text = render_conversation(template, marked, tools, template_kwargs, add_generation_prompt=False)
    at = text.rfind(_END)
    if at < 0:
        raise TemplateError(
            "prompt build failed: the chat template leaves out the last message, so it cannot be continued"
        )
    return text[:at]
