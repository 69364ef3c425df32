"""Everything about a served model that is not a tensor: names, text, and when to end.

Built once at start-up, then read by every request. It never runs the model.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import tokenizers

from stoker.chat.defaults import GenerationDefaults
from stoker.chat.messages import normalize_messages
from stoker.chat.remembered import RememberedTexts, encode_with
from stoker.chat.shaping import render_conversation
from stoker.chat.template import ChatTemplate
from stoker.chat.tokenizer import Tokenizer
from stoker.errors import ContextLengthExceeded, TemplateError

# Tokens that close an assistant's turn in one family or another. Counted when the template writes
# them; a model's own eos_token_id often names only the end of a document.
_TURN_ENDS = (
    "<|im_end|>",
    "<end_of_turn>",
    "<turn|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|eot|>",
    "<|end|>",
    "<|end_of_turn|>",
    "<|END_OF_TURN_TOKEN|>",
    "<|return|>",
    "<|call|>",
    "<|tool_response>",  # Gemma 4: the model has called and waits for the result
)
_FALLBACK_CONTEXT = 2048


class TextCheckpoint(Protocol):
    """What `from_checkpoint` reads of a checkpoint on disk."""

    @property
    def config(self) -> dict[str, Any]: ...
    @property
    def generation_config(self) -> dict[str, Any]: ...
    def tokenizer(self) -> tuple[tokenizers.Tokenizer, dict[str, Any]]: ...


@dataclass(frozen=True)
class TextModel:
    """Plain facts, plus the two ways to make a prompt."""

    id: str
    tokenizer: Tokenizer
    template: ChatTemplate | None
    eos_ids: frozenset[int]
    generation_defaults: GenerationDefaults
    max_context: int  # tokens
    architecture: str
    created: int = field(default_factory=lambda: int(time.time()))  # unix seconds
    remembered: RememberedTexts = field(default_factory=RememberedTexts, compare=False, repr=False)
    enforces_context: bool = False  # `max_context` is a limit of the operator's, not the model's

    @classmethod
    def from_checkpoint(
        cls,
        id: str,
        checkpoint: TextCheckpoint,
        *,
        max_context: int | None = None,
        chat_template: str | None = None,
        created: int | None = None,
    ) -> TextModel:
        """`max_context` and `chat_template` override what the checkpoint says."""
        backend, tokenizer_config = checkpoint.tokenizer()
        return cls.from_parts(
            id,
            backend,
            tokenizer_config,
            checkpoint.generation_config,
            checkpoint.config,
            max_context=max_context,
            chat_template=chat_template,
            created=created,
        )

    @classmethod
    def from_parts(
        cls,
        id: str,
        backend: tokenizers.Tokenizer,
        tokenizer_config: Mapping[str, Any],
        generation_config: Mapping[str, Any],
        config: Mapping[str, Any],
        *,
        max_context: int | None = None,
        chat_template: str | None = None,
        created: int | None = None,
    ) -> TextModel:
        """The same from the parts: a tokenizer and the contents of tokenizer_config.json,
        generation_config.json and config.json."""
        tokenizer = Tokenizer(backend, tokenizer_config)
        source = chat_template or tokenizer_config.get("chat_template")
        template = ChatTemplate(source, tokenizer.special_tokens) if source else None
        text_config = config.get("text_config")
        configs = [config, text_config] if isinstance(text_config, Mapping) else [config]
        architectures = config.get("architectures") or [config.get("model_type") or "unknown"]
        return cls(
            id=id,
            tokenizer=tokenizer,
            template=template,
            eos_ids=_find_eos_ids(tokenizer, template, [generation_config, *configs]),
            generation_defaults=GenerationDefaults.from_config(generation_config),
            max_context=max_context or _find_max_context(configs, tokenizer_config),
            architecture=str(architectures[0]),
            created=int(time.time()) if created is None else created,
        )

    def render(
        self,
        messages: object,
        tools: Sequence[Mapping[str, Any]] | None = None,
        template_kwargs: Mapping[str, Any] | None = None,
        add_generation_prompt: bool = True,
    ) -> str:
        """The prompt text of a conversation in the OpenAI form. Raises InvalidRequest for messages
        of a wrong shape, TemplateError when the template refuses them or there is none."""
        plain = normalize_messages(messages, self.id)
        if self.template is None:
            raise TemplateError(
                f"prompt build failed: model {self.id} has no chat template; "
                "send a plain prompt to /v1/completions instead"
            )
        return render_conversation(self.template, plain, tools, template_kwargs, add_generation_prompt)

    def prompt_from_messages(
        self,
        messages: object,
        tools: Sequence[Mapping[str, Any]] | None = None,
        template_kwargs: Mapping[str, Any] | None = None,
        add_generation_prompt: bool = True,
    ) -> list[int]:
        """Token ids of `render`. The template writes BOS itself where the model wants one; none is
        added here, as in transformers' `apply_chat_template`."""
        return self.prompt_from_rendered(self.render(messages, tools, template_kwargs, add_generation_prompt))

    def prompt_from_rendered(self, text: str) -> list[int]:
        """Token ids of what `render` gave. A conversation that goes on from a remembered reply keeps
        that reply's ids."""
        self._refuse_endless(text)
        return encode_with(self.tokenizer, self.remembered, text)

    def remember_reply(self, prompt_ids: Sequence[int], reply_ids: Sequence[int]) -> None:
        """The ids the model has just replied with, for the prompt that will contain the reply."""
        end = len(reply_ids)
        if end and reply_ids[-1] in self.eos_ids:
            end -= 1  # the template writes it
        if end:
            self.remembered.remember(self.tokenizer, [*prompt_ids, *reply_ids[:end]])

    def prompt_from_text(self, text: str) -> list[int]:
        """Token ids of a plain prompt, with the tokenizer's own BOS."""
        self._refuse_endless(text)
        return self.tokenizer.encode(text, add_special=True)

    def _refuse_endless(self, text: str) -> None:
        """Raises ContextLengthExceeded for a text that cannot fit however it is cut, before the
        seconds it would take to find out exactly."""
        at_least = len(text) // self.tokenizer.longest_token
        if at_least > self.max_context:
            raise ContextLengthExceeded(
                f"prompt is too long: its {len(text)} characters are more than {at_least} tokens, "
                f"and the context holds {self.max_context}",
                type="memory_admission" if self.enforces_context else None,
                code="context_over_budget" if self.enforces_context else None,
            )


def _find_eos_ids(
    tokenizer: Tokenizer, template: ChatTemplate | None, configs: Sequence[Mapping[str, Any]]
) -> frozenset[int]:
    ids: set[int] = set()
    for config in configs:
        value = config.get("eos_token_id")
        listed = value if isinstance(value, list) else [value]
        ids |= {i for i in listed if isinstance(i, int) and not isinstance(i, bool) and i >= 0}
    if tokenizer.eos_id is not None:
        ids.add(tokenizer.eos_id)
    if template is not None:
        ids |= _turn_end_ids(tokenizer, template)
    return frozenset(ids)


def _turn_end_ids(tokenizer: Tokenizer, template: ChatTemplate) -> set[int]:
    """The token the template closes an assistant's turn with, and known ones it names."""
    ids: set[int] = set()
    tail = tokenizer.encode(template.traits().turn_end.lstrip(), add_special=False)
    if tail and tokenizer.is_added(tail[0]):
        ids.add(tail[0])
    sources = "\n".join(template.sources.values())
    for token in _TURN_ENDS:
        # In the Harmony format <|end|> closes one channel's message, not the turn.
        if token == "<|end|>" and "<|channel|>" in sources:
            continue
        token_id = tokenizer.token_id(token) if token in sources else None
        if token_id is not None:
            ids.add(token_id)
    return ids


def _find_max_context(configs: Sequence[Mapping[str, Any]], tokenizer_config: Mapping[str, Any]) -> int:
    names = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx")
    candidates = [config.get(name) for config in configs for name in names]
    candidates.append(tokenizer_config.get("model_max_length"))
    for value in candidates:
        # transformers writes 10**30 for "no limit"
        if isinstance(value, int) and 0 < value < 2**40:
            return value
    return _FALLBACK_CONTEXT
