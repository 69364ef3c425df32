"""Golden against transformers' own `apply_chat_template`, family by family; faults B16."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jinja2
import pytest
from transformers import PreTrainedTokenizerFast

from stoker.chat.template import ChatTemplate
from stoker.errors import InvalidRequest, TemplateError

from . import conversations, families, tool_families, toys

FAMILIES = families.ALL | tool_families.ALL


def test_there_are_at_least_25_families() -> None:
    assert len(FAMILIES) == len(families.ALL) + len(tool_families.ALL) >= 25


@pytest.fixture(scope="module")
def reference() -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=toys.byte_level(), **families.SPECIAL)


def expected(tokenizer: PreTrainedTokenizerFast, template: Any, messages: Any, **kwargs: Any) -> str:
    """transformers' text, or the words it refuses with."""
    kwargs = {"add_generation_prompt": True, **kwargs}
    try:
        return tokenizer.apply_chat_template(messages, chat_template=template, tokenize=False, **kwargs)
    except jinja2.TemplateError as error:
        return f"refused: {error}"


def ours(template: str, messages: Any, **kwargs: Any) -> str:
    try:
        return ChatTemplate(template, families.SPECIAL).render(messages, **kwargs)
    except TemplateError as error:
        return error.message.replace("prompt build failed: ", "refused: ", 1)


@pytest.mark.parametrize("add_generation_prompt", [True, False])
@pytest.mark.parametrize("messages", conversations.PLAIN.values(), ids=conversations.PLAIN)
@pytest.mark.parametrize("family", FAMILIES)
def test_plain_conversations(
    reference: PreTrainedTokenizerFast, family: str, messages: Any, add_generation_prompt: bool
) -> None:
    template = FAMILIES[family]
    kwargs = {"add_generation_prompt": add_generation_prompt}
    assert ours(template, messages, **kwargs) == expected(reference, template, messages, **kwargs)


@pytest.mark.parametrize("tools", [None, conversations.TOOLS], ids=["no tools", "tools"])
@pytest.mark.parametrize("family", ["chatml_tools", "xml_tools", "llama3", "mistral", *tool_families.ALL])
def test_tool_rounds(reference: PreTrainedTokenizerFast, family: str, tools: Any) -> None:
    template = FAMILIES[family]
    messages = conversations.tool_round(conversations.MAPPING)
    text = ours(template, messages, tools=tools)
    assert text == expected(reference, template, messages, tools=tools)
    assert "get_weather" in text
    assert "长" in text  # not escaped
    assert "<&>" in text


@pytest.mark.parametrize("thinking", [{}, {"enable_thinking": False}, {"enable_thinking": True}])
def test_extra_variables(reference: PreTrainedTokenizerFast, thinking: dict[str, bool]) -> None:
    template = families.CHATML_TOOLS
    messages = [
        *conversations.LONG[:-1],
        {"role": "assistant", "content": "x", "reasoning_content": "\nwhy\n"},
    ]
    assert ours(template, messages, **thinking) == expected(reference, template, messages, **thinking)
    controls = {"controls": {"length": "short"}, "documents": [{"title": "t", "text": "d"}]}
    text = ours(families.GRANITE, conversations.USER, **controls)
    assert text == expected(reference, families.GRANITE, conversations.USER, **controls)


SNIPPETS = [
    "{{ messages[0] | tojson }}",
    "{{ messages | tojson(indent=2) }}",
    "{{ {'b': 1, 'a': '<'} | tojson(sort_keys=true, separators=(',', ':')) }}",
    "{{ 'é' | tojson }}{{ 'é' | tojson(ensure_ascii=true) }}",
    "{{ tools is none }}|{{ tools }}|{{ documents is none }}",
    "{{ unknown }}|{{ unknown is defined }}|{{ messages[0].nothing }}",
    "{{ bos_token }}{{ eos_token }}{{ unk_token }}{{ pad_token }}",
    "{% for i in [0, 1, 2] %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}",
    "{% for i in range(5) %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{{ range(3) | list }}{{ range(5)[1] }}{{ range(2, 8, 3) | length }}{{ 3 in range(4) }}",
    "{{ range(4) | reverse | list }}{{ range(3) }}",
    "{% generation %}{% set x = 1 %}{{ x }}{% endgeneration %}{{ x is defined }}",
    "  {% if true %}\n  kept\n  {% endif %}\n  {# comment #}\n{{- ' a ' -}}\n\n  b",
    "{% set ns = namespace(n=0, self=2) %}"
    "{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}{{ ns.self }}",
    "{{ dict(a=1) }}{{ dict.fromkeys(['k'], 2) }}{{ cycler('x', 'y').next() }}",
    "{{ strftime_now('%Y-%m-%d') }}",
    "{% macro f(context, obj) %}{{ context }}{{ obj }}{% endmacro %}{{ f(obj=1, context=2) }}",
    "{{ '%s-%d' % ('a', 3) }}{{ 'ab' * 3 }}{{ 2 ** 10 }}{{ 7 % 3 }}{{ [1] + [2] }}{{ 1.5 * 2 }}{{ 'x' ~ 1 }}",
    "{{ messages[0].content.split()[-1].upper() }}{{ 'a,b'.split(',') | join('+') }}{{ ' x '.strip() }}",
    "{{ messages[-1]['content'][:4] }}",
    "{{ messages | selectattr('role', 'eq', 'user') | map(attribute='role') | list }}",
    "{{ 'x' if false }}|{{ none }}|{{ true and 'y' }}",
    "trailing newline\n",
    "{{ '<b>' | e }}{{ '<b>' }}",
    "{{ namespace(_hidden=1) }}",
    "{{ raise_exception('told you') }}",
]


@pytest.mark.parametrize("template", SNIPPETS)
def test_language(reference: PreTrainedTokenizerFast, template: str) -> None:
    text = expected(reference, template, conversations.LONG)
    if text.startswith("refused: ") and "told you" not in text:
        assert ours(template, conversations.LONG).startswith("refused: ")
    else:
        assert ours(template, conversations.LONG) == text


def test_named_templates(reference: PreTrainedTokenizerFast) -> None:
    listed = [
        {"name": "default", "template": "default {{ bos_token }}"},
        {"name": "tool_use", "template": "tools {{ tools | length }}"},
    ]
    named = {entry["name"]: entry["template"] for entry in listed}
    for source in (listed, named):
        template = ChatTemplate(source, families.SPECIAL)
        assert template.render(conversations.USER) == "default <s>"
        assert template.render(conversations.USER, tools=conversations.TOOLS) == "tools 2"
        assert template.render(conversations.USER, tools=[]) == "default <s>"
    assert ChatTemplate({"default": "d"}).render(conversations.USER, tools=conversations.TOOLS) == "d"
    with pytest.raises(TemplateError, match=r"no default chat template .it has: rag"):
        ChatTemplate({"rag": "x"}).render(conversations.USER)


@pytest.mark.parametrize("name", ["messages", "tools", "add_generation_prompt"])
def test_reserved_variables(name: str) -> None:
    # As the front passes them: a caller's own object of extra variables.
    extra: dict[str, Any] = {name: []}
    template = ChatTemplate(families.CHATML)
    with pytest.raises(InvalidRequest, match=f"chat_template_kwargs must not contain {name}"):
        template.render_with(conversations.USER, None, True, extra)


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{{ raise_exception('Only user and assistant roles are supported!') }}",
         "Only user and assistant roles are supported!"),
        ("a\n{{ nothing.here }}", r"the model's chat template failed \(line 2\): 'nothing' is undefined"),
        ("{{ 1 // 0 }}", r"failed \(line 1\): integer division or modulo by zero"),
        ("{{ messages[0].content + 1 }}", r"failed \(line 1\): can only concatenate str"),
        ("{{ messages.append(1) }}", "unsafe"),
        ("{{ nothing() }}", "'nothing' is undefined"),
        ("{% for %}", "does not parse: .*line 1"),
        ("{% nonsense %}", "does not parse"),
        ("{{ x | nofilter }}", "does not parse: No filter named 'nofilter'"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "calls itself without end"),
        ("{% include 'x' %}", "failed"),
    ],
)  # fmt: skip
def test_b16_errors(template: str, words: str) -> None:
    chat_template = ChatTemplate(template)  # building never fails: completions work without it
    with pytest.raises(TemplateError, match=words) as caught:
        chat_template.render(conversations.USER)
    assert caught.value.status == 400
    assert caught.value.message.startswith("prompt build failed: ")
    assert "Traceback" not in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.__suppress_context__ or caught.value.__context__ is None  # no trace in the log


@pytest.mark.real_weights
def test_smollm2s_own_template() -> None:
    path = os.environ.get("STOKER_TEST_SMOLLM2", "")
    if not Path(path).is_file():
        pytest.skip("STOKER_TEST_SMOLLM2 names no file")
    import gguf

    fields = gguf.GGUFReader(path).fields
    template = fields["tokenizer.chat_template"].contents()
    special = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=toys.byte_level(), **special)
    for messages in conversations.PLAIN.values():
        for prompt in (True, False):
            text = tokenizer.apply_chat_template(
                messages, chat_template=template, tokenize=False, add_generation_prompt=prompt
            )
            assert ChatTemplate(template, special).render(messages, add_generation_prompt=prompt) == text
