"""`tool_choice` as a grammar: required and named leave the model no other text than a call; auto beside
structured output lets it choose between a call and an answer of the wished form."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from stoker.api.fields import invalid
from stoker.api.openai.chat.tools import Tools
from stoker.api.state import ApiState
from stoker.chat.reading import OfferedTool, ReplyReading
from stoker.chat.tools import FORMATS
from stoker.chat.tools.grammars import Markup, json_text
from stoker.core import Constraint
from stoker.errors import GrammarError


def with_tools(
    state: ApiState,
    tools: Tools,
    reading: ReplyReading | None,
    prompt: str,
    answer: Constraint | None,
) -> tuple[Constraint | None, str | None]:
    """The constraint of the whole reply, compiled, and a text for the Warning header. `answer` is the one
    of a reply without calls. Raises InvalidRequest where a call is demanded and cannot be enforced."""
    if reading is None or reading.tool_format is None or tools.mode == "none":
        return answer, None
    if tools.mode == "auto":
        return (answer, None) if answer is None else _call_or(state, tools, reading, answer)
    if state.compile_constraint is None:
        raise invalid(
            "tool_choice", f"tool_choice {tools.mode} cannot be enforced: grammars are switched off"
        )
    reason = ""
    for offered in (tools.callable, _without_schemas(tools.callable)):
        source = _calls(state, offered, tools.parallel, reading)
        constraint = _after_thinking(Constraint("lark", source), reading, prompt)
        try:
            state.compile_constraint(constraint)
        except GrammarError as error:
            reason = reason or error.message
            continue
        warning = f"tool schemas not enforced: {reason} - only the call itself is" if reason else None
        return constraint, warning
    raise invalid("tool_choice", f"tool_choice {tools.mode} cannot be enforced: {reason}")


def _calls(state: ApiState, tools: Sequence[OfferedTool], parallel: bool, reading: ReplyReading) -> str:
    tokenizer = state.text.tokenizer
    assert reading.tool_format is not None
    markup = Markup({tokenizer.token_text(token_id): token_id for token_id in tokenizer.special_ids})
    return FORMATS[reading.tool_format].grammar(tools, parallel, markup)


def _without_schemas(tools: Sequence[OfferedTool]) -> tuple[OfferedTool, ...]:
    return tuple(OfferedTool(tool.name, {"type": "object"}) for tool in tools)


def _after_thinking(constraint: Constraint, reading: ReplyReading, prompt: str) -> Constraint:
    """Thinking stays free where the prompt opens it or the reply may."""
    if reading.reasoning is None or reading.is_harmony:
        return constraint
    opener, closer = reading.reasoning
    if reading.starts_inside:
        return replace(constraint, free_until=closer)
    if prompt.rstrip().endswith(closer):
        return constraint  # thinking is off: the prompt holds a closed, empty block
    return replace(constraint, free_until=closer, free_opener=opener)


def _call_or(
    state: ApiState, tools: Tools, reading: ReplyReading, answer: Constraint
) -> tuple[Constraint | None, str | None]:
    """A grammar of both. Answers in a grammar of the client's own cannot be joined with the calls'."""
    rule = _answer_rule(answer)
    note = "tools cannot be called: the reply follows the grammar that was asked for"
    if rule is None or state.compile_constraint is None:
        return answer, note
    for offered in (tools.callable, _without_schemas(tools.callable)):
        calls = _calls(state, offered, tools.parallel, reading).replace("start:", "calls:", 1)
        joined = replace(answer, kind="lark", source=f"start: answer | calls\nanswer: {rule}\n{calls}")
        try:
            state.compile_constraint(joined)
        except GrammarError:
            continue
        return joined, None
    return answer, note


def _answer_rule(answer: Constraint) -> str | None:
    match answer.kind:
        case "json_object":
            return json_text({"type": "object"})
        case "json_schema":
            return json_text(json.loads(answer.source))
        case "choice":
            return " | ".join(json.dumps(choice) for choice in json.loads(answer.source))
        case _:
            return None
