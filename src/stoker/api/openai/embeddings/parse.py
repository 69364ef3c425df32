"""An embedding request's body to one checked value, and that to token sequences of the model.

`read_request` needs no model, so that a malformed request never waits for one to load.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from stoker.api.body import parse_object
from stoker.api.fields import Fields, as_integer
from stoker.api.model_field import read_model
from stoker.api.openai.embeddings.foreign_tokens import is_openai_model, text_of
from stoker.api.state import ApiSettings
from stoker.errors import ContextLengthExceeded, InvalidRequest

if TYPE_CHECKING:
    from stoker.embed.model import EmbeddingModel
    from stoker.embed.packing import Tokens

MAX_INPUTS = 2048
_TYPE = "invalid_request_error"
_NO_INPUT = "`input` must be a string or array of strings"

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EmbeddingRequest:
    texts: tuple[str, ...] | None  # either these
    ids: tuple[Ids, ...]  # or, when they are None, these
    encoding: Literal["float", "base64"]
    dimensions: int | None  # None = all
    instruction: str | None
    prompt_name: str | None  # must exist
    input_type: str | None  # used when the model has a prompt of that name
    truncate: bool


def read_request(body: bytes, settings: ApiSettings) -> EmbeddingRequest:
    """Raises InvalidRequest."""
    fields = Fields(parse_object(body))
    model = read_model(fields, settings)
    texts, ids = _read_input(fields.raw("input"))
    if texts is None and model is not None and is_openai_model(model):
        texts, ids = tuple(text_of(model, one) for one in ids), ()
    instruction = fields.string("instruction")
    prompt_name = fields.string("prompt_name")
    if texts is None and (instruction or prompt_name):
        raise _invalid("instruction and prompt_name need text in `input`, not token ids", "input")
    if instruction and prompt_name:
        raise _invalid("instruction and prompt_name exclude each other", "prompt_name")
    fields.string("user")
    return EmbeddingRequest(
        texts=texts,
        ids=ids,
        encoding=fields.one_of("encoding_format", ("float", "base64")) or "float",
        dimensions=fields.integer("dimensions", 1),
        instruction=instruction or None,
        prompt_name=prompt_name or None,
        input_type=fields.string("input_type") or None,
        truncate=bool(fields.flag("truncate")),
    )


def tokenize(request: EmbeddingRequest, model: EmbeddingModel) -> list[Tokens]:
    """Sequences within the model's limit. Raises InvalidRequest."""
    if request.dimensions is not None and request.dimensions > model.dimension:
        raise _invalid(
            f"dimensions must be at most {model.dimension}, the size of {model.id}'s vectors", "dimensions"
        )
    if request.texts is None:
        items = [model.tokenizer.frame(_own_ids(ids, model)) for ids in request.ids]
    else:
        items = model.tokenize(request.texts, _prompt(request, model))
    if request.truncate:
        return [model.truncate(item) for item in items]
    for index, item in enumerate(items):
        if len(item.ids) > model.max_tokens:
            raise ContextLengthExceeded(
                f"`input[{index}]` is too long: it has {len(item.ids)} tokens, and {model.id} reads "
                f"{model.max_tokens} at most; shorten it, or set truncate to drop its end",
                param="input",
            )
    return items


def _read_input(value: Any) -> tuple[tuple[str, ...] | None, tuple[Ids, ...]]:
    """Texts, or None and token ids."""
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or not value:
        raise _invalid(_NO_INPUT, "input")
    if as_integer(value[0]) is not None:
        value = [value]
    if len(value) > MAX_INPUTS:
        raise _invalid(f"`input` must hold at most {MAX_INPUTS} items, not {len(value)}", "input")
    if isinstance(value[0], str):
        for index, text in enumerate(value):
            if not isinstance(text, str):
                raise _invalid(_NO_INPUT, "input")
            if not text:
                raise _invalid(f"`input[{index}]` is an empty string", "input")
        return tuple(value), ()
    return None, tuple(_read_ids(index, item) for index, item in enumerate(value))


def _read_ids(index: int, value: Any) -> Ids:
    if not isinstance(value, list):
        raise _invalid(_NO_INPUT, "input")
    if not value:
        raise _invalid(f"`input[{index}]` is an empty array", "input")
    ids = [as_integer(item) for item in value]
    if any(id is None for id in ids):
        raise _invalid(_NO_INPUT, "input")
    return tuple(id for id in ids if id is not None)


def _own_ids(ids: Ids, model: EmbeddingModel) -> Ids:
    for id in ids:
        if not 0 <= id < model.tokenizer.vocab_size:
            raise _invalid(
                f"`input` names token {id}; {model.id} has {model.tokenizer.vocab_size} tokens. Token ids "
                "must come from its own tokenizer, or from OpenAI's when `model` is an OpenAI model; "
                "send text instead (LangChain: check_embedding_ctx_length=False)",
                "input",
            )
    return ids


def _prompt(request: EmbeddingRequest, model: EmbeddingModel) -> str:
    prompts = model.pipeline.prompts
    if request.instruction is not None:
        return f"Instruct: {request.instruction}\nQuery:"
    if request.prompt_name is not None:
        if request.prompt_name not in prompts:
            known = ", ".join(sorted(prompts)) or "none"
            raise _invalid(
                f"{model.id} has no prompt {request.prompt_name!r}; it has: {known}", "prompt_name"
            )
        return prompts[request.prompt_name]
    if request.input_type is not None:
        return prompts.get(request.input_type, model.pipeline.default_prompt)
    return model.pipeline.default_prompt


def _invalid(message: str, param: str) -> InvalidRequest:
    return InvalidRequest(message, param=param, type=_TYPE)
