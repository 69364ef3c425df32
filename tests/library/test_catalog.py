from __future__ import annotations

import re

import pytest

from stoker.library.catalog import HubSource, PackageSource, catalog, catalog_matches, catalog_model


def test_the_four_starters() -> None:
    # ids, kinds and checksums as the design document gives them
    weights = {
        "smollm2-135m-instruct": ("chat", "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"),
        "gemma-3-270m": ("text", "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"),
        "whisper-base": ("speech", "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9"),
        "all-minilm-l6-v2": ("embedding", "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"),
    }
    assert {model.id: model.kind for model in catalog()} == {
        name: kind for name, (kind, _) in weights.items()
    }
    for model in catalog():
        assert model.kind == weights[model.id][0]
        for source in model.sources:
            assert weights[model.id][1] in [file.sha256 for file in source.files]


@pytest.mark.parametrize("model", catalog(), ids=lambda model: model.id)
def test_entries_are_consistent(model) -> None:  # type: ignore[no-untyped-def]
    assert isinstance(model.sources[0], HubSource)
    assert isinstance(model.sources[-1], PackageSource)
    packages = model.sources[-1]
    names = {package.name for package in packages.packages}
    assert {name for file in packages.files for name, _ in file.members} == names
    assert abs(sum(file.size_bytes for file in packages.files) - model.size_bytes) < 0.01 * model.size_bytes
    targets = [file.target for file in packages.files]
    assert len(set(targets)) == len(targets)
    assert {file.target for file in model.sources[0].files} <= set(targets)
    for file in packages.files:
        assert re.fullmatch(r"[0-9a-f]{64}", file.sha256)
        assert re.fullmatch(r"(\w[\w.-]*/)?\w[\w.-]*", file.target)
    assert model.license.url.startswith("https://")


def test_only_gemma_asks_for_its_terms() -> None:
    assert [model.id for model in catalog() if model.license.must_accept] == ["gemma-3-270m"]


def test_look_up() -> None:
    found = catalog_model(" SmolLM2-135M-Instruct ")
    assert found is not None
    assert found.id == "smollm2-135m-instruct"
    assert catalog_model("smollm2") is None
    assert [model.id for model in catalog_matches("MINILM")] == ["all-minilm-l6-v2"]
    assert catalog_matches("") == []
