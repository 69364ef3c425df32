"""Documentation models of chat completions. They check nothing: parse.py does."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from stoker.api.documented import Documented, TemplateVariables
from stoker.api.openai.schema import FinishReason, GenerationFields, LogprobEntry, Usage


class TextPart(Documented):
    type: Literal["text", "input_text", "output_text"]
    text: str


class CalledFunction(Documented):
    name: str
    arguments: str | dict[str, Any] | None = None


class ToolCall(Documented):
    id: Any = None
    type: Any = "function"
    function: CalledFunction


Content = str | list[TextPart | str] | None


class PlainMessage(Documented):
    role: Literal["system", "developer", "user", "tool", "function"]
    content: Content = None
    tool_call_id: Any = Field(None, description="With role tool: the call this is the result of.")
    name: Any = None


class AssistantMessage(Documented):
    role: Literal["assistant"]
    content: Content = None
    tool_calls: list[ToolCall] | None = None
    reasoning_content: str | None = Field(None, description="Earlier thinking; `reasoning` is an alias.")
    name: Any = None


class Function(Documented):
    name: Annotated[str, Field(min_length=1)]
    description: Any = None
    parameters: dict[str, Any] | None = None


class Tool(Documented):
    type: Literal["function"] = "function"
    function: Function


class NamedFunction(Documented):
    name: str


class NamedTool(Documented):
    type: Any = "function"
    function: NamedFunction


class ChatCompletionRequest(GenerationFields):
    messages: Annotated[list[PlainMessage | AssistantMessage], Field(min_length=1)]
    logprobs: bool | None = Field(None, description="Log-probabilities of the reply's tokens.")
    top_logprobs: Annotated[int, Field(ge=-1, le=20)] | None = Field(
        None, description="Also that many of the likeliest tokens at each position."
    )
    tools: list[Tool] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedTool | None = Field(
        None, description="required and a named function are enforced: the reply is a call."
    )
    parallel_tool_calls: bool | None = Field(None, description="False: the first call ends the reply.")
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    thinking_budget: Annotated[int, Field(ge=0)] | None = Field(
        None, description="Tokens the reply may think; then its thinking is closed and it answers."
    )
    continue_final_message: bool | None = Field(
        None, description="The last message is the assistant's, and the reply goes on from it."
    )
    add_generation_prompt: bool | None = Field(
        None, description="False: the prompt ends behind the last message. Not beside continue_final_message."
    )
    chat_template_kwargs: TemplateVariables | None = Field(
        None, description="Variables for the model's chat template."
    )


class ChatLogprobs(Documented):
    content: list[LogprobEntry]


class FunctionCall(Documented):
    name: str
    arguments: Annotated[str, Field(description="A JSON object, as text.")]


class ReplyCall(Documented):
    id: str
    type: Literal["function"]
    function: FunctionCall


class ReplyMessage(Documented):
    role: Literal["assistant"]
    content: str | None = Field(description="Null where calls are all there is.")
    refusal: None = Field(description="Always null: local models have no channel for it.")
    reasoning: str | None = Field(
        None, description="What the model thought, where its template has a channel."
    )
    reasoning_content: str | None = Field(None, description="The same under its other name.")
    tool_calls: list[ReplyCall] | None = None


ChatFinishReason = FinishReason | Literal["tool_calls"]


class ChatChoice(Documented):
    index: int
    message: ReplyMessage
    logprobs: ChatLogprobs | None
    finish_reason: ChatFinishReason


class ChatCompletion(Documented):
    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage


class FunctionCallDelta(Documented):
    name: str | None = None
    arguments: str = Field(description="To append.")


class CallDelta(Documented):
    index: int
    id: str | None = Field(None, description="With the first delta of a call only, like type and name.")
    type: Literal["function"] | None = None
    function: FunctionCallDelta


class Delta(Documented):
    role: Literal["assistant"] | None = None
    content: str | None = None
    refusal: None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[CallDelta] | None = None


class ChunkChoice(Documented):
    index: int
    delta: Delta
    logprobs: ChatLogprobs | None
    finish_reason: ChatFinishReason | None


class ChatCompletionChunk(Documented):
    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: Usage | None = None
