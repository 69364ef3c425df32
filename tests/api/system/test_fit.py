"""GET /fit."""

from __future__ import annotations

from tests.fakes import ScriptedEngine, byte_text_model

from stoker.api import ApiState, MachineFigures, ModelFigures, create_app
from stoker.fit import Fit

from ..fronts import Front, make_front

GB = 10**9


async def test_the_report_is_about_the_engines_context():
    engine = ScriptedEngine([65], max_context=4096)
    fit = Fit(
        usable_bytes=8 * GB, weights_bytes=2 * GB, transient_bytes=GB, token_bytes=1_000_000, window=40_000
    )
    state = ApiState(
        text=byte_text_model(),
        engine=engine,
        figures=ModelFigures(fit=fit),
        machine=MachineFigures("a chip", 16 * GB, lambda: 12.19),
    )
    answer = (await Front(create_app(state), state, engine).get("/fit")).json()
    assert answer["machine"] == {"chip": "a chip", "ram_bytes": 16 * GB, "bandwidth_gbs": 12.2}
    assert (answer["context_tokens"], answer["typical_context_tokens"]) == (4096, 4096)
    assert answer["measured_decode_tps"] is None
    assert answer["report"] == {
        "fits": True,
        "weights_bytes": 2 * GB,
        "kv_bytes": 4_096_000_000,
        "encoder_bytes": 0,
        "transient_bytes": GB,
        "total_bytes": 7_096_000_000,
        "usable_bytes": 8 * GB,
        "max_safe_context": 5000,
        "predicted_decode_tps": 2.0,  # 12.19 GB/s over 6.1 GB
    }
    assert answer["sku_matrix_ctx"] == 32768
    rows = {row["ram_gb"]: row for row in answer["sku_matrix"]}
    assert not rows[24]["fits"]  # 2 + 1 + 32.8 GB
    assert rows[24]["max_context"] == 18_600  # 21.6 - 3 GB of a megabyte each
    assert rows[48]["fits"]
    assert rows[192]["max_context"] == 40_000
    stats = (await Front(create_app(state), state, engine).get("/stats")).json()["admission"]
    assert (stats["max_safe_context"], stats["weights_bytes"]) == (5000, 2 * GB)


async def test_unknown_figures_are_zeros():
    answer = (await make_front().get("/fit")).json()
    assert answer["report"]["weights_bytes"] == 0
    assert answer["report"]["fits"] is False
