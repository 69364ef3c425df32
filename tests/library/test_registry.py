from __future__ import annotations

from pathlib import Path

import pytest

from stoker.errors import AmbiguousModel, ModelNotFound
from stoker.library import find_model

from .conftest import Places
from .toy_models import write_checkpoint, write_gguf, write_snapshot

COMMIT = "a" * 40


@pytest.fixture
def installed(places: Places, tmp_path: Path) -> Places:
    source = write_checkpoint(tmp_path / "source")
    for repo_id in ("Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B-Base", "HuggingFaceTB/SmolLM2-135M-Instruct"):
        write_snapshot(places.cache, repo_id, COMMIT, source)
    write_gguf(tmp_path / "g" / "tiny-Q8_0.gguf", "gemma3")
    write_snapshot(places.cache, "org/Tiny-GGUF", COMMIT, tmp_path / "g")
    encoder = write_checkpoint(tmp_path / "e", {"architectures": ["BertModel"], "model_type": "bert"})
    write_snapshot(places.cache, "org/smol-encoder", COMMIT, encoder)
    return places


@pytest.mark.parametrize(
    ("query", "model_id"),
    [
        ("smollm2", "HuggingFaceTB/SmolLM2-135M-Instruct"),
        ("SMOLLM2-135m", "HuggingFaceTB/SmolLM2-135M-Instruct"),
        (" smollm2 ", "HuggingFaceTB/SmolLM2-135M-Instruct"),
        ("Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B"),  # exact, although it is part of another
        ("qwen/qwen3-0.6b", "Qwen/Qwen3-0.6B"),
        ("qwen3-0.6b", "Qwen/Qwen3-0.6B"),  # a whole name beats a part of one
        ("0.6b-base", "Qwen/Qwen3-0.6B-Base"),
        ("org/tiny-gguf:Q8_0", "org/Tiny-GGUF:Q8_0"),
        ("org/Tiny-GGUF", "org/Tiny-GGUF:Q8_0"),
        ("tiny-gguf:q8_0", "org/Tiny-GGUF:Q8_0"),
        ("gemma3", "org/Tiny-GGUF:Q8_0"),  # by architecture, when no id matches
    ],
)
def test_queries(installed: Places, query: str, model_id: str) -> None:
    assert find_model(query).id == model_id


def test_several_matches_list_ids_and_sizes(installed: Places) -> None:
    with pytest.raises(AmbiguousModel) as failure:
        find_model("qwen")
    assert failure.value.candidates == ("Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B-Base")
    size = find_model("Qwen/Qwen3-0.6B").size_bytes
    assert f"  Qwen/Qwen3-0.6B  ({size} B)" in failure.value.message


def test_kind_narrows_the_choice(installed: Places) -> None:
    with pytest.raises(AmbiguousModel):
        find_model("smol")
    assert find_model("smol", kinds={"chat", "text"}).id == "HuggingFaceTB/SmolLM2-135M-Instruct"
    assert find_model("smol", kinds={"embedding"}).id == "org/smol-encoder"
    with pytest.raises(ModelNotFound):
        find_model("smol", kinds={"speech"})


def test_unservable_models_are_never_in_the_way(installed: Places, tmp_path: Path) -> None:
    masked = write_checkpoint(tmp_path / "m", {"architectures": ["BertForMaskedLM"]})
    write_snapshot(installed.cache, "org/smollm2-classifier", COMMIT, masked)
    assert find_model("smollm2").id == "HuggingFaceTB/SmolLM2-135M-Instruct"
    assert find_model("smollm2-classifier").kind == "other"


def test_no_match_says_what_there_is_and_how_to_get_more(installed: Places) -> None:
    with pytest.raises(ModelNotFound) as failure:
        find_model("qwen3-0.5b")
    lines = failure.value.message.splitlines()
    assert lines[0] == "no model matches 'qwen3-0.5b'"
    assert "Qwen/Qwen3-0.6B" in lines[1]
    assert lines[1].startswith("did you mean: ")
    assert lines[2].startswith("installed: ")
    assert lines[2].count(", ") == 4
    assert lines[3] == "to download: stoker get <org/repo>"


@pytest.mark.parametrize(
    ("query", "hint"),
    [
        ("smollm2", "stoker get smollm2-135m-instruct"),
        ("org/some-model", "stoker get org/some-model"),
        ("", "stoker get <org/repo>"),
    ],
)
def test_nothing_installed(places: Places, query: str, hint: str) -> None:
    with pytest.raises(ModelNotFound) as failure:
        find_model(query)
    assert "no models are installed" in failure.value.message
    assert failure.value.message.endswith(hint)


def test_incomplete_model_is_named_with_its_reason(places: Places, tmp_path: Path) -> None:
    source = write_checkpoint(tmp_path / "c")
    (source / "model.safetensors").unlink()
    write_snapshot(places.cache, "org/half", COMMIT, source)
    with pytest.raises(ModelNotFound, match=r"org/half cannot be used: has a .* but no weights"):
        find_model("half")


def test_paths(places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_checkpoint(tmp_path / "work" / "folder")
    (folder / "tokenizer.json").unlink()  # for the loader to complain about, not for us
    file = write_gguf(tmp_path / "work" / "file.gguf")
    assert find_model(str(folder)).path == folder
    assert find_model(str(file)).path == file
    assert find_model(str(file)).id == "file"
    monkeypatch.chdir(tmp_path / "work")
    assert find_model("folder").path == folder
    assert find_model("./folder").source == "path"
    assert find_model("file.gguf").path == file
    monkeypatch.setenv("HOME", str(tmp_path / "work"))
    assert find_model("~/file.gguf").path == file
    monkeypatch.chdir(folder)
    assert find_model(".").id == "folder"


def test_path_that_is_no_model(places: Places, tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="does not exist"):
        find_model(str(tmp_path / "absent"))
    with pytest.raises(ModelNotFound, match="holds no model"):
        find_model(str(tmp_path))
    (tmp_path / "bad.gguf").write_bytes(b"x" * 100)
    with pytest.raises(ModelNotFound, match="not a GGUF file"):
        find_model(str(tmp_path / "bad.gguf"))


def test_folder_of_the_same_name_without_a_model_is_no_path(
    installed: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "smollm2").mkdir()
    monkeypatch.chdir(tmp_path)
    assert find_model("smollm2").source == "hub"


def test_folder_with_several_ggufs_asks_which(places: Places, tmp_path: Path) -> None:
    for name in ("a-Q4_0.gguf", "a-Q8_0.gguf"):
        write_gguf(tmp_path / "many" / name)
    with pytest.raises(AmbiguousModel, match="many:Q4_0"):
        find_model(str(tmp_path / "many"))
