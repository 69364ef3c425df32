from __future__ import annotations

import pytest

from stoker.chat.reasoning import opens_reasoning, reasoning_tags


def test_where_a_reply_starts() -> None:
    assert opens_reasoning("<|im_start|>assistant\n<think>\n")
    assert not opens_reasoning("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    assert not opens_reasoning("user wrote <think> in a question<|im_end|>assistant\n")
    assert opens_reasoning("<|turn>model\n<|channel>thought\n", ("<|channel>thought", "<channel|>"))


@pytest.mark.parametrize(
    ("template", "tags"),
    [
        ("{{ messages }}", None),
        ("... '</think>' in content ...", ("<think>", "</think>")),
        ("... '[THINK]' + block['thinking'] + '[/THINK]' ...", ("[THINK]", "[/THINK]")),
        ("... text.split('<channel|>') ...", ("<|channel>thought", "<channel|>")),
        ("... '</seed:think>' ...", ("<seed:think>", "</seed:think>")),
    ],
)
def test_tags_of_templates(template: str, tags: tuple[str, str] | None) -> None:
    assert reasoning_tags([template]) == tags
