"""Discovery: GET /v1, /v1/models, /v1/models/<id>."""

from dataclasses import dataclass, replace
from typing import Any

from tests.api.fronts import Front, make_front
from tests.fakes import byte_text_model

from stoker import __version__
from stoker.api import ApiSettings
from stoker.chat.defaults import GenerationDefaults


@dataclass
class Entry:
    id: str


async def test_the_server_card(front: Front) -> None:
    card = (await front.get("/v1")).json()
    assert card["name"] == "stoker"
    assert card["version"] == __version__
    assert card["model"] == "tiny/bytes"
    assert card["compat"] == "mlx-bun/0.5.0"
    assert "POST /v1/chat/completions" in card["endpoints"]


async def test_every_endpoint_named_exists(front: Front) -> None:
    for endpoint in (await front.get("/v1")).json()["endpoints"]:
        method, path = endpoint.split()
        async with front.client() as client:
            assert (await client.request(method, path, json={})).status_code != 404


async def test_the_served_model_comes_first() -> None:
    entries = [Entry("org/other"), Entry("tiny/bytes"), Entry("org/other")]
    front = make_front(list_models=lambda: entries)
    body = (await front.get("/v1/models")).json()
    assert body["object"] == "list"
    served, other = body["data"]
    assert (served["id"], served["object"], served["owned_by"]) == ("tiny/bytes", "model", "stoker")
    assert served["context_window"] == 4096
    assert served["batch_mode"] == "batch"
    assert served["capabilities"]["chat_completions"] is True
    abilities = served["capabilities"]
    for name in ("text_completions", "anthropic_messages", "responses", "streaming", "logprobs", "tools"):
        assert abilities[name] is True
    for name in ("vision", "audio", "embeddings", "adapters", "training"):
        assert abilities[name] is served[name] is False
    assert other == {
        "id": "org/other",
        "object": "model",
        "created": served["created"],
        "vision": False,
        "tier": "targeted",
    }


async def test_one_model_by_an_id_with_slashes() -> None:
    front = make_front(list_models=lambda: [Entry("org/other")])
    for path in ("/v1/models/tiny/bytes", "/v1/models/tiny%2Fbytes"):
        body = (await front.get(path)).json()
        assert [row["id"] for row in body["data"]] == ["tiny/bytes"]
        assert (body["object"], body["id"]) == ("list", "tiny/bytes")
    assert [row["id"] for row in (await front.get("/v1/models/org/other")).json()["data"]] == ["org/other"]
    missing = await front.get("/v1/models/nobody/nothing")
    assert (missing.status_code, missing.json()) == (200, {"object": "list", "data": []})


async def test_sampling_defaults_shown() -> None:
    text = replace(byte_text_model(), generation_defaults=GenerationDefaults(temperature=0.6, top_k=20))
    front = make_front(text=text, settings=ApiSettings(top_k=5, batch=1))
    (row,) = (await front.get("/v1/models")).json()["data"]
    assert row["gen_defaults"] == {"temperature": 0.6, "top_p": None, "top_k": 5}
    assert row["batch_mode"] == "off"


async def test_a_model_without_a_template_cannot_chat() -> None:
    front = make_front(text=byte_text_model(template=None))
    (row,) = (await front.get("/v1/models")).json()["data"]
    assert row["capabilities"]["chat_completions"] is False
    assert row["capabilities"]["text_completions"] is True


async def test_a_library_that_fails_does_not_hide_the_served_model() -> None:
    def fail() -> list[Entry]:
        raise OSError("disk gone")

    body = (await make_front(list_models=fail).get("/v1/models")).json()
    assert [row["id"] for row in body["data"]] == ["tiny/bytes"]


async def served_row_of(template: str | None, **state: Any) -> dict[str, Any]:
    front = make_front(text=byte_text_model(template=template), **state)
    row: dict[str, Any] = (await front.get("/v1/models")).json()["data"][0]
    return row


async def test_thinking_is_switchable_where_the_template_reads_the_switch() -> None:
    assert (await served_row_of("{{ messages }}"))["reasoning"] is False
    assert (await served_row_of("{{ enable_thinking }}{{ messages }}"))["reasoning"] is True


async def test_structured_output_needs_grammars() -> None:
    assert (await served_row_of("{{ messages }}"))["structured_output"] is False
    compiling = await served_row_of("{{ messages }}", compile_constraint=lambda constraint: None)
    assert compiling["structured_output"] is True


async def test_without_a_template_no_protocol_of_conversations() -> None:
    abilities = (await served_row_of(None))["capabilities"]
    assert not any(abilities[name] for name in ("anthropic_messages", "responses", "tools"))
    assert abilities["text_completions"] is True
