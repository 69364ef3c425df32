"""Documentation models of Messages. They check nothing: parse.py does."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from stoker.api.documented import Documented, TemplateVariables
from stoker.api.openai.schema import Count, Fraction, Penalty, Window


class TextBlock(Documented):
    type: Literal["text"]
    text: str
    cache_control: Any = None


class Base64Source(Documented):
    type: Literal["base64"]
    media_type: str = "image/png"
    data: str


class UrlSource(Documented):
    type: Literal["url"]
    url: str


class ImageBlock(Documented):
    type: Literal["image"]
    source: Base64Source | UrlSource


_KNOWN_BLOCKS = (
    "text",
    "image",
    "document",
    "search_result",
    "tool_use",
    "tool_result",
    "thinking",
    "redacted_thinking",
    "input_audio",
    "audio",
    "audio_url",
)


class OtherBlock(Documented):
    """A block of another type: its `text`, if it has one, counts."""

    type: Annotated[str, Field(json_schema_extra={"not": {"enum": list(_KNOWN_BLOCKS)}})]


class ToolUseBlock(Documented):
    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any]


class ToolResultBlock(Documented):
    type: Literal["tool_result"]
    tool_use_id: str
    content: str | list[TextBlock | ImageBlock | OtherBlock] | None = None
    is_error: Any = None


class ThinkingBlock(Documented):
    type: Literal["thinking"]
    thinking: str
    signature: Any = None


class RedactedThinkingBlock(Documented):
    type: Literal["redacted_thinking"]
    data: Any = None


class UserMessage(Documented):
    """Roles that are neither assistant nor system count as user."""

    role: Annotated[str, Field(json_schema_extra={"not": {"enum": ["assistant", "system"]}})]
    content: str | list[TextBlock | ImageBlock | ToolResultBlock | OtherBlock]


class AssistantMessage(Documented):
    role: Literal["assistant"]
    content: str | list[TextBlock | ToolUseBlock | ThinkingBlock | RedactedThinkingBlock | OtherBlock]


class SystemMessage(Documented):
    role: Literal["system"]
    content: str | list[TextBlock | OtherBlock]


class Tool(Documented):
    name: Annotated[str, Field(min_length=1)]
    description: Any = None
    input_schema: dict[str, Any]


class ProviderTool(Documented):
    """A tool without an `input_schema`: left out, as its provider is not here."""

    input_schema: None = None


class NamelessTool(Documented):
    """Left out too."""

    name: None = None


class ToolChoice(Documented):
    type: Literal["auto", "any", "none"]
    disable_parallel_tool_use: bool | None = None


class NamedToolChoice(Documented):
    type: Literal["tool"]
    name: str
    disable_parallel_tool_use: bool | None = None


class Thinking(Documented):
    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: Annotated[int, Field(ge=0, le=2**63 - 1)] | None = Field(
        None, description="After so many tokens the thinking is closed for the model."
    )


class JsonOutput(Documented):
    type: Literal["json_schema"]
    output_schema: dict[str, Any] = Field(alias="schema")


class OutputConfig(Documented):
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: JsonOutput | None = Field(None, description="The text must conform to this schema.")


class MessageRequest(Documented):
    """`null` counts as unset; unknown fields are ignored."""

    model: str | None = Field(None, description="Any: the loaded model answers. Servers may insist on one.")
    messages: Annotated[list[UserMessage | AssistantMessage | SystemMessage], Field(min_length=1)]
    system: str | list[TextBlock] | None = None
    tools: list[Tool | ProviderTool | NamelessTool] | None = None
    tool_choice: ToolChoice | NamedToolChoice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    chat_template_kwargs: TemplateVariables | None = Field(
        None, description="Variables for the model's chat template."
    )
    thinking_budget: Annotated[int, Field(ge=0, le=2**63 - 1)] | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None

    max_tokens: Count | None = Field(None, description="Ceiling of the reply. Default 1024.")
    stream: bool | None = Field(None, description="Answer with server-sent events.")
    stop_sequences: Annotated[list[str], Field(max_length=256)] | None = None
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    top_p: Fraction | None = None
    top_k: Window | None = None
    min_p: Fraction | None = None
    xtc_probability: Fraction | None = None
    xtc_threshold: Fraction | None = None
    seed: Annotated[int, Field(ge=-(2**63), le=2**64 - 1)] | None = None
    repetition_penalty: Annotated[float, Field(ge=0, le=100)] | None = None
    repetition_context_size: Window | None = None
    presence_penalty: Penalty | None = None
    presence_context_size: Window | None = None
    frequency_penalty: Penalty | None = None
    frequency_context_size: Window | None = None
    metadata: dict[str, Any] | None = Field(None, description="Accepted and ignored.")
    service_tier: Any = Field(None, description="Accepted and ignored.")
    session_id: Any = Field(None, description="Label that steers the prompt cache.")


class ReplyText(Documented):
    type: Literal["text"]
    text: str


class ReplyThinking(Documented):
    type: Literal["thinking"]
    thinking: str
    signature: str


class ReplyToolUse(Documented):
    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any]


class Usage(Documented):
    input_tokens: int = Field(description="The whole prompt, what came from the cache included.")
    output_tokens: int
    cache_read_input_tokens: int
    cache_creation_input_tokens: int


class Message(Documented):
    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[ReplyThinking | ReplyText | ReplyToolUse]
    stop_reason: Literal["end_turn", "max_tokens", "stop_sequence", "tool_use"] | None
    stop_sequence: str | None
    usage: Usage


class MessageEvent(Documented):
    """One event of a stream; its `event:` line repeats `type`."""

    model_config = ConfigDict(extra="allow")
    type: Literal[
        "message_start",
        "ping",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "error",
    ]


class TokenCount(Documented):
    input_tokens: int


class AnthropicErrorDetail(Documented):
    type: Literal["invalid_request_error", "api_error"]
    message: str


class AnthropicError(Documented):
    """Every refusal and failure."""

    type: Literal["error"]
    error: AnthropicErrorDetail
    request_id: str
