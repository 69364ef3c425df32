from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stoker.library.progress import DownloadState
from stoker.library.transfer import TransferOptions

from .fake_hub import FakeHub

FAST = TransferOptions(attempts=3, backoff_s=0.01, read_timeout_s=5, min_free_bytes=0)


@dataclass(frozen=True)
class Places:
    store: Path
    cache: Path


@dataclass
class Recorder:
    """A Progress that remembers."""

    states: list[DownloadState] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def update(self, state: DownloadState) -> None:
        self.states.append(state)

    def note(self, message: str) -> None:
        self.notes.append(message)


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    """An empty store and an empty hub cache; nothing of the machine's own is seen."""
    hub_names = "HF_TOKEN HUGGING_FACE_HUB_TOKEN HF_TOKEN_PATH HF_HUB_CACHE HUGGINGFACE_HUB_CACHE HF_ENDPOINT"
    for name in (*hub_names.split(), "HF_HUB_OFFLINE", "HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("STOKER_HOME", str(tmp_path / "stoker"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("NO_PROXY", "*")
    return Places(tmp_path / "stoker" / "models", tmp_path / "hf" / "hub")


@pytest.fixture
def hub(places: Places, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    server = FakeHub()
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    yield server
    server.close()


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()
