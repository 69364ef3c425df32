from __future__ import annotations

from typing import Any, ClassVar

import pytest
from transformers import PreTrainedTokenizerFast

from stoker.chat.model import TextModel
from stoker.errors import ContextLengthExceeded, InvalidRequest, TemplateError

from . import conversations, families, toys


def model(template: str | None = families.CHATML, backend: Any = None, **parts: Any) -> TextModel:
    config = {"chat_template": template, **parts.get("tokenizer_config", {})}
    return TextModel.from_parts(
        "tiny",
        backend or toys.byte_level(special=parts.get("special")),
        config,
        parts.get("generation_config", {}),
        parts.get("config", {"architectures": ["LlamaForCausalLM"], "max_position_embeddings": 512}),
        max_context=parts.get("max_context"),
        created=1700000000,
    )


def test_facts() -> None:
    text = model(generation_config={"temperature": 0.6})
    assert (text.id, text.architecture, text.max_context, text.created) == (
        "tiny",
        "LlamaForCausalLM",
        512,
        1700000000,
    )
    assert text.generation_defaults.temperature == 0.6


@pytest.mark.parametrize(
    ("config", "tokenizer_config", "override", "expected"),
    [
        ({"max_position_embeddings": 4096}, {}, None, 4096),
        ({"max_position_embeddings": 4096}, {}, 100, 100),
        ({"text_config": {"max_position_embeddings": 99}}, {}, None, 99),
        ({}, {"model_max_length": 777}, None, 777),
        ({}, {"model_max_length": 10**30}, None, 2048),
    ],
)
def test_max_context(config: Any, tokenizer_config: Any, override: int | None, expected: int) -> None:
    text = model(config=config, tokenizer_config=tokenizer_config, max_context=override)
    assert text.max_context == expected
    assert text.architecture == "unknown"


# --- when to end ---------------------------------------------------------------------------------

CHAT_TOKENS = [
    "<s>",
    "</s>",
    "<|im_start|>",
    "<|im_end|>",
    "<|eot_id|>",
    "<end_of_turn>",
    "<|end|>",
    "<custom_end>",
]


def ends(template: str | None, generation_config: Any = None, **parts: Any) -> set[str]:
    text = model(template, special=CHAT_TOKENS, generation_config=generation_config or {}, **parts)
    return {text.tokenizer.token_text(i) for i in text.eos_ids}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (None, set()),
        (families.CHATML, {"<|im_end|>"}),
        (families.CHATML_TOOLS, {"<|im_end|>"}),
        (families.LLAMA3, {"<|eot_id|>"}),
        (families.GEMMA, {"<end_of_turn>"}),
        (families.PHI3, {"<|end|>"}),
        (families.ZEPHYR, {"</s>"}),
        (families.LLAMA2, {"</s>"}),
        # Not a known name, but what the template closes a turn with.
        ("{% for m in messages %}{{ m.content }}\n<custom_end>\n{% endfor %}", {"<custom_end>"}),
        # Harmony: <|end|> closes the message of one channel, generation goes on.
        ("<|channel|>{% for m in messages %}{{ m.content ~ ('' if loop.last else '<|end|>') }}{% endfor %}",
         set()),
    ],
)  # fmt: skip
def test_end_of_turn_comes_from_the_template(template: str | None, expected: set[str]) -> None:
    config = {"tokenizer_config": {"bos_token": "<s>"}}
    if template in (families.ZEPHYR, families.LLAMA2):
        config = {"tokenizer_config": {"bos_token": "<s>", "eos_token": "</s>"}}
    assert ends(template, **config) == expected


def test_all_sources_of_eos_are_joined() -> None:
    found = ends(
        families.CHATML,
        generation_config={"eos_token_id": [4, 5]},
        config={"eos_token_id": 6, "text_config": {"eos_token_id": 7}},
        tokenizer_config={"eos_token": "</s>"},
    )
    assert found == {"</s>", "<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>", "<custom_end>"}
    assert ends(None, generation_config={"eos_token_id": None}, config={"eos_token_id": True}) == set()


def test_tokens_missing_from_the_vocabulary_end_nothing() -> None:
    assert model(families.GEMMA).eos_ids == frozenset()


# --- prompts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("messages", conversations.PLAIN.values(), ids=conversations.PLAIN)
@pytest.mark.parametrize("family", ["chatml", "chatml_default_system", "llama3", "deepseek", "vicuna"])
@pytest.mark.parametrize("kind", ["byte_level", "llama2", "gemma"])
def test_prompt_ids_are_those_of_transformers(kind: str, family: str, messages: Any) -> None:
    build = {
        "byte_level": lambda: toys.byte_level(special=CHAT_TOKENS),
        "llama2": lambda: toys.sentencepiece(prepend=True),
        "gemma": lambda: toys.sentencepiece(prepend=False),
    }[kind]
    named = {"bos_token": "<s>", "eos_token": "</s>"}
    reference = PreTrainedTokenizerFast(tokenizer_object=build(), **named)
    expected = reference.apply_chat_template(
        messages, chat_template=families.ALL[family], add_generation_prompt=True, return_dict=False
    )
    text = model(families.ALL[family], backend=build(), tokenizer_config=named)
    assert text.prompt_from_messages(messages) == expected


def test_bos_is_written_once() -> None:
    text = model(families.VICUNA, backend=toys.sentencepiece(), tokenizer_config={"bos_token": "<s>"})
    assert text.prompt_from_messages(conversations.USER).count(1) == 0  # the template wants none
    text = model(families.LLAMA3, backend=toys.sentencepiece(), tokenizer_config={"bos_token": "<s>"})
    assert text.prompt_from_messages(conversations.USER).count(1) == 1
    assert text.prompt_from_text("Hello").count(1) == 1
    assert text.prompt_from_text("Hello")[0] == 1


def test_special_tokens_given_as_objects_reach_the_template() -> None:
    named = {"bos_token": {"content": "<s>", "__type": "AddedToken"}}
    text = model("{{ bos_token }}|{{ eos_token }}", special=["<s>"], tokenizer_config=named)
    assert text.render(conversations.USER) == "<s>|"


def test_tools_and_variables_reach_the_template() -> None:
    text = model(families.CHATML_TOOLS)
    assert "get_weather" in text.render(conversations.USER, tools=conversations.TOOLS)
    prompt = text.render(conversations.USER, template_kwargs={"enable_thinking": False})
    assert prompt.endswith("<think>\n\n</think>\n\n")
    closed = text.render(conversations.USER, add_generation_prompt=False)
    assert closed.endswith("<|im_end|>\n")


def test_b16_a_model_without_a_template() -> None:
    text = model(None)
    with pytest.raises(
        TemplateError, match="no chat template; send a plain prompt to /v1/completions"
    ) as caught:
        text.prompt_from_messages(conversations.USER)
    assert caught.value.status == 400
    assert text.prompt_from_text("ab") == text.tokenizer.encode("ab")


def test_messages_are_checked_first() -> None:
    with pytest.raises(InvalidRequest, match="messages required"):
        model(None).render([])
    with pytest.raises(InvalidRequest, match="model tiny does not take audio"):
        model().render([{"role": "user", "content": [{"type": "input_audio"}]}])


def test_from_checkpoint() -> None:
    class Folder:
        config: ClassVar[dict[str, Any]] = {
            "model_type": "llama",
            "max_position_embeddings": 64,
            "eos_token_id": 2,
        }
        generation_config: ClassVar[dict[str, Any]] = {"top_k": 5}

        def tokenizer(self) -> Any:
            return toys.byte_level(), {"chat_template": families.CHATML}

    text = TextModel.from_checkpoint("tiny", Folder(), max_context=32)
    assert (text.max_context, text.architecture, text.generation_defaults.top_k) == (32, "llama", 5)
    assert text.eos_ids == {2}
    overridden = TextModel.from_checkpoint("tiny", Folder(), chat_template="{{ messages[0].content }}")
    assert overridden.render(conversations.USER) == "Name three rivers."


def test_any_text_survives_the_prompt() -> None:
    text = model()
    content = toys.SCRIPT + "\ud83c\udf0d \udead"
    ids = text.prompt_from_messages([{"role": "user", "content": content}])
    assert toys.SCRIPT + "🌍 \ufffd" in text.tokenizer.decode(ids)


def test_a_text_that_cannot_fit_is_refused_before_it_is_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    text = model()
    longest = text.tokenizer.longest_token
    assert text.prompt_from_text("x" * text.max_context)  # too long perhaps, but worth counting
    monkeypatch.setattr(type(text.tokenizer), "encode", lambda *_args, **_kwargs: pytest.fail("encoded"))
    with pytest.raises(ContextLengthExceeded, match=str(text.max_context)):
        text.prompt_from_text("x" * (text.max_context * longest + longest))
