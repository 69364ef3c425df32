"""The engine with constraints, on a tiny random model: whatever a model says, the text conforms."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from tests.cli.tiny import make_tiny_model
from tests.engine.grammar.schemas import SCHEMAS

from stoker.app import grammar_vocabulary
from stoker.chat.model import TextModel
from stoker.core import Constraint, ErrorEvent, FinishEvent, GenerationRequest, SamplingParams, TokenEvent
from stoker.engine import Engine, EngineConfig, GenerationHandle
from stoker.engine.grammar import GrammarCompiler
from stoker.errors import GrammarError
from stoker.kv.paged import PagedKV
from stoker.models import load_model
from stoker.models.formats import open_checkpoint

WILD = SamplingParams(temperature=1.5, seed=0)
WORDS = Constraint("regex", r"[a-c]{2,4}( [a-c]{2,4}){3,9}\.")


class Rig:
    def __init__(self, folder: Any, num_blocks: int = 512, **config: Any) -> None:
        checkpoint = open_checkpoint(folder)
        model = load_model(checkpoint, max_context=4096)
        self.text = TextModel.from_checkpoint("tiny", checkpoint)
        self.grammars = GrammarCompiler(lambda: grammar_vocabulary(self.text.tokenizer))
        kv = PagedKV(model.facts.layers, num_blocks=num_blocks)
        self.engine = Engine(model, kv, EngineConfig(**config), grammars=self.grammars)
        self.engine.start()

    def submit(
        self, constraint: Constraint | None, sampling: SamplingParams = WILD, **more: Any
    ) -> GenerationHandle:
        prompt = tuple(self.text.prompt_from_text(more.pop("prompt", "Say it:")))
        request = GenerationRequest(
            "r",
            prompt,
            sampling,
            constraint=constraint,
            eos_ids=self.text.eos_ids,
            **{"max_tokens": 250, **more},
        )
        return self.engine.submit(request)

    def replies(self, handle: GenerationHandle) -> list[tuple[str, str]]:
        """(text, finish reason) of each choice."""
        data: dict[int, bytes] = {}
        reasons: dict[int, str] = {}
        for event in (event for batch in handle.batches_blocking() for event in batch):
            if isinstance(event, TokenEvent) and not event.is_eos:
                token = self.text.tokenizer.token_bytes(event.token_id)
                data[event.index] = data.get(event.index, b"") + token
            elif isinstance(event, FinishEvent):
                reasons[event.index] = event.reason
            elif isinstance(event, ErrorEvent):
                reasons = {0: event.message}
        return [(data.get(index, b"").decode(), reasons[index]) for index in sorted(reasons)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return make_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def rig(folder: Any) -> Iterator[Rig]:
    rig = Rig(folder)
    yield rig
    rig.engine.close()


# The tiny model's vocabulary is ASCII.
@pytest.mark.parametrize("name", [name for name in SCHEMAS if name not in ("const", "unicode keys")])
def test_every_complete_answer_validates(rig: Rig, name: str) -> None:
    schema = SCHEMAS[name]
    validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
    constraint = Constraint("json_schema", json.dumps(schema, ensure_ascii=False))
    replies = rig.replies(rig.submit(constraint, n=4))
    assert len(replies) == 4, replies
    finished = [text for text, reason in replies if reason == "stop"]
    assert finished or name in ("formats", "further properties of a kind"), replies
    for text in finished:
        validator.validate(json.loads(text))


def test_keys_come_in_the_schemas_order(rig: Rig) -> None:
    constraint = Constraint("json_schema", json.dumps(SCHEMAS["required in another order"]))
    ((text, _),) = rig.replies(rig.submit(constraint))
    assert list(json.loads(text)) == ["z", "a"]


@pytest.mark.parametrize(
    "sampling",
    [
        SamplingParams(temperature=0),
        SamplingParams(temperature=3, top_k=5, seed=1),
        SamplingParams(temperature=3, top_p=0.5, min_p=0.1, seed=1),
        SamplingParams(
            temperature=1, repetition_penalty=1.5, presence_penalty=2, frequency_penalty=1, seed=1
        ),
        SamplingParams(temperature=1, logit_bias=dict.fromkeys(range(60), 100.0), seed=1),
        SamplingParams(temperature=1, xtc_probability=1, xtc_threshold=0.01, seed=1),
        SamplingParams(temperature=1, logprobs=3, seed=1),
    ],
    ids=["greedy", "top-k", "top-p", "penalties", "bias", "xtc", "logprobs"],
)
def test_every_way_of_sampling(rig: Rig, sampling: SamplingParams) -> None:
    for text, reason in rig.replies(rig.submit(WORDS, sampling, n=2)):
        assert reason == "stop"
        assert re.fullmatch(WORDS.source, text)


def test_a_cut_is_a_length(rig: Rig) -> None:
    ((text, reason),) = rig.replies(rig.submit(WORDS, max_tokens=5))
    assert (len(text), reason) == (5, "length")
    # At the last token the grammar is satisfied: that is no cut.
    ((text, reason),) = rig.replies(rig.submit(Constraint("regex", "abc"), max_tokens=3))
    assert (text, reason) == ("abc", "stop")
    ((text, reason),) = rig.replies(rig.submit(Constraint("regex", "")))
    assert (text, reason) == ("", "stop")


def test_neighbours_change_nothing(rig: Rig) -> None:
    def start() -> list[GenerationHandle]:
        return [
            rig.submit(c, n=2, max_tokens=40) for c in (WORDS, None, Constraint("choice", '["ab", "ba"]'))
        ]

    alone = []
    for number in range(3):
        handles = start()
        alone.append(rig.replies(handles[number]))
        for handle in handles:
            handle.cancel()
    assert [rig.replies(handle) for handle in start()] == alone
    assert all(re.fullmatch(WORDS.source, text) for text, reason in alone[0] if reason == "stop")
    assert all(text in ("ab", "ba") for text, _ in alone[2])


def test_preempted_rows_go_on_where_they_were(folder: Any, rig: Rig) -> None:
    prompts = ["a" * 90, "b" * 80, "c" * 70]
    # Two rows have room to begin and none to end, whatever is drawn.
    long = Constraint("regex", "[a-z]{70}")
    expected = [rig.replies(rig.submit(long, prompt=prompt)) for prompt in prompts]
    small = Rig(folder, num_blocks=9)
    all_there = threading.Event()
    try:
        small.engine.run_exclusive(lambda: all_there.wait(30))
        handles = [small.submit(long, prompt=prompt) for prompt in prompts]
        all_there.set()
        got = [small.replies(handle) for handle in handles]
        assert small.engine.stats().preemptions > 0
    finally:
        small.engine.close()
    assert got == expected


def test_a_vocabulary_without_the_characters(rig: Rig) -> None:
    ((text, reason),) = rig.replies(rig.submit(Constraint("choice", '["aé"]')))
    assert text == "a"
    assert "cannot be followed further" in reason or "no token is allowed" in reason


def test_cancelling_frees_the_row(rig: Rig) -> None:
    handle = rig.submit(Constraint("json_schema", '{"type": "string", "minLength": 3000}'), max_tokens=3000)
    handle.cancel()
    ((_, reason),) = rig.replies(handle)
    assert reason == "cancelled"
    assert rig.replies(rig.submit(Constraint("regex", "abc"))) == [("abc", "stop")]


def test_what_cannot_compile_queues_nothing(rig: Rig) -> None:
    before = rig.engine.stats().submitted_rows
    with pytest.raises(GrammarError):
        rig.submit(Constraint("regex", "("))
    assert rig.engine.stats().submitted_rows == before


def test_a_grammar_that_gets_too_complex_ends_its_own_request_only(rig: Rig) -> None:
    # All of 400 rules may have ended at every letter, so what is kept grows by as much with each; and no
    # token holds the end.
    rules = "\n".join(f'x{i}: ("a" | "b") x{i}?' for i in range(400))
    hard = Constraint("lark", f'start: ({" | ".join(f"x{i}" for i in range(400))}) "é"\n{rules}')
    handle = rig.submit(hard)
    neighbour = rig.submit(Constraint("regex", "abc"))
    ((_, reason),) = rig.replies(handle)
    assert "cannot be followed further" in reason
    assert rig.replies(neighbour) == [("abc", "stop")]
