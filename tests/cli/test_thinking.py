"""What the model thinks in the terminal: dim for a person, nothing for a script, never in the answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.fakes import IM_END, byte_text_model, text_script

from stoker.cli.generation import generate_reply, prompt_of
from stoker.cli.output import write_dim
from stoker.core import Event, FinishEvent, GenerationRequest, PromptEvent, SamplingParams, TokenEvent

THINKING = (
    "{% for m in messages %}{{ m.role }}:{{ m.content }}\n{% endfor %}assistant:"
    "{% if messages[-1].content == 'open' %}<think>\n{% endif %}{# </think> #}"
)


class FakeEngine:
    """Says one text, a token each."""

    def __init__(self, text: str) -> None:
        self._text = text

    def submit(self, request: GenerationRequest) -> FakeEngine:
        return self

    def cancel(self) -> None:
        pass

    def batches_blocking(self) -> Iterator[list[Event]]:
        yield [PromptEvent(1, 0)]
        for token_id in text_script(self._text):
            yield [TokenEvent(0, token_id, token_id == IM_END)]
        yield [FinishEvent(0, "stop")]


@pytest.mark.parametrize(
    ("question", "said"), [("hi", "<think>\nHm.\n</think>\n\nYes."), ("open", "Hm.\n</think>\n\nYes.")]
)
def test_tags_are_not_shown(question: str, said: str) -> None:
    served: Any = type("Served", (), {"text": byte_text_model(template=THINKING), "engine": FakeEngine(said)})
    prompt, reading = prompt_of(served.text, [{"role": "user", "content": question}])
    assert bytes(prompt).decode().startswith(f"user:{question}\nassistant:")
    shown: list[str] = []
    reply = generate_reply(
        served,
        prompt,
        SamplingParams(),
        max_tokens=None,
        emit=shown.append,
        emit_thinking=lambda text: shown.append(f"[{text}]"),
        reading=reading,
    )
    assert (reply.reasoning, reply.text) == ("Hm.", "Yes.")
    assert "".join(shown).replace("][", "") == "[Hm.\n\n]Yes."


def test_dim_on_a_terminal_only(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    write_dim("Hm.")
    assert capsys.readouterr().out == ""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    write_dim("Hm.")
    assert capsys.readouterr().out == "\x1b[2mHm.\x1b[22m"
