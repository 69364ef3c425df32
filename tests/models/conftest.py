"""References are made once per case and kept for the session."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .tiny_models import Reference, by_id, make_reference


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Reference]:
    made: dict[str, Reference] = {}

    def get(case_id: str) -> Reference:
        if case_id not in made:
            made[case_id] = make_reference(by_id()[case_id], tmp_path_factory.mktemp(case_id))
        return made[case_id]

    return get
