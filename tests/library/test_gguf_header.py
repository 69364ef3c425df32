"""The header reader against the format's own library, and against damage."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import gguf
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stoker.errors import CorruptModel
from stoker.library.gguf_header import FILE_TYPE_LABELS, TENSOR_BLOCKS, read_gguf_header

from .toy_models import write_gguf


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "toy.gguf")


def test_scalars_and_lengths_equal_the_reference_reader(toy: Path) -> None:
    header = read_gguf_header(toy)
    reader = gguf.GGUFReader(toy)
    for field in reader.fields.values():
        if field.name.startswith("GGUF."):
            continue
        if field.types[0] == gguf.GGUFValueType.ARRAY:
            assert header.array_lengths.pop(field.name) == len(field.data)
        else:
            assert header.metadata.pop(field.name) == field.contents()
    assert (header.metadata, header.array_lengths) == ({}, {})
    assert header.num_tensors == len(reader.tensors) == 1
    [tensor] = reader.tensors
    assert header.min_file_bytes == tensor.data_offset + tensor.n_bytes


def test_tables_equal_the_reference_library() -> None:
    sizes = {int(kind): block for kind, block in gguf.GGML_QUANT_SIZES.items()}
    assert {kind: sizes.get(kind) for kind in TENSOR_BLOCKS} == TENSOR_BLOCKS
    names = {int(kind): kind.name.removeprefix("MOSTLY_").removeprefix("ALL_") for kind in gguf.LlamaFileType}
    assert {kind: names.get(kind) for kind in FILE_TYPE_LABELS} == FILE_TYPE_LABELS


def test_every_cut_is_noticed(toy: Path, tmp_path: Path) -> None:
    content = toy.read_bytes()
    needed = read_gguf_header(toy).min_file_bytes
    cut = tmp_path / "cut.gguf"
    for length in [0, 3, 23, 24, 60, needed // 2, needed - 1]:
        cut.write_bytes(content[:length])
        with pytest.raises(CorruptModel):
            read_gguf_header(cut)
    cut.write_bytes(content[:needed])
    assert read_gguf_header(cut).num_tensors == 1


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 255)), min_size=1, max_size=6))
def test_damaged_bytes_never_raise_anything_else(
    toy: Path, tmp_path: Path, edits: list[tuple[int, int]]
) -> None:
    content = bytearray(toy.read_bytes())
    for offset, value in edits:
        content[offset % len(content)] = value
    path = tmp_path / "damaged.gguf"
    path.unlink(missing_ok=True)
    path.write_bytes(content)
    with suppress(CorruptModel):
        read_gguf_header(path)


def test_huge_counts_end_at_once(tmp_path: Path) -> None:
    path = tmp_path / "huge.gguf"
    for tail in (b"\xff" * 16, b"\1" + b"\0" * 7 + b"\xff" * 8):
        path.write_bytes(b"GGUF\3\0\0\0" + tail + b"\0" * 64)
        with pytest.raises(CorruptModel):
            read_gguf_header(path)
        path.unlink()
