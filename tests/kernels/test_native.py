"""Finding the native library."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from stoker.kernels import native

pytestmark = pytest.mark.skipif(native.library() is None, reason="no native kernels were built")


@pytest.fixture
def fresh() -> Iterator[None]:
    native.library.cache_clear()
    yield
    native.library.cache_clear()


def test_a_library_of_another_version_is_passed_over(
    fresh: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its structures differ: calling it would crash the server."""
    monkeypatch.setattr(native, "INTERFACE", native.INTERFACE + 1)
    with caplog.at_level(logging.WARNING):
        assert native.library() is None
    assert "reinstall" in caplog.text
