from __future__ import annotations

import pytest

from stoker.errors import DownloadError
from stoker.library import search
from stoker.library.hub import HubClient, HubUnreachable

from .conftest import Places
from .fake_hub import FakeHub, Fault, HubFile


def test_search_keeps_what_can_be_served(hub: FakeHub) -> None:
    hub.search_rows = [
        {
            "id": "a/llama",
            "downloads": 9,
            "likes": 2,
            "tags": ["safetensors"],
            "config": {"model_type": "llama"},
        },
        {"id": "a/weird", "downloads": 8, "tags": ["safetensors"], "config": {"model_type": "weird"}},
        {"id": "a/GGUF", "downloads": 7, "tags": ["gguf"], "gated": "manual"},
        {"id": "a/onnx", "downloads": 6, "tags": ["onnx"]},
        {"nonsense": 1},
        "nonsense",
    ]
    results = search("what is it?", architectures={"llama"})
    assert [(row.id, row.downloads, row.gated, row.formats) for row in results] == [
        ("a/llama", 9, False, ("safetensors",)),
        ("a/GGUF", 7, True, ("gguf",)),
    ]
    assert [row.id for row in search("x", limit=1)] == ["a/llama"]
    assert "search=what+is+it%3F" in hub.seen[0].path or "search=what%20is%20it%3F" in hub.seen[0].path
    assert "sort=downloads" in hub.seen[0].path


def test_search_offline(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(HubUnreachable):
        search("x")


def test_revision_is_one_path_component(hub: FakeHub) -> None:
    hub.add("org/x", {"config.json": b"{}"})
    with HubClient() as client:
        client.repo_info("org/x", "refs/pr/1")
    assert hub.seen[0].path == "/api/models/org/x/revision/refs%2Fpr%2F1?blobs=true"


@pytest.mark.parametrize("status", [429, 500, 503])
def test_hub_in_trouble_counts_as_unreachable(hub: FakeHub, status: int) -> None:
    hub.api_faults = [Fault(status=status)]
    with HubClient() as client, pytest.raises(HubUnreachable, match=str(status)):
        client.repo_info("org/x")


def test_redirect_of_the_api_is_followed_with_the_token(hub: FakeHub) -> None:
    """Renamed repositories answer with a relative redirect."""
    hub.add("org/new", {"config.json": b"{}"})
    hub.api_faults = [Fault(status=307, headers={"Location": "/api/models/org/new/revision/main?blobs=true"})]
    with HubClient(token="t") as client:
        assert client.repo_info("org/old").names() == ["config.json"]
    assert [seen.headers.get("authorization") for seen in hub.seen] == ["Bearer t", "Bearer t"]


def test_redirects_that_leave_http_or_never_end(hub: FakeHub) -> None:
    hub.add("org/x", {"config.json": b"{}"})
    with HubClient() as client:
        hub.api_faults = [Fault(status=302, headers={"Location": "file:///etc/passwd"})]
        with pytest.raises(DownloadError, match="unsafe address"):
            client.repo_info("org/x")
        hub.api_faults = [Fault(status=302, headers={"Location": "http://a:b:c/"})]
        with pytest.raises(DownloadError, match="Invalid"):
            client.repo_info("org/x")
        hub.api_faults = [Fault(status=302, headers={"Location": "/api/models/org/x/revision/main"})] * 20
        with pytest.raises(DownloadError, match="without end"):
            client.repo_info("org/x")


def test_https_is_never_left_for_http(places: Places) -> None:
    with HubClient(endpoint="https://hub.example") as client:
        with pytest.raises(DownloadError, match="unsafe address"):
            client._next_url("https://hub.example/a", "http://hub.example/a")
        assert client._next_url("https://hub.example/a/b", "c") == "https://hub.example/a/c"


@pytest.mark.parametrize(
    ("url", "same"),
    [
        ("https://hub.example/x", True),
        ("https://HUB.example:443/x", True),
        ("http://hub.example/x", False),
        ("https://hub.example:444/x", False),
        ("https://hub.example.evil/x", False),
        ("https://hub.example@evil/x", False),
        ("https://cdn.hub.example/x", False),
    ],
)
def test_the_token_is_for_one_origin(places: Places, url: str, same: bool) -> None:
    with HubClient(endpoint="https://hub.example", token="t") as client:
        assert bool(client._credentials(url)) is same


@pytest.mark.parametrize("endpoint", ["ftp://x", "hub.example", "http://", "http://a:b:c", "https://[::1"])
def test_endpoint_must_be_a_web_address(places: Places, endpoint: str) -> None:
    with pytest.raises(DownloadError, match="HF_ENDPOINT"):
        HubClient(endpoint=endpoint)


@pytest.mark.parametrize("token", ["hf_ü", "hf_a b", "hf_a\r\nX-Evil: 1"])
def test_token_must_fit_in_a_header(places: Places, token: str) -> None:
    with pytest.raises(DownloadError, match="characters that no token has"):
        HubClient(token=token)


@pytest.mark.parametrize(
    "facts", [{"size": -1}, {"size": True}, {"size": "9"}, {"sha256": "zz"}, {"sha256": None}]
)
def test_odd_facts_in_the_listing_are_asked_for_again(hub: FakeHub, facts: dict[str, object]) -> None:
    file = HubFile(b"content", facts=facts)
    hub.add("org/x", {"w.gguf": file})
    with HubClient() as client:
        info = client.repo_info("org/x")
        remote = client.remote_file(info, info.files[0])
    assert (remote.size_bytes, remote.algorithm, remote.digest) == (7, "sha256", file.digest)
