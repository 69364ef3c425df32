"""Documentation models of Responses. They check nothing: parse.py does."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from stoker.api.documented import Documented, TemplateVariables
from stoker.api.openai.schema import Count, Fraction, LogitBias, Penalty, Window


class InputText(Documented):
    type: Literal["input_text", "output_text", "text"]
    text: str


class InputImage(Documented):
    type: Literal["input_image"]
    image_url: str


_KNOWN_ITEMS = ("message", "function_call", "function_call_output", "reasoning", "item_reference")


class OtherItem(Documented):
    """An item of another type and without a role is ignored."""

    type: Annotated[str, Field(json_schema_extra={"not": {"enum": list(_KNOWN_ITEMS)}})]


class InputMessage(Documented):
    """Roles besides assistant, system and developer count as user."""

    type: Literal["message"] | None = None
    role: str
    content: str | list[InputText | InputImage] | None = None


class InputFunctionCall(Documented):
    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str


class InputFunctionOutput(Documented):
    type: Literal["function_call_output"]
    call_id: str
    output: Any = None


class InputReasoning(Documented):
    type: Literal["reasoning"]
    summary: Any = None
    encrypted_content: Any = None


class OtherTool(Documented):
    """Left out: its provider is not here."""

    type: Annotated[str, Field(json_schema_extra={"not": {"const": "function"}})]


class FunctionTool(Documented):
    type: Literal["function"] = "function"
    name: Annotated[str, Field(min_length=1)]
    description: Any = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class NamedFunction(Documented):
    type: Literal["function"]
    name: str


class AllowedTools(Documented):
    type: Literal["allowed_tools"]
    mode: Literal["auto", "required"] = "auto"
    tools: list[dict[str, Any]]


class TextFormat(Documented):
    type: Literal["text", "json_object"]


class JsonSchemaFormat(Documented):
    type: Literal["json_schema"]
    name: str | None = None
    description: str | None = None
    output_schema: dict[str, Any] = Field(alias="schema")
    strict: bool | None = None


class TextConfig(Documented):
    format: TextFormat | JsonSchemaFormat | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class Reasoning(Documented):
    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None


Includable = Literal[
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
    "message.output_text.logprobs",
    "reasoning.encrypted_content",
    "web_search_call.action.sources",
    "web_search_call.results",
]


InputItem = InputMessage | InputFunctionCall | InputFunctionOutput | InputReasoning | OtherItem
Metadata = Annotated[
    dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]], Field(max_length=16)
]


class ResponseRequest(Documented):
    """`null` counts as unset; unknown fields are ignored."""

    model: str | None = Field(None, description="Any: the loaded model answers. Servers may insist on one.")
    input: str | Annotated[list[InputItem], Field(min_length=1)]
    instructions: str | None = None
    previous_response_id: str | None = Field(
        None, description="Id of a stored response to continue from; 404 when it is gone."
    )
    stream: bool | None = Field(None, description="Answer with server-sent events.")
    store: bool | None = Field(None, description="Default true: kept for an hour, 32 MiB in all.")
    include: list[Includable] | None = None
    metadata: Metadata | None = Field(None, description="Repeated in the response.")
    max_output_tokens: Count | None = None
    max_tokens: Count | None = Field(None, description="The same; max_output_tokens wins.")
    max_tool_calls: Count | None = Field(None, description="Accepted and ignored.")
    tools: list[FunctionTool | OtherTool] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedFunction | AllowedTools | None = None
    parallel_tool_calls: bool | None = None
    text: TextConfig | None = None
    reasoning: Reasoning | None = None
    truncation: Literal["auto", "disabled"] | None = Field(
        None, description="auto leaves out the oldest turns of an input that is too long."
    )
    background: Literal[False] | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    top_p: Fraction | None = None
    top_k: Window | None = None
    min_p: Fraction | None = None
    xtc_probability: Fraction | None = None
    xtc_threshold: Fraction | None = None
    seed: Annotated[int, Field(ge=-(2**63), le=2**64 - 1)] | None = None
    logit_bias: LogitBias | None = None
    repetition_penalty: Annotated[float, Field(ge=0, le=100)] | None = None
    repetition_context_size: Window | None = None
    presence_penalty: Penalty | None = None
    presence_context_size: Window | None = None
    frequency_penalty: Penalty | None = None
    frequency_context_size: Window | None = None
    thinking_budget: Annotated[int, Field(ge=0, le=2**63 - 1)] | None = Field(
        None, description="After so many tokens the thinking is closed for the model."
    )
    chat_template_kwargs: TemplateVariables | None = None
    user: str | None = None
    safety_identifier: str | None = None
    service_tier: Any = Field(None, description="Accepted and ignored.")
    prompt_cache_key: Any = Field(None, description="Label that steers the prompt cache.")


class InputTokensDetails(Documented):
    cached_tokens: int


class OutputTokensDetails(Documented):
    reasoning_tokens: int


class ResponseUsage(Documented):
    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int


class IncompleteDetails(Documented):
    reason: Literal["max_output_tokens"]


class ResponseFailure(Documented):
    code: str
    message: str


class ResponseObject(Documented):
    model_config = ConfigDict(extra="allow")
    id: str
    object: Literal["response"]
    created_at: int
    completed_at: int | None
    status: Literal["in_progress", "completed", "incomplete", "failed", "cancelled"]
    error: ResponseFailure | None
    incomplete_details: IncompleteDetails | None
    instructions: str | None
    model: str
    output: list[dict[str, Any]] = Field(description="Items: reasoning, message, function_call.")
    previous_response_id: str | None
    store: bool
    usage: ResponseUsage | None
    metadata: dict[str, str]


class ResponseEvent(Documented):
    """One event of a stream; its `event:` line repeats `type`."""

    model_config = ConfigDict(extra="allow")
    type: str
    sequence_number: int


class ItemList(Documented):
    object: Literal["list"]
    data: list[dict[str, Any]]
    first_id: str | None
    last_id: str | None
    has_more: bool


class Deleted(Documented):
    id: str
    object: Literal["response"]
    deleted: Literal[True]


class ResponsesErrorDetail(Documented):
    message: str
    type: Literal["invalid_request_error", "server_error"]
    param: str | None
    code: str | None


class ResponsesError(Documented):
    """Every refusal and failure."""

    error: ResponsesErrorDetail
