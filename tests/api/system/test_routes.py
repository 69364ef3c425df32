"""/health, /stats, /metrics, /docs, and everything that is not there."""

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.api.fronts import Front, make_front

from stoker.api import ApiSettings

PATH = "/v1/chat/completions"
ASK = {"messages": [{"role": "user", "content": "hi"}]}


async def test_health_to_the_byte(front: Front) -> None:
    response = await front.get("/health")
    assert response.content == b'{"status": "ok"}'
    assert response.headers["content-type"] == "application/json"


async def test_stats(front: Front) -> None:
    await front.post(PATH, ASK)
    stats = (await front.get("/stats")).json()
    assert stats["server"]["model"] == "tiny/bytes"
    assert stats["server"]["started_at"] > 1e12  # milliseconds
    assert stats["prompt_cache"]["max_bytes"] == 0
    assert stats["kv_quant"]["mode"] == "bf16"
    assert "ssd_cache" not in stats
    assert stats["admission"]["max_safe_context"] == 4096
    assert stats["admission"]["memory_budget_bytes"] is None
    batch = stats["batch"]
    assert (batch["configured"], batch["mode"], batch["batched"]) == (8, "batch", True)
    assert (batch["active_rows"], batch["pending_rows"], batch["submitted_rows"]) == (0, 0, 1)
    assert stats["process"]["rss_bytes"] > 1e6


async def test_counters_of_cache_and_memory_reach_both_pages(front: Front) -> None:
    counters = front.engine.counters
    values = {
        "prefix_entries": 5,
        "prefix_bytes": 500,
        "prefix_max_bytes": 900,
        "prefix_hits": 4,
        "prefix_misses": 3,
        "prefix_scans": 6,
        "session_hits": 1,
        "session_misses": 2,
        "preemptions": 8,
        "kv_bytes": 700,
        "kv_projected_bytes": 1100,
        "active_rows": 5,
        "prefilling_rows": 2,
        "pending_rows": 10,
    }
    for name, value in values.items():
        setattr(counters, name, value)
    stats = (await front.get("/stats")).json()
    assert stats["prompt_cache"] == {
        "entries": 5,
        "bytes": 500,
        "max_bytes": 900,
        "hits": 4,
        "misses": 3,
        "object_hits": 0,
        "object_misses": 0,
        "object_restores": 0,
        "session_hits": 1,
        "session_misses": 2,
        "prefix_scans": 6,
    }
    batch = stats["batch"]
    assert (batch["active_rows"], batch["pending_rows"]) == (3, 12)  # a prompt under way is not decoding
    assert (batch["kv_bytes"], batch["kv_used_bytes"], batch["preemptions"]) == (1100, 700, 8)
    lines = (await front.get("/metrics")).text.splitlines()
    for line in (
        "stoker_prompt_cache_entries 5.0",
        "stoker_prompt_cache_bytes 500.0",
        "stoker_prompt_cache_max_bytes 900.0",
        "stoker_prompt_cache_hits_total 4.0",
        "stoker_prompt_cache_misses_total 3.0",
        "stoker_prompt_cache_scans_total 6.0",
        "stoker_prompt_cache_session_hits_total 1.0",
        "stoker_prompt_cache_session_misses_total 2.0",
        "stoker_rows_preempted_total 8.0",
        "stoker_kv_bytes 700.0",
        "stoker_kv_projected_bytes 1100.0",
    ):
        assert line in lines


async def test_serial_mode_shows() -> None:
    batch = (await make_front(settings=ApiSettings(batch=1)).get("/stats")).json()["batch"]
    assert (batch["configured"], batch["mode"], batch["batched"]) == (1, "off", False)


async def test_metrics() -> None:
    front = make_front(step_s=0.001)
    await front.post(PATH, ASK)
    await front.post(PATH, {})
    await front.get("/nowhere")
    response = await front.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }
    plain = {name: value for (name, labels), value in samples.items() if not labels}
    assert plain["stoker_prompt_tokens_total"] == 21
    assert plain["stoker_completion_tokens_total"] == 13
    assert plain["stoker_time_to_first_token_seconds_count"] == 1
    assert plain["stoker_inter_token_seconds_count"] == 12
    assert plain["stoker_inter_token_seconds_sum"] >= 0.012
    assert plain["stoker_prompt_wait_seconds_count"] == 1
    assert plain["stoker_engine_steps_total"] == 13
    assert plain["stoker_rows_active"] == 0
    requests = {
        (dict(labels)["route"], dict(labels)["status"]): value
        for (name, labels), value in samples.items()
        if name == "stoker_http_requests_total"
    }
    assert requests[PATH, "200"] == requests[PATH, "400"] == requests["unmatched", "404"] == 1


async def test_applications_do_not_share_metrics() -> None:
    first, second = make_front(), make_front()
    await first.post(PATH, ASK)
    assert "stoker_completion_tokens_total 0.0" in (await second.get("/metrics")).text


async def test_the_docs_page_needs_no_other_server(front: Front) -> None:
    response = await front.get("/docs")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/html")
    assert "/openapi.json" in response.text
    assert "http://" not in response.text
    assert "https://" not in response.text


async def test_the_openapi_document(front: Front) -> None:
    document = (await front.get("/openapi.json")).json()
    assert document["info"]["title"] == "stoker"
    schemas = document["components"]["schemas"]
    body = document["paths"][PATH]["post"]["requestBody"]["content"]["application/json"]["schema"]
    name = body["$ref"].rpartition("/")[2]
    assert schemas[name]["required"] == ["messages"]
    assert "422" not in str(document["paths"])


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/nope"),
        ("GET", "/"),
        ("GET", PATH),
        ("DELETE", PATH),
        ("PUT", "/v1/models"),
        ("POST", "/health"),
        ("POST", "/v1/chat/completions/"),
        ("GET", "/health/"),
        ("POST", "/api/jobs"),
    ],
)
async def test_no_such_route(front: Front, method: str, path: str) -> None:
    async with front.client() as client:
        response = await client.request(method, path)
    assert response.status_code == 404
    assert response.json() == {"error": {"message": "not found"}}


async def test_no_such_route_of_a_protocol_with_its_own_errors(front: Front) -> None:
    async with front.client() as client:
        for method, path in (("GET", "/v1/messages"), ("POST", "/v1/messages/batches?beta=true")):
            response = await client.request(method, path)
            assert response.status_code == 404
            body = response.json()
            assert body.pop("request_id") == response.headers["request-id"]
            assert body == {
                "type": "error",
                "error": {"type": "invalid_request_error", "message": "not found"},
            }
        for method, path in (("GET", "/v1/responses"), ("POST", "/v1/responses/compact")):
            response = await client.request(method, path)
            assert response.status_code == 404
            detail = {"message": "not found", "type": "invalid_request_error", "param": None, "code": None}
            assert response.json() == {"error": detail}


async def test_query_strings_are_ignored(front: Front) -> None:
    assert (await front.post(PATH + "?beta=true", ASK)).status_code == 200
    assert (await front.get("/health?x=1")).status_code == 200
