"""An engine that plays an agent: a call in each turn until five results are there, then an answer."""

from __future__ import annotations

from tests.api.fronts import Front, make_front
from tests.chat.families import CHATML_TOOLS
from tests.fakes import byte_text_model, text_script

from stoker.core import GenerationRequest

NUM_TURNS = 5
ANSWER = "The sum is 15."
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def looping_front() -> Front:
    text = byte_text_model(template=CHATML_TOOLS, max_context=16_384)
    return make_front(_play, text=text, max_context=16_384)


def result_of(number: int) -> str:
    return f"value-{number}"


def _play(request: GenerationRequest, index: int) -> list[int]:
    """By the results in the prompt: they must all have come back, in order."""
    prompt = bytes(token for token in request.prompt_ids if token < 256).decode()
    places = [prompt.find(result_of(number)) for number in range(1, NUM_TURNS + 1)]
    num_results = len([place for place in places if place >= 0])
    assert places[:num_results] == sorted(places[:num_results])
    if num_results == NUM_TURNS:
        return text_script(ANSWER)
    number = num_results + 1
    call = f'{{"name": "read", "arguments": {{"n": {number}}}}}'
    return text_script(f"Step {number}.\n<tool_call>\n{call}\n</tool_call>")
