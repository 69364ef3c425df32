"""POST /v1/rerank over the wire, in the shape of Cohere and Jina."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.api.fronts import Front, make_front
from tests.embed.services import tiny_service

from stoker.embed.service import EmbedService

DOCUMENTS = ["w9", "w10 w11 w12", "w2 w3", "w30 w31 w32"]


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    service = tiny_service(tmp_path_factory.mktemp("models"))
    yield make_front(embed=service)
    service.close()


async def rerank(front: Front, path: str = "/v1/rerank", **fields: Any) -> dict[str, Any]:
    response = await front.post(path, {"query": "w1 w2", "documents": DOCUMENTS, **fields})
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    return body


async def test_best_first_with_the_documents_own_index(front: Front) -> None:
    body = await rerank(front)
    scores = [result["relevance_score"] for result in body["results"]]
    assert scores == sorted(scores, reverse=True)
    assert sorted(result["index"] for result in body["results"]) == [0, 1, 2, 3]
    assert all(0 <= score <= 1 for score in scores)
    assert all("document" not in result for result in body["results"])
    assert body["model"] == "tiny/reranker"
    # [CLS] w1 w2 [SEP] document [SEP], four times.
    assert body["usage"] == {"prompt_tokens": 4 * 5 + 9, "total_tokens": 29}
    for result in body["results"]:  # each document alone has the same score
        (alone,) = (await rerank(front, documents=[DOCUMENTS[result["index"]]]))["results"]
        assert alone["relevance_score"] == pytest.approx(result["relevance_score"], abs=1e-5)


async def test_top_n_and_documents(front: Front) -> None:
    everything = (await rerank(front))["results"]
    body = await rerank(front, top_n=2, return_documents=True)
    assert [result["index"] for result in body["results"]] == [result["index"] for result in everything[:2]]
    for result in body["results"]:
        assert result["document"] == {"text": DOCUMENTS[result["index"]]}
    assert len((await rerank(front, top_n=99))["results"]) == 4


async def test_documents_as_objects_and_other_paths(front: Front) -> None:
    plain = (await rerank(front))["results"]
    for path in ("/rerank", "/v2/rerank"):
        assert (await rerank(front, path, documents=[{"text": text} for text in DOCUMENTS]))[
            "results"
        ] == plain


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"query": ""}, "query"),
        ({"query": None}, "query"),
        ({"documents": []}, "documents"),
        ({"documents": "w1"}, "documents"),
        ({"documents": ["w1", ""]}, "documents"),
        ({"documents": [{"title": "w1"}]}, "documents"),
        ({"documents": ["w1"] * 2049}, "documents"),
        ({"query": " ".join(["w1"] * 70)}, "query"),
        ({"documents": [" ".join(["w1"] * 70)], "truncate": False}, "documents"),
        ({"instruction": "w5"}, "instruction"),
    ],
)
async def test_refusals_name_the_field(front: Front, fields: dict[str, Any], param: str) -> None:
    response = await front.post("/v1/rerank", {"query": "w1", "documents": ["w2"], **fields})
    assert response.status_code == 400
    assert param in response.json()["error"]["message"]


async def test_long_documents_are_cut_by_default(front: Front) -> None:
    body = await rerank(front, documents=[" ".join(["w5"] * 100)])
    assert body["usage"]["prompt_tokens"] == 64


async def test_without_a_reranker_the_answer_says_what_to_do() -> None:
    service = EmbedService()
    response = await make_front(embed=service).post("/v1/rerank", {"query": "w1", "documents": ["w2"]})
    assert response.status_code == 400
    assert "--rerank-model" in response.json()["error"]["message"]
    service.close()
