"""Views of a mapped file."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from stoker.errors import CorruptModel, ModelNotFound
from stoker.models.formats.mapped import MappedFile


def test_views_share_the_mapping(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(torch.arange(8, dtype=torch.float32).numpy().tobytes())
    mapped = MappedFile(tmp_path / "file")
    first = mapped.tensor(0, (2, 4), torch.float32)
    assert first.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert mapped.tensor(8, (2,), torch.float32).data_ptr() == first.data_ptr() + 8
    assert mapped.tensor(0, (0, 3), torch.float32).shape == (0, 3)


def test_released_pages_come_back(tmp_path: Path) -> None:
    values = torch.arange(100_000, dtype=torch.int64)
    (tmp_path / "file").write_bytes(values.numpy().tobytes())
    mapped = MappedFile(tmp_path / "file")
    view = mapped.tensor(0, (100_000,), torch.int64)
    assert torch.equal(view, values)
    mapped.release(0, mapped.nbytes)
    mapped.release(5000, 3)
    assert torch.equal(view, values)


def test_odd_offsets_are_copied(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" + torch.tensor([1.5, 2.5]).numpy().tobytes())
    assert MappedFile(tmp_path / "file").tensor(1, (2,), torch.float32).tolist() == [1.5, 2.5]


def test_files_that_cannot_be_mapped(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="absent"):
        MappedFile(tmp_path / "absent")
    (tmp_path / "empty").touch()
    with pytest.raises(CorruptModel, match="empty is empty"):
        MappedFile(tmp_path / "empty")
    with pytest.raises(CorruptModel, match="cannot read"):
        MappedFile(tmp_path)
