"""`stoker embed` in this process, and an embedding model served alone, on tiny random models."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import Run
from tests.cli.running import Server, Spawn
from tests.embed.tiny import make_cross_encoder, make_embedding_model


@pytest.fixture(scope="session")
def embedding_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_embedding_model(tmp_path_factory.mktemp("models") / "tiny-embedding")


@pytest.fixture(scope="session")
def reranker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny-reranker"
    make_cross_encoder(folder)
    return folder


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    return lambda text: monkeypatch.setattr(sys, "stdin", io.StringIO(text))


def test_one_vector_per_line(stoker: Run, embedding_model: Path, stdin: Callable[[str], None]) -> None:
    stdin("w1 w2\n\nw3\r\n")
    code, out, err = stoker("embed", str(embedding_model))
    assert (code, err) == (0, "")
    rows = [json.loads(line) for line in out.splitlines()]
    assert len(rows) == 3  # an empty line keeps its place
    for row, text in zip(rows, ("w1 w2", "", "w3"), strict=True):
        assert len(row) == 32
        assert np.linalg.norm(row) == pytest.approx(1, abs=1e-5)
        alone = json.loads(stoker("embed", str(embedding_model), "--text", text)[1])
        assert alone == pytest.approx(row, abs=1e-5)


def test_one_object(stoker: Run, embedding_model: Path, stdin: Callable[[str], None]) -> None:
    stdin("w1 w2\nw3\n")
    code, out, _ = stoker("embed", "--embedding-model", str(embedding_model), "--json", "--dimensions", "4")
    body = json.loads(out)
    assert code == 0
    assert body["object"] == "list"
    assert body["model"] == "tiny-embedding"
    assert body["usage"] == {"prompt_tokens": 7, "total_tokens": 7}
    assert [row["index"] for row in body["data"]] == [0, 1]
    assert [len(row["embedding"]) for row in body["data"]] == [4, 4]


def test_a_numpy_file(
    stoker: Run, embedding_model: Path, stdin: Callable[[str], None], tmp_path: Path
) -> None:
    stdin("w1 w2\nw3\n")
    code, out, err = stoker("embed", str(embedding_model), "--out", str(tmp_path / "v.npy"))
    assert (code, out) == (0, "")
    assert "2 vectors of 32 numbers" in err
    array = np.load(tmp_path / "v.npy")
    assert array.dtype == np.float32
    stdin("w1 w2\nw3\n")
    printed = [json.loads(line) for line in stoker("embed", str(embedding_model))[1].splitlines()]
    np.testing.assert_allclose(array, printed, atol=1e-6)


def test_an_instruction_is_part_of_the_text(stoker: Run, embedding_model: Path) -> None:
    told = stoker("embed", str(embedding_model), "--text", "w1", "--instruct", "w5")[1]
    assert json.loads(told) == pytest.approx(
        json.loads(stoker("embed", str(embedding_model), "--text", "Instruct: w5\nQuery:w1")[1]), abs=1e-6
    )


def test_cut_texts_are_counted(stoker: Run, embedding_model: Path, stdin: Callable[[str], None]) -> None:
    stdin("w1\n" + "w2 " * 50 + "\n")
    code, out, err = stoker("embed", str(embedding_model))
    assert code == 0
    assert len(out.splitlines()) == 2
    assert "1 texts were longer than 40 tokens" in err


def test_mistakes(stoker: Run, embedding_model: Path, tiny_model: Path, tmp_path: Path) -> None:
    assert stoker("embed", str(embedding_model), "--text", "w1", "--json", "--out", "x.npy")[0] == 2
    assert "at most 32" in stoker("embed", str(embedding_model), "--text", "w1", "--dimensions", "33")[2]
    missing = tmp_path / "no" / "v.npy"
    assert "cannot write" in stoker("embed", str(embedding_model), "--text", "w1", "--out", str(missing))[2]
    code, _, err = stoker("embed", "--text", "w1")
    assert code == 1
    assert "stoker get all-minilm-l6-v2" in err


def test_a_chat_model_that_is_named_is_the_one_that_is_used(
    stoker: Run, embedding_model: Path, tiny_model: Path, home: Path
) -> None:
    """Never another that happens to be downloaded."""
    (home / "models").mkdir(parents=True, exist_ok=True)
    (home / "models" / "tiny-embedding").symlink_to(embedding_model)
    code, default, _ = stoker("embed", "--text", "hello")
    assert code == 0
    code, named, err = stoker("embed", str(tiny_model), "--text", "hello")
    assert code == 0, err
    assert not np.allclose(json.loads(named), json.loads(default), atol=0.1)
    assert stoker("embed", "--model", str(tiny_model), "--text", "hello")[1] == named


def post(server: Server, path: str, body: object) -> tuple[int, dict[str, object]]:
    connection = server.connect()
    connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    return response.status, answer


def test_an_embedding_model_alone(spawn: Spawn, embedding_model: Path) -> None:
    server = Server(spawn("serve", str(embedding_model), "--port", "0"))
    server.wait_for("/v1/embeddings")  # the banner's example
    status, answer = post(server, "/v1/embeddings", {"input": ["w1", "w2"]})
    assert status == 200
    assert answer["usage"] == {"prompt_tokens": 6, "total_tokens": 6}
    for path, body in (
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}),
        ("/v1/completions", {"prompt": "hi"}),
    ):
        assert post(server, path, body)[0] == 400
    connection = server.connect()
    connection.request("GET", "/v1/models")
    row = json.loads(connection.getresponse().read())["data"][0]
    assert row["id"] == "tiny-embedding"
    assert row["embeddings"] is True
    assert row["capabilities"]["chat_completions"] is False
    assert row["context_window"] == 40
    connection.request("GET", "/fit")
    assert connection.getresponse().status == 200
    connection.close()


def test_both_beside_a_chat_model(
    spawn: Spawn, tiny_model: Path, embedding_model: Path, reranker: Path
) -> None:
    arguments = ("--embedding-model", str(embedding_model), "--rerank-model", str(reranker), "--port", "0")
    server = Server(spawn("serve", str(tiny_model), *arguments))
    chat, stream = server.stream(max_tokens=20_000)  # still running while the others are asked
    assert post(server, "/v1/embeddings", {"input": ["w1"] * 50})[0] == 200
    status, answer = post(server, "/v1/rerank", {"query": "w1", "documents": ["w2", "w3 w4"]})
    assert status == 200
    assert len(answer["results"]) == 2  # type: ignore[arg-type]
    assert stream.read(1)
    chat.close()


def test_a_mistaken_name_ends_the_start(stoker: Run, tiny_model: Path) -> None:
    code, _, err = stoker("serve", str(tiny_model), "--embedding-model", "nothing-like-this", "--port", "0")
    assert code == 1
    assert "nothing-like-this" in err
