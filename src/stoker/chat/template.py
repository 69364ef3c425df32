"""A model's chat template: messages to the text the model was trained on.

Renders as transformers' `apply_chat_template(tokenize=False)` does. Shaping the messages first is
`messages.py`; fitting them to what this template takes is `shaping.py`.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from typing import Any

import jinja2

from stoker.chat.sandbox import MAX_TEXT_CHARS, LimitReached, Refusal, TemplateEnvironment, render_deadline
from stoker.chat.traits import TemplateTraits, probe_traits
from stoker.errors import InvalidRequest, TemplateError

TemplateSource = str | Mapping[str, str] | Sequence[Mapping[str, str]]

# What `render` itself gives to a template; a caller's extra variables cannot replace them.
RESERVED_VARIABLES = frozenset({"messages", "tools", "add_generation_prompt"})

_PREFIX = "prompt build failed: "


class ChatTemplate:
    """`source` is one Jinja template, or several by name (`{name: template}`, or the list of
    `{name, template}` that tokenizer_config.json uses): with tools the one called `tool_use` is
    taken, otherwise `default`.

    `special_tokens` become variables (`bos_token`, `eos_token`, ...). A template that does not
    parse is reported by `render`, so that a model stays usable for plain completions.
    """

    def __init__(self, source: TemplateSource, special_tokens: Mapping[str, str] | None = None) -> None:
        self.sources: dict[str, str] = _named_sources(source)
        self._special_tokens = dict(special_tokens or {})
        environment = TemplateEnvironment()
        self._compiled: dict[str, jinja2.Template | str] = {
            name: _compile(environment, text) for name, text in self.sources.items()
        }
        self._traits: dict[bool, TemplateTraits] = {}

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **kwargs: Any,
    ) -> str:
        """The prompt. Raises TemplateError with the template's own words when it refuses the
        messages, and with the place and kind of the fault when the template has one."""
        return self.render_with(messages, tools, add_generation_prompt, kwargs)

    def render_with(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
        add_generation_prompt: bool,
        extra: Mapping[str, Any],
    ) -> str:
        """`render` with variables of any name, as a request's `chat_template_kwargs` brings them."""
        for name in RESERVED_VARIABLES & extra.keys():
            raise InvalidRequest(
                f"chat_template_kwargs must not contain {name}", param="chat_template_kwargs"
            )
        variables: dict[str, Any] = {"documents": None, **self._special_tokens, **extra}
        template = self._choose(bool(tools))
        if isinstance(template, str):
            raise TemplateError(_PREFIX + template)
        try:
            with render_deadline():
                return _collect(
                    template,
                    variables
                    | {
                        "messages": messages,
                        "tools": tools or None,
                        "add_generation_prompt": add_generation_prompt,
                    },
                )
        except (Refusal, LimitReached) as error:
            raise TemplateError(_PREFIX + str(error)) from None
        except RecursionError:
            raise TemplateError(
                _PREFIX + "the model's chat template calls itself without end, or too deeply"
            ) from None
        except Exception as error:
            # A template is foreign code: whatever it raises is its fault or the messages', never a 500.
            raise TemplateError(_PREFIX + _describe(error)) from None

    def traits(self, with_tools: bool = False) -> TemplateTraits:
        """What the template does with the usual shapes of a conversation; found out by rendering
        small ones, once (milliseconds)."""
        found = self._traits.get(with_tools)
        if found is None:
            found = self._traits[with_tools] = probe_traits(self.render, with_tools)
        return found

    def _choose(self, has_tools: bool) -> jinja2.Template | str:
        if has_tools and "tool_use" in self._compiled:
            return self._compiled["tool_use"]
        if "default" in self._compiled:
            return self._compiled["default"]
        names = ", ".join(self._compiled) or "none"
        return f"the model has no default chat template (it has: {names})"


def _collect(template: jinja2.Template, variables: dict[str, Any]) -> str:
    parts: list[str] = []
    size = 0
    for part in template.generate(variables):
        size += len(part)
        if size > MAX_TEXT_CHARS:
            raise LimitReached(f"the chat template wrote more than {MAX_TEXT_CHARS} characters")
        parts.append(part)
    return "".join(parts)


def _named_sources(source: TemplateSource) -> dict[str, str]:
    if isinstance(source, str):
        return {"default": source}
    if isinstance(source, Mapping):
        return dict(source)
    return {entry["name"]: entry["template"] for entry in source}


def _compile(environment: TemplateEnvironment, source: str) -> jinja2.Template | str:
    """The compiled template, or why it does not compile."""
    try:
        return environment.from_string(source)
    except jinja2.TemplateSyntaxError as error:
        return f"the model's chat template does not parse: {error.message} (line {error.lineno})"
    except RecursionError:
        return "the model's chat template does not parse: it nests too deeply"


def _describe(error: Exception) -> str:
    """One line: the kind of fault and the template line it happened on."""
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "<template>"
    ]
    where = f" (line {lines[-1]})" if lines else ""
    text = str(error) or type(error).__name__
    return f"the model's chat template failed{where}: {text}"
