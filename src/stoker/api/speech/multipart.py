"""A form with an upload, parsed as it arrives: the file goes to a temporary one, the fields are bounded.

The grammar is python-multipart's; what is kept, and how much of it, is decided here.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import IO

from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header

from stoker.errors import InvalidRequest

UPLOAD_FIELD = "file"
MEMORY_BYTES = 8 * 1024 * 1024  # of an upload, before it goes to disk
MAX_PARTS = 10_000  # a vocabulary may come as one part per term
MAX_FIELD_BYTES = 4 * 1024 * 1024  # all fields together
MAX_HEADER_BYTES = 8 * 1024  # of one part


@dataclass
class Form:
    fields: list[tuple[str, str]] = field(default_factory=list)
    upload: IO[bytes] | None = None
    upload_bytes: int = 0


async def read_form(chunks: AsyncIterator[bytes], content_type: str, *, max_upload_bytes: int) -> Form:
    """Raises InvalidRequest. The caller closes the upload."""
    _, options = parse_options_header(content_type)
    boundary = options.get(b"boundary")
    if not boundary or len(boundary) > 256:
        raise InvalidRequest("multipart/form-data needs a boundary")
    collector = _Collector(max_upload_bytes)
    try:
        parser = MultipartParser(boundary, collector.callbacks())  # type: ignore[arg-type]
        async for chunk in chunks:
            parser.write(chunk)
        parser.finalize()
        if not collector.complete:
            raise InvalidRequest("malformed multipart body: it ends in the middle")
    except MultipartParseError as error:
        collector.discard()
        raise InvalidRequest(f"malformed multipart body: {error}") from None
    except BaseException:
        collector.discard()
        raise
    if collector.form.upload is not None:
        collector.form.upload.seek(0)
    return collector.form


class _Collector:
    """The parser's callbacks."""

    def __init__(self, max_upload_bytes: int) -> None:
        self.form = Form()
        self.complete = False
        self._max_upload_bytes = max_upload_bytes
        self._num_parts = self._field_bytes = 0
        self._header_name = self._header_value = b""
        self._disposition = b""
        self._header_bytes = 0
        self._name = ""
        self._is_file = False
        self._text = bytearray()

    def callbacks(self) -> dict[str, object]:
        return {
            "on_part_begin": self._begin,
            "on_header_field": self._on_header_field,
            "on_header_value": self._on_header_value,
            "on_header_end": self._on_header_end,
            "on_headers_finished": self._on_headers,
            "on_part_data": self._on_data,
            "on_part_end": self._on_part_end,
            "on_end": self._on_end,
        }

    def discard(self) -> None:
        if self.form.upload is not None:
            self.form.upload.close()

    def _begin(self) -> None:
        self._num_parts += 1
        if self._num_parts > MAX_PARTS:
            raise InvalidRequest(f"the form has more than {MAX_PARTS} parts")
        self._header_name = self._header_value = self._disposition = b""
        self._header_bytes = 0
        self._text.clear()

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header_name += self._bounded(data[start:end])

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._header_value += self._bounded(data[start:end])

    def _bounded(self, piece: bytes) -> bytes:
        self._header_bytes += len(piece)
        if self._header_bytes > MAX_HEADER_BYTES:
            raise InvalidRequest(f"a part's headers are larger than {MAX_HEADER_BYTES} bytes")
        return piece

    def _on_header_end(self) -> None:
        if self._header_name.lower() == b"content-disposition":
            self._disposition = self._header_value
        self._header_name = self._header_value = b""

    def _on_headers(self) -> None:
        _, options = parse_options_header(self._disposition)
        name = options.get(b"name")
        if name is None:
            raise InvalidRequest("a part of the form has no name")
        self._name = name.decode("utf-8", "replace")
        self._is_file = b"filename" in options
        if self._name == UPLOAD_FIELD:
            if self.form.upload is not None:
                raise InvalidRequest("`file` was given more than once")
            self.form.upload = tempfile.SpooledTemporaryFile(MEMORY_BYTES)  # noqa: SIM115

    def _on_data(self, data: bytes, start: int, end: int) -> None:
        if self._name == UPLOAD_FIELD and self.form.upload is not None:
            self.form.upload_bytes += end - start
            if self.form.upload_bytes > self._max_upload_bytes:
                raise too_large(self._max_upload_bytes)
            self.form.upload.write(data[start:end])
            return
        self._field_bytes += end - start
        if self._field_bytes > MAX_FIELD_BYTES:
            raise InvalidRequest(f"the form's fields are larger than {MAX_FIELD_BYTES} bytes")
        self._text += data[start:end]

    def _on_part_end(self) -> None:
        if self._name == UPLOAD_FIELD or self._is_file:  # a file by another name is nothing we know
            return
        try:
            self.form.fields.append((self._name, self._text.decode("utf-8")))
        except UnicodeDecodeError:
            raise InvalidRequest(f"the field {self._name[:40]!r} is not valid UTF-8") from None

    def _on_end(self) -> None:
        self.complete = True


def too_large(max_bytes: int) -> InvalidRequest:
    return InvalidRequest(f"the audio is larger than {max_bytes} bytes")
