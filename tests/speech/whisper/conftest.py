from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from stoker.library.paths import store_dir
from stoker.speech.whisper import WhisperModel, load_whisper

from . import tiny


@pytest.fixture(scope="session")
def reference() -> Any:
    return tiny.tiny_reference()


@pytest.fixture(scope="session")
def tiny_model(reference: Any, tmp_path_factory: pytest.TempPathFactory) -> WhisperModel:
    return load_whisper(tiny.write_hf(reference, tmp_path_factory.mktemp("whisper") / "hf"))


@pytest.fixture(scope="session")
def whisper_base() -> WhisperModel:
    """Real weights: `stoker get whisper-base`, or the folder STOKER_TEST_WHISPER names."""
    folder = Path(os.environ.get("STOKER_TEST_WHISPER") or store_dir() / "whisper-base")
    if not (folder / "model.bin").exists():
        pytest.skip("whisper-base is not on this machine")
    return load_whisper(folder)
