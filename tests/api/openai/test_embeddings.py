"""POST /v1/embeddings over the wire: inputs, limits, encodings, and the clients people use."""

from __future__ import annotations

import asyncio
import base64
import struct
import threading
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import openai
import pytest
from tests.api.fronts import Front, make_front, serving
from tests.embed.services import tiny_service

from stoker.embed.lane import Job
from stoker.embed.passes import Pass, Vectors
from stoker.embed.service import EmbedService

PROMPTS = {"prompts": {"query": "w70 ", "document": "w71 "}}
CLS, SEP = 2, 3


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbedService]:
    folder = tmp_path_factory.mktemp("models")
    service = tiny_service(folder, config_sentence_transformers=PROMPTS)
    yield service
    service.close()


@pytest.fixture(scope="module")
def front(service: EmbedService) -> Front:
    return make_front(embed=service)


async def ask(front: Front, input: Any, **more: Any) -> httpx.Response:
    return await front.post("/v1/embeddings", {"model": "any", "input": input, **more})


async def vectors(front: Front, input: Any, **more: Any) -> list[list[float]]:
    response = await ask(front, input, **more)
    assert response.status_code == 200, response.text
    data = response.json()["data"]
    assert [row["index"] for row in data] == list(range(len(data)))
    return [row["embedding"] for row in data]


async def refusal(front: Front, input: Any, **more: Any) -> dict[str, Any]:
    response = await ask(front, input, **more)
    assert response.status_code == 400, response.text
    error: dict[str, Any] = response.json()["error"]
    assert error["type"] == "invalid_request_error"
    return error


async def test_the_answers_shape(front: Front) -> None:
    response = await ask(front, ["w1 w2", "w3"], user="somebody")
    body = response.json()
    assert body["object"] == "list"
    assert body["model"] == "tiny/embedding"
    # Words and the frame of [CLS] and [SEP].
    assert body["usage"] == {"prompt_tokens": 4 + 3, "total_tokens": 7}
    for row in body["data"]:
        assert row["object"] == "embedding"
        assert np.linalg.norm(row["embedding"]) == pytest.approx(1, abs=1e-5)
        assert len(row["embedding"]) == 32


async def test_four_forms_of_input_mean_the_same(front: Front) -> None:
    (one,) = await vectors(front, "w1 w2")
    for form in (["w1 w2"], [7, 8], [[7, 8]], [CLS, 7, 8, SEP]):
        (other,) = await vectors(front, form)
        assert other == pytest.approx(one, abs=1e-6)
    assert (await vectors(front, [[7, 8], [9]]))[0] == pytest.approx(one, abs=1e-6)


@pytest.mark.parametrize(
    "input", [None, [], {}, 5, True, ["w1", 5], [["w1"]], [7, "w1"], [[7], "w1"], [[7.5]]]
)
async def test_other_types_are_refused(front: Front, input: Any) -> None:
    error = await refusal(front, input)
    assert error["message"] == "`input` must be a string or array of strings"
    assert error["param"] == "input"


@pytest.mark.parametrize("input", ["", ["w1", ""], [[]], [[7], []]])
async def test_empty_items_are_refused(front: Front, input: Any) -> None:
    assert "is an empty" in (await refusal(front, input))["message"]


async def test_blank_text_has_a_vector(front: Front) -> None:
    (blank,) = await vectors(front, "   ")
    assert np.linalg.norm(blank) == pytest.approx(1, abs=1e-5)


async def test_too_long_is_refused_with_the_limit_or_cut(front: Front) -> None:
    fits, too_long = " ".join(["w5"] * 38), " ".join(["w5"] * 39)
    (whole,) = await vectors(front, fits)
    error = await refusal(front, ["w1", too_long])
    assert error["code"] == "context_length_exceeded"
    assert "`input[1]`" in error["message"]
    assert "41 tokens" in error["message"]
    assert "40 at most" in error["message"]
    response = await ask(front, too_long, truncate=True)
    assert response.json()["usage"]["prompt_tokens"] == 40
    assert response.json()["data"][0]["embedding"] == pytest.approx(whole, abs=1e-6)


async def test_at_most_2048_items(front: Front) -> None:
    assert len(await vectors(front, ["w1"] * 2048, dimensions=1)) == 2048
    assert "at most 2048" in (await refusal(front, ["w1"] * 2049))["message"]


async def test_a_token_outside_the_vocabulary_is_refused(front: Front) -> None:
    assert "120" in (await refusal(front, [7, 120]))["message"]
    assert "-1" in (await refusal(front, [[-1]]))["message"]


async def test_dimensions_cut_and_renormalize(front: Front) -> None:
    (whole,) = await vectors(front, "w1 w2")
    (short,) = await vectors(front, "w1 w2", dimensions=5)
    expected = np.array(whole[:5]) / np.linalg.norm(whole[:5])
    assert short == pytest.approx(expected.tolist(), abs=1e-6)
    for wrong in (0, 33, -1):
        assert "dimensions" in (await refusal_any(front, "w1", dimensions=wrong))["message"]


async def refusal_any(front: Front, input: Any, **more: Any) -> dict[str, Any]:
    response = await ask(front, input, **more)
    assert response.status_code == 400
    error: dict[str, Any] = response.json()["error"]
    return error


async def test_base64_is_the_float_answer_exactly(front: Front) -> None:
    texts = ["w1 w2", "w3", "unknown words"]
    floats = await vectors(front, texts)
    assert await vectors(front, texts, encoding_format="float") == floats
    encoded = await vectors(front, texts, encoding_format="base64")
    for number, text in zip(floats, encoded, strict=True):
        assert isinstance(text, str)
        raw = base64.b64decode(text, validate=True)
        assert list(struct.unpack("<32f", raw)) == number


@pytest.mark.parametrize("wrong", ["hex", "FLOAT", "", 5])
async def test_other_encodings_are_refused(front: Front, wrong: Any) -> None:
    error = await refusal_any(front, "w1", encoding_format=wrong)
    assert "encoding_format must be one of 'float', 'base64'" in error["message"]


async def test_instruction_wraps_the_text(front: Front) -> None:
    (wrapped,) = await vectors(front, "w1", instruction="w5 w6")
    (spelled,) = await vectors(front, "Instruct: w5 w6\nQuery:w1")
    assert wrapped == pytest.approx(spelled, abs=1e-6)
    assert "not token ids" in (await refusal(front, [7], instruction="w5"))["message"]


async def test_prompts_of_the_models_files(front: Front) -> None:
    (query,) = await vectors(front, "w70 w1")
    for named in ({"prompt_name": "query"}, {"input_type": "query"}):
        (prompted,) = await vectors(front, "w1", **named)
        assert prompted == pytest.approx(query, abs=1e-6)
    (plain,) = await vectors(front, "w1")
    assert await vectors(front, "w1", input_type="classification") == [pytest.approx(plain, abs=1e-6)]
    assert "document, query" in (await refusal(front, "w1", prompt_name="poem"))["message"]
    assert "exclude" in (await refusal(front, "w1", prompt_name="query", instruction="w5"))["message"]


async def test_without_an_embedding_model_the_answer_says_what_to_do() -> None:
    service = EmbedService()
    for front in (make_front(embed=service), make_front()):
        error = await refusal(front, "w1")
        assert "tiny/bytes" in error["message"]
        assert "embedding model" in error["message"]
    service.close()


async def test_the_model_list_marks_it(service: EmbedService) -> None:
    class Listed:
        def __init__(self, id: str) -> None:
            self.id = id

    front = make_front(embed=service, list_models=lambda: [Listed("tiny/embedding"), Listed("other")])
    rows = {row["id"]: row for row in (await front.get("/v1/models")).json()["data"]}
    assert rows["tiny/embedding"]["embeddings"] is True
    assert "embeddings" not in rows["other"]
    assert rows["tiny/bytes"]["embeddings"] is False


@pytest.fixture(scope="module")
def server(front: Front) -> Iterator[str]:
    with serving(front.app) as port:
        yield f"http://127.0.0.1:{port}/v1"


def test_the_openai_sdk_which_asks_for_base64(server: str) -> None:
    with openai.OpenAI(base_url=server, api_key="unused", max_retries=0) as client:
        default = client.embeddings.create(model="text-embedding-3-small", input=["w1 w2", "w3"])
        plain = client.embeddings.create(
            model="text-embedding-3-small", input=["w1 w2", "w3"], encoding_format="float"
        )
        assert [row.embedding for row in default.data] == [row.embedding for row in plain.data]
        assert len(default.data[0].embedding) == 32
        assert default.usage.prompt_tokens == 7


def test_langchain_which_sends_openais_tokens(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    litellm = pytest.importorskip("importlib.util").find_spec("litellm")
    langchain = pytest.importorskip("langchain_openai")
    if litellm is None or litellm.origin is None:
        pytest.skip("OpenAI's vocabulary is not here; litellm carries a copy")
    folder = Path(litellm.origin).parent / "litellm_core_utils" / "tokenizers"
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(folder))
    embeddings = langchain.OpenAIEmbeddings(base_url=server, api_key="unused", max_retries=0)
    texts = ["w1 w2", "w3 w4 w5"]
    found = embeddings.embed_documents(texts)
    with openai.OpenAI(base_url=server, api_key="unused", max_retries=0) as client:
        sent = client.embeddings.create(model="x", input=texts)
    for one, other in zip(found, sent.data, strict=True):
        assert one == pytest.approx(other.embedding, abs=1e-5)


def test_a_gone_client_ends_its_work(server: str, front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    assert front.state.embed is not None
    loaded = front.state.embed.embedding()
    assert loaded is not None
    started, steps = threading.Event(), []

    def endless() -> Generator[None, None, Vectors]:
        while True:
            started.set()
            steps.append(1)
            threading.Event().wait(0.005)
            yield

    jobs: list[Job] = []
    submit = loaded.lane.submit

    def keep(job: Job) -> None:
        jobs.append(job)
        submit(job)

    monkeypatch.setattr(type(loaded.model), "passes", lambda self, items: [Pass((0,), endless())])
    monkeypatch.setattr(loaded.lane, "submit", keep)
    with httpx.Client() as client, pytest.raises(httpx.ReadTimeout):
        client.post(f"{server}/embeddings", json={"input": "w1"}, timeout=0.3)
    assert started.is_set()
    assert jobs[0].future.exception(10) is not None
    monkeypatch.undo()
    with httpx.Client() as client:  # the lane goes on with others
        assert client.post(f"{server}/embeddings", json={"input": "w1"}, timeout=10).status_code == 200


async def test_many_at_once_get_their_own(front: Front) -> None:
    texts = [f"w{n} w{n + 1}" for n in range(20)]
    alone = [(await vectors(front, text))[0] for text in texts]
    together = await asyncio.gather(*(vectors(front, text) for text in texts))
    for one, (other,) in zip(alone, together, strict=True):
        assert other == pytest.approx(one, abs=1e-5)
