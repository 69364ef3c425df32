"""Collects the chat templates that others ship in their packages, for `tests/chat/test_vendor_templates.py`.

    pip download --no-deps --no-binary llama-cpp-python llama-cpp-python
    pip download --no-deps xinference
    python tools/vendor_templates.py FOLDER llama_cpp_python-*.tar.gz xinference-*.whl
    STOKER_TEST_TEMPLATES=FOLDER pytest tests/chat/test_vendor_templates.py

Takes `*.jinja` files and every `chat_template` in JSON files. They belong to their makers: FOLDER is no
part of this repository.
"""

from __future__ import annotations

import json
import re
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_MIN_TEMPLATE = 60  # characters; what is shorter is a placeholder
_WANTED = (".jinja", ".json")


def files_of(archive: Path) -> Iterator[tuple[str, str]]:
    """(name, text) of the files that may be or hold templates."""
    if archive.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(archive) as opened:
            for name in opened.namelist():
                if name.endswith(_WANTED):
                    yield name, opened.read(name).decode("utf-8", "replace")
        return
    with tarfile.open(archive) as tar:
        for member in tar:
            found = tar.extractfile(member) if member.name.endswith(_WANTED) else None
            if found is not None:
                yield member.name, found.read().decode("utf-8", "replace")


def templates_of(name: str, text: str) -> Iterator[tuple[str, str]]:
    """(model, template)."""
    if name.endswith(".jinja"):
        yield Path(name).stem, text
        return
    try:
        yield from _in_json(json.loads(text), Path(name).stem)
    except ValueError:
        return


def _in_json(value: Any, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, list):
        for item in value:
            yield from _in_json(item, name)
    elif isinstance(value, dict):
        template = value.get("chat_template")
        if isinstance(template, str) and len(template) >= _MIN_TEMPLATE:
            yield str(value.get("model_name", name)), template


def main() -> None:
    folder, *archives = map(Path, sys.argv[1:])
    folder.mkdir(parents=True, exist_ok=True)
    names: dict[str, str] = {}  # by template: many models share one
    for archive in archives:
        for name, text in files_of(archive):
            for model, template in templates_of(name, text):
                plain = re.sub(r"[^\w.-]", "_", model)
                names.setdefault(template, f"{archive.name.partition('-')[0]}--{plain}")
    for template, name in names.items():
        (folder / f"{name}.jinja").write_text(template, encoding="utf-8")
    print(f"{len(names)} templates")


if __name__ == "__main__":
    main()
